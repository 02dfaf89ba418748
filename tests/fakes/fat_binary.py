"""Fat binaries, made by hand."""

import struct

HOST = b"\x7fELF" + bytes(14) + struct.pack("<H", 62) + bytes(44)


def entry(kind, arch, body, flags=0x11, size=0):
    packed = len(body)
    body += bytes(-len(body) % 8)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(body), packed, 0, 0, 9, arch, 0, 0, flags, 0, size
    )
    return head + body


def fatbin(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body

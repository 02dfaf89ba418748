"""The device code inside of files: fat binaries, and what host compilers make of them.

A fat binary is a header (magic, version, size) and entries of PTX or ELF, one for each architecture, each
perhaps compressed. Objects, libraries and programs of a host have one or more in a section. NVIDIA documents
no layout: this is that of nvcc 11 to 13, as `cuobjdump` and the CUDA driver read it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ptxbench.core.errors import InputError

ELF = b"\x7fELF"
_CUDA_MACHINE = 190
_ARCHIVE = b"!<arch>\n"
_MEMBER_HEADER = 60
_MAGIC = 0xBA55ED50
_FILE = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _ELF = 1, 2
_CODECS = {0x2000: "lz4_raw", 0x8000: "zstd"}
# Of an unpacked member: a larger size is damage; chosen.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class DeviceImage:
    """PTX or machine code of one architecture.

    Attributes:
        arch: Compute capability, such as 90.
        is_ptx: Whether it is PTX, else an ELF file.
        data: The image; "" where it is neither: a link with optimization would make code of it.
    """

    arch: int
    is_ptx: bool
    data: bytes

    @property
    def name(self) -> str:
        """What it is, such as "PTX of sm_90"."""
        if not self.data:
            return f"code of sm_{self.arch} that is not linked yet"
        return f"{'PTX' if self.is_ptx else 'machine code'} of sm_{self.arch}"


def is_cubin(code: bytes) -> bool:
    """Return whether some bytes are an ELF file of a GPU."""
    return code.startswith(ELF) and len(code) > 20 and code[18:20] == struct.pack("<H", _CUDA_MACHINE)


def device_images(code: bytes, what: str) -> tuple[DeviceImage, ...]:
    """Return the images in a fat binary, or in an object, a library or a program of a host.

    Args:
        code: The file.
        what: Where it comes from, for messages.

    Raises:
        InputError: A fat binary is cut, or packed in a way that is not known.
    """
    if code.startswith(_ARCHIVE):
        return tuple(image for member in _members(code) for image in device_images(member, what))
    magic = struct.pack("<I", _MAGIC)
    found: list[DeviceImage] = []
    at = code.find(magic)
    while at >= 0:
        end = at + 1
        if at % 8 == 0 and at + _FILE.size <= len(code):
            _, _, header, size = _FILE.unpack_from(code, at)
            end = at + header + size
            if header < _FILE.size or end > len(code):
                raise InputError(f"{what}: its fat binary is cut; make the file again")
            found += _entries(code[at + header : end], what)
        at = code.find(magic, end)
    return tuple(found)


def require_ptx(code: bytes, what: str, make: str = "") -> None:
    """Refuse a file that holds no image and is no PTX with an entry.

    Args:
        code: The file.
        what: Where it comes from, for messages.
        make: What the message ends with: how to make a file that fits.

    Raises:
        InputError: It is none.
    """
    if code.startswith(ELF):
        raise InputError(f"{what} holds no code of a GPU; name the file that has the kernel")
    if b".target" not in code or b".entry" not in code:
        raise InputError(
            f"{what} is neither PTX with an entry nor a cubin, a fat binary or a host's file with one{make}"
        )


def _members(archive: bytes) -> Iterator[bytes]:
    """Return the files in a static library, without libraries; a member begins at any even place."""
    at = len(_ARCHIVE)
    while at + _MEMBER_HEADER <= len(archive):
        size = archive[at + 48 : at + 58].strip()
        begin = at + _MEMBER_HEADER
        if not size.isdigit():
            return
        at = begin + int(size)
        if not archive.startswith(_ARCHIVE, begin):
            yield archive[begin:at]
        at += at % 2


def _entries(data: bytes, what: str) -> Iterator[DeviceImage]:
    at = 0
    while at + _ENTRY.size <= len(data):
        kind, _, header, size, packed, _, _, _, arch, _, _, flags, _, unpacked = _ENTRY.unpack_from(data, at)
        if header < _ENTRY.size or at + header + size > len(data):
            raise InputError(f"{what}: its fat binary is cut; make the file again")
        body = data[at + header : at + header + size]
        image = _unpacked(body, packed, unpacked, flags, what) if kind in (_PTX, _ELF) else b""
        yield DeviceImage(arch, kind == _PTX, image)
        at += header + size


def _unpacked(body: bytes, packed: int, size: int, flags: int, what: str) -> bytes:
    """Return an image as it was before it was compressed; PTX without the zeros behind it."""
    codec = next((name for flag, name in _CODECS.items() if flags & flag), "")
    if codec:
        import pyarrow as pa

        if not 0 < size <= _MOST_BYTES:
            raise InputError(f"{what}: its fat binary is cut; make the file again")
        try:
            body = pa.decompress(body[:packed], size, codec=codec, asbytes=True)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{what}: its fat binary does not unpack ({error}); make it without compression"
            ) from error
    return body if body.startswith(ELF) else body.rstrip(b"\0")

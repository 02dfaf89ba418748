"""What a cubin says that its kernels take: registers and stack, from the ELF section .nv.info."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ptxbench.core.errors import RefusedModuleError

_MAGIC = b"\x7fELF\x02\x01"
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
# Attributes of .nv.info (cuobjdump calls them EIATTR_...) that hold a symbol and a number.
_REGCOUNT, _FRAME_SIZE = 0x2F, 0x11
# Attributes of .nv.info.KERNEL that hold three sizes of a block: .maxntid and .reqntid.
_MAX_THREADS, _REQUIRED_THREADS = 0x05, 0x10
_HAS_SIZE = 0x04
OF_KERNEL = ".nv.info."
# The section that holds a kernel's static shared memory. From sm_90 on it begins with what the system
# reserves of every block, by ptxas and by the driver's JIT alike.
_SHARED = ".nv.shared."
_RESERVED_FROM, _RESERVED_BYTES = 90, 1024
# Where an ELF header says the SM: its flags, by its ABI (CUDA 13 has another than those before it).
_ABI_AT, _FLAGS_AT, _CUDA_13_ABI = 7, 0x30, 0x41


@dataclass(frozen=True)
class Resources:
    """What one kernel takes.

    Attributes:
        registers: Registers of a thread, as they are allotted.
        stack_bytes: Local memory of a thread; what it spills is there.
        shared_bytes: Static shared memory of a block, without what the system reserves.
        max_threads: Most threads of a block by its launch bounds; 0: they say nothing.
        required_threads: Threads that a block must have by its launch bounds; 0: they say nothing.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    max_threads: int
    required_threads: int


@dataclass(frozen=True)
class Section:
    """A section of an ELF file; its size counts where it has no data, too."""

    name: str
    kind: int
    data: bytes
    link: int
    size: int


def kernel_resources(image: bytes) -> dict[str, Resources]:
    """Return what each kernel of a cubin takes, by its name.

    Raises:
        RefusedModuleError: The image is no cubin, or does not say it.
    """
    try:
        found_sections = sections(image)
        names = _symbol_names(found_sections)
        info = next(s.data for s in found_sections if s.name == ".nv.info")
        found: dict[str, dict[int, int]] = {}
        for attribute, symbol, value in _numbers(info):
            found.setdefault(names[symbol], {})[attribute] = value
        shared = {s.name.removeprefix(_SHARED): s.size for s in found_sections if s.name.startswith(_SHARED)}
        reserved = reserved_bytes(image)
        own = {s.name.removeprefix(OF_KERNEL): s.data for s in found_sections if s.name.startswith(OF_KERNEL)}
        return {
            name: Resources(
                values[_REGCOUNT],
                values.get(_FRAME_SIZE, 0),
                max(0, shared.get(name, 0) - reserved),
                _threads(own.get(name, b""), _MAX_THREADS),
                _threads(own.get(name, b""), _REQUIRED_THREADS),
            )
            for name, values in found.items()
            if _REGCOUNT in values
        }
    except (struct.error, IndexError, StopIteration, ValueError) as error:
        raise RefusedModuleError("the cubin does not say what its kernels take (.nv.info)") from error


def cubin_capability(image: bytes) -> int:
    """Return the compute capability times ten that a cubin is assembled for.

    Raises:
        RefusedModuleError: The image is no cubin.
    """
    if not image.startswith(_MAGIC) or len(image) < _FLAGS_AT + 4:
        raise RefusedModuleError("the code is no cubin")
    (flags,) = struct.unpack_from("<I", image, _FLAGS_AT)
    return int((flags >> 8 if image[_ABI_AT] == _CUDA_13_ABI else flags) & 0xFF)


def reserved_bytes(image: bytes) -> int:
    """Return what the system reserves of each block's shared memory, at its begin."""
    return _RESERVED_BYTES if cubin_capability(image) >= _RESERVED_FROM else 0


def sections(image: bytes) -> list[Section]:
    """Return the sections of a cubin.

    Raises:
        ValueError: The image is no 64-bit ELF file.
        struct.error: It is cut off.
    """
    if not image.startswith(_MAGIC):
        raise ValueError("no 64-bit ELF")
    (offset,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", image, 0x3A)
    headers = [_SECTION_HEADER.unpack_from(image, offset + n * size) for n in range(count)]
    names = headers[names_at][4]
    return [
        Section(_text(image, names + h[0]), h[1], image[h[4] : h[4] + h[5]] if h[1] != 8 else b"", h[6], h[5])
        for h in headers
    ]


def _symbol_names(found: list[Section]) -> list[str]:
    table = next(s for s in found if s.kind == _SYMBOL_TABLE)
    strings = found[table.link].data
    return [_text(strings, symbol[0]) for symbol in _SYMBOL.iter_unpack(table.data)]


def _numbers(info: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield attribute, symbol and value of the attributes that are wanted."""
    for attribute, data in attributes(info):
        if attribute in (_REGCOUNT, _FRAME_SIZE):
            yield (attribute, *struct.unpack_from("<II", data))


def _threads(info: bytes, wanted: int) -> int:
    """Return the threads of a block that an attribute of three sizes says; 0 where it is not there."""
    sizes = (struct.unpack_from("<III", data) for attribute, data in attributes(info) if attribute == wanted)
    return math.prod(next(sizes, (0,)))


def attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes that have a size, with their data."""
    at = 0
    while at + 4 <= len(info):
        shape, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if shape == _HAS_SIZE:
            yield attribute, info[at : at + size]
            at += size


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()

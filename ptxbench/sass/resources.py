"""What a cubin says that its kernels take: registers and stack, from the ELF section .nv.info."""

from __future__ import annotations

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
_HAS_SIZE = 0x04
# The section that holds a kernel's static shared memory.
_SHARED = ".nv.shared."


@dataclass(frozen=True)
class Resources:
    """What one kernel takes.

    Attributes:
        registers: Registers of a thread, as they are allotted.
        stack_bytes: Local memory of a thread; what it spills is there.
        shared_bytes: Static shared memory of a block.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int = 0


@dataclass(frozen=True)
class _Section:
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
        sections = _sections(image)
        names = _symbol_names(sections)
        info = next(s.data for s in sections if s.name == ".nv.info")
        found: dict[str, dict[int, int]] = {}
        for attribute, symbol, value in _numbers(info):
            found.setdefault(names[symbol], {})[attribute] = value
        shared = {s.name.removeprefix(_SHARED): s.size for s in sections if s.name.startswith(_SHARED)}
        return {
            name: Resources(values[_REGCOUNT], values.get(_FRAME_SIZE, 0), shared.get(name, 0))
            for name, values in found.items()
            if _REGCOUNT in values
        }
    except (struct.error, IndexError, StopIteration, ValueError) as error:
        raise RefusedModuleError("the cubin does not say what its kernels take (.nv.info)") from error


def _sections(image: bytes) -> list[_Section]:
    if not image.startswith(_MAGIC):
        raise ValueError("no 64-bit ELF")
    (offset,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", image, 0x3A)
    headers = [_SECTION_HEADER.unpack_from(image, offset + n * size) for n in range(count)]
    names = headers[names_at][4]
    return [
        _Section(
            _text(image, names + h[0]), h[1], image[h[4] : h[4] + h[5]] if h[1] != 8 else b"", h[6], h[5]
        )
        for h in headers
    ]


def _symbol_names(sections: list[_Section]) -> list[str]:
    table = next(s for s in sections if s.kind == _SYMBOL_TABLE)
    strings = sections[table.link].data
    return [_text(strings, symbol[0]) for symbol in _SYMBOL.iter_unpack(table.data)]


def _numbers(info: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield attribute, symbol and value of the attributes that are wanted."""
    at = 0
    while at + 4 <= len(info):
        shape, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if shape != _HAS_SIZE:
            continue
        if attribute in (_REGCOUNT, _FRAME_SIZE):
            yield (attribute, *struct.unpack_from("<II", info, at))
        at += size


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()

"""The memory that a captured step works on: found, saved, restored, and compared byte by byte."""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError, LaunchError
from ptxbench.devices.device_buffer import Call

Bytes = npt.NDArray[np.uint8]
# No allocation lies below the first or above the second.
_LOWEST, _HIGHEST = 1 << 16, 1 << 57
_WORD = 8
# What is compared at once.
_PIECE_BYTES = 64 << 20
# What is found to change as a whole.
_FINE_BYTES = 1 << 20
# Device memory that is left to others.
_LEFT_BYTES = 512 << 20


@dataclass(frozen=True, order=True)
class Range:
    """Some memory.

    Attributes:
        start: Its address.
        size: Bytes.
        on_host: Whether it is the host's.
    """

    start: int
    size: int
    on_host: bool = False

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.start + self.size

    def pieces(self, size: int = 0) -> Iterator[Range]:
        """Yield its parts, each of a size, or small enough to be looked at on the host."""
        size = size or _PIECE_BYTES
        for offset in range(0, self.size, size):
            yield Range(self.start + offset, min(size, self.size - offset), self.on_host)


def changing(call: Call, ranges: Sequence[Range], run: Callable[[], object]) -> tuple[Range, ...]:
    """Return what of some device memory changes the second time that something runs.

    What only writes finds the same again; what reads that it wrote goes on from there.

    Args:
        call: Calls a function of the driver by name.
        ranges: The memory.
        run: Runs it, without a wait for its end.
    """
    pieces = [(piece, number) for number, one in enumerate(ranges) for piece in one.pieces(_FINE_BYTES)]
    run()
    call("cuCtxSynchronize")
    before = [read(call, piece) for piece, _ in pieces]
    run()
    call("cuCtxSynchronize")
    into = np.empty(_FINE_BYTES, np.uint8)
    changed = [
        one
        for one, was in zip(pieces, before, strict=True)
        if not np.array_equal(was, read(call, one[0], into))
    ]
    return _merged(changed)


def read(call: Call, one: Range, into: Bytes | None = None) -> Bytes:
    """Return memory as it is now, on the host."""
    data = np.empty(one.size, np.uint8) if into is None else into[: one.size]
    if one.on_host:
        ctypes.memmove(data.ctypes.data, one.start, one.size)
    else:
        call("cuMemcpyDtoH", data.ctypes.data, one.start, one.size)
    return data


def _merged(pieces: Sequence[tuple[Range, int]]) -> tuple[Range, ...]:
    """Return pieces, each with the number of its allocation; those of one that follow each other as one."""
    found: list[tuple[Range, int]] = []
    for piece, number in pieces:
        if found and found[-1][1] == number and found[-1][0].end == piece.start:
            found[-1] = (Range(found[-1][0].start, found[-1][0].size + piece.size), number)
        else:
            found.append((piece, number))
    return tuple(one for one, _ in found)


def words_of(parameter: bytes) -> Iterator[int]:
    """Yield what could be addresses in a parameter of a kernel, or in a structure that is one."""
    whole = len(parameter) - len(parameter) % _WORD
    for (word,) in np.frombuffer(parameter[:whole], dtype="<u8").reshape(-1, 1).tolist():
        if _LOWEST <= word < _HIGHEST:
            yield word


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return ranges in order, those that overlap as one.

    Those that only touch may be two allocations, and the driver refuses a copy that reaches from one into
    another.
    """
    found: list[Range] = []
    for one in sorted(ranges, key=lambda r: (r.on_host, r.start)):
        last = found[-1] if found else None
        if last is not None and last.on_host == one.on_host and one.start < last.end:
            found[-1] = Range(last.start, max(last.end, one.end) - last.start, one.on_host)
        elif one.size:
            found.append(one)
    return tuple(found)


def host_room() -> int:
    """Return how much memory of the host is free, bytes."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def allocation_of(call: Call, attributes: Any, address: int, ordinal: int) -> Range | None:
    """Return the allocation that an address lies in, None where it lies in none.

    Args:
        call: Calls a function of the driver by name.
        attributes: The driver's CUpointer_attribute.
        address: What may be one.
        ordinal: Number of the GPU, as CUDA counts.

    Raises:
        InputError: It is memory that cannot be saved: managed, or another GPU's.
    """

    def ask(name: str) -> int:
        attribute = getattr(attributes, f"CU_POINTER_ATTRIBUTE_{name}")
        return int(call("cuPointerGetAttribute", attribute, address))

    try:
        kind = ask("MEMORY_TYPE")
    except LaunchError:
        return None
    if ask("IS_MANAGED"):
        raise InputError(
            "the step works on managed memory, which cannot be saved and restored: use device memory"
        )
    on_host = kind == 1
    if not on_host and ask("DEVICE_ORDINAL") != ordinal:
        raise InputError("the step works on memory of another GPU: profile a step of one GPU")
    return Range(ask("RANGE_START_ADDR"), ask("RANGE_SIZE"), on_host)


class SavedMemory:
    """A copy of some memory, on the GPU where it has the room, else on the host.

    Args:
        call: Calls a function of the driver by name.
        ranges: What to save.

    Raises:
        InputError: There is room for it nowhere.
    """

    def __init__(self, call: Call, ranges: Sequence[Range]) -> None:
        self._call = call
        self._ranges = joined(ranges)
        self._on_device: list[int] = []
        self._copies: list[int | Bytes] = []
        try:
            for one in self._ranges:
                self._copies.append(self._saved(one))
        except (LaunchError, MemoryError) as error:
            self.close()
            raise InputError(
                f"{self.size / 1e9:.3g} GB of memory that the step works on cannot be saved: {error}"
            ) from error
        self._sums = self._checksums()

    @property
    def size(self) -> int:
        """Bytes that are saved."""
        return sum(one.size for one in self._ranges)

    def restore(self) -> None:
        """Write everything back; what is launched next runs behind it."""
        for one, copy in zip(self._ranges, self._copies, strict=True):
            if isinstance(copy, int):
                self._call("cuMemcpyDtoDAsync", one.start, copy, one.size, 0)
            elif one.on_host:
                self._call("cuCtxSynchronize")
                ctypes.memmove(one.start, copy.ctypes.data, one.size)
            else:
                self._call("cuMemcpyHtoD", one.start, copy.ctypes.data, one.size)

    def changed_bytes(self) -> int:
        """Return the bytes of the pieces that differ, by their checksums, from what was saved."""
        pieces = [piece for one in self._ranges for piece in one.pieces()]
        sums = zip(pieces, self._sums, self._checksums(), strict=True)
        return sum(piece.size for piece, before, now in sums if before != now)

    def close(self) -> None:
        """Release the copy."""
        while self._on_device:
            self._call("cuMemFree", self._on_device.pop())
        self._copies.clear()

    def _saved(self, one: Range) -> int | Bytes:
        free_bytes, _ = self._call("cuMemGetInfo")
        copy = 0
        if not one.on_host and one.size <= int(free_bytes) - _LEFT_BYTES:
            # Free memory may be in pieces.
            with suppress(LaunchError):
                copy = int(self._call("cuMemAlloc", one.size))
        if not copy:
            if one.size > host_room():
                raise MemoryError("neither the GPU nor the host has the room")
            return read(self._call, one)
        self._on_device.append(copy)
        self._call("cuMemcpyDtoDAsync", copy, one.start, one.size, 0)
        return copy

    def _checksums(self) -> list[int]:
        self._call("cuCtxSynchronize")
        into = np.empty(_PIECE_BYTES, np.uint8)
        return [
            zlib.crc32(read(self._call, piece, into).data) for one in self._ranges for piece in one.pieces()
        ]

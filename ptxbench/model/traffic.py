"""Bytes and accesses of a launch by memory level, from the addresses that its code shows.

Counted by ncu on an H200, streams of any width keep to these (results/nvidia-h200/validation, within 3%): L2
touches what SMs read and write and half of what DRAM moves, since half of that goes to its other half; a line
of DRAM is requested once more, and missed twice, once in either half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ptxbench.core.threads import BANK_BYTES, BANKS, LINE_BYTES, SECTOR_BYTES, WARP
from ptxbench.core.wrap import first_of
from ptxbench.model.addresses import Launch, MemoryAccess
from ptxbench.model.work import Access, Level

# Of what DRAM moves so much more goes through L2, and misses of a line of it: ncu counted so for all streams,
# within 3% (studies/model/fit.md, "Bytes").
_FABRIC = 0.5
_MISSES_A_LINE = 2
# What is not known of at most this share of the accesses is taken to be like the rest.
_FEW = 0.2
_LOCAL = ("LDL", "STL")
_SHOWN = 4

# Steps in bytes and how often each is made.
_Dims = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Traffic:
    """Bytes and accesses of a launch.

    Attributes:
        bytes_moved: Bytes by memory level.
        accesses: Accesses by kind.
        cold_bytes: What DRAM moves in addition if nothing is in L2 before; 0 where it moves all.
        missing: What is not known, a phrase each: then the others are a lower bound.
        notes: What was taken for granted, a sentence each.
        requested: Bytes that the load or store at each address asks L1 or shared memory for.
    """

    bytes_moved: tuple[tuple[Level, float], ...]
    accesses: tuple[tuple[Access, float], ...]
    cold_bytes: float
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    requested: Mapping[int, float]


@dataclass(frozen=True)
class GivenBytes:
    """What the caller knows of the bytes of a launch, NaN where nothing.

    Attributes:
        dram_bytes: Bytes that DRAM reads and writes.
        l2_bytes: Bytes that the SMs read from and write to L2.
    """

    dram_bytes: float = math.nan
    l2_bytes: float = math.nan


UNKNOWN_BYTES = GivenBytes()


@dataclass(frozen=True)
class Caches:
    """What a GPU keeps for a launch.

    Attributes:
        l2_bytes: Bytes of L2; NaN: nothing stays there.
        l1_block_bytes: What of an SM's L1 a block has, beside those that share it.
        at_once: Blocks that run at once.
    """

    l2_bytes: float
    l1_block_bytes: float
    at_once: int


@dataclass
class Asked:
    """What warps ask of L1 and of L2, before any of it is found in a cache."""

    read_bytes: float = 0.0
    read_lines: float = 0.0
    written_bytes: float = 0.0
    written_lines: float = 0.0
    wavefronts: float = 0.0
    shared_bytes: float = 0.0


def traffic_of(
    accesses: Mapping[int, MemoryAccess],
    executions: Mapping[int, float],
    launch: Launch,
    passes: Mapping[int, float],
    caches: Caches,
    given: GivenBytes,
) -> Traffic:
    """Return the bytes and accesses of a launch.

    Args:
        accesses: Its loads and stores by the address of their instruction.
        executions: How often a thread executes each.
        launch: Its shape.
        passes: Passes of its loops by number.
        caches: Of the GPU.
        given: What the caller knows.
    """
    raw = Asked()
    warps = math.prod(launch.grid) * launch.warps
    done = {at: one for at, one in accesses.items() if executions.get(at)}
    done, unlike = _like_the_rest(done, executions)
    requested = {at: _ask(raw, one, warps * executions[at]) for at, one in done.items()}
    remote = {at: one for at, one in done.items() if not one.shared and one.instruction.base not in _LOCAL}
    unknown = [f"{at:#x}" for at, one in remote.items() if not one.is_affine and at not in unlike]
    read_bytes = raw.read_bytes
    loads, stores = ([one for one in remote.values() if one.stores is kind] for kind in (False, True))
    if not unknown:
        read_bytes = min(read_bytes, _read_past_l1(loads, launch, passes, read_bytes, caches.l1_block_bytes))
    whole = _Footprints(launch, passes, of_block=False)
    data_bytes = whole.of(remote.values())
    once_bytes = whole.of(loads) + whole.of(stores)
    moved_bytes = once_bytes
    if data_bytes * min(caches.at_once / launch.blocks, 1.0) > caches.l2_bytes:
        moved_bytes = whole.of(stores) + sum(map(whole.of, _by_loops(loads)))
    stays = data_bytes <= caches.l2_bytes
    dram_bytes = 0.0 if stays else moved_bytes
    cold_bytes = moved_bytes if stays else 0.0
    missing = []
    if math.isfinite(given.l2_bytes):
        read_bytes = max(given.l2_bytes - raw.written_bytes, 0.0)
    elif unknown:
        missing.append(
            f"what SMs read from L2 (`l2_bytes`): addresses at {first_of(unknown, _SHOWN)} are not affine"
        )
    if math.isfinite(given.dram_bytes):
        dram_bytes, cold_bytes = given.dram_bytes, 0.0
    elif unknown:
        missing.append(
            f"what DRAM moves (`dram_bytes`): addresses at {first_of(unknown, _SHOWN)} are not affine"
        )
    moved, counted = by_level(raw, read_bytes, dram_bytes)
    notes = []
    if remote and not missing:
        notes.append(_note(data_bytes, dram_bytes, cold_bytes, given, again=moved_bytes > once_bytes))
    if unlike:
        places = first_of([f"{at:#x}" for at in unlike], _SHOWN)
        notes.append(
            f"addresses at {places} are not known, and taken to be among those of the other accesses"
        )
    return Traffic(moved, counted, cold_bytes, tuple(missing), tuple(notes), requested)


def by_level(
    raw: Asked, read_bytes: float, dram_bytes: float
) -> tuple[tuple[tuple[Level, float], ...], tuple[tuple[Access, float], ...]]:
    """Return bytes by memory level and accesses by kind.

    Args:
        raw: What warps ask for.
        read_bytes: What SMs read from L2.
        dram_bytes: What DRAM reads and writes.
    """
    lines = dram_bytes / LINE_BYTES
    share = min(read_bytes / raw.read_bytes, 1.0) if raw.read_bytes else 0.0
    moved = {
        Level.L1: raw.read_bytes + raw.written_bytes,
        Level.SHARED: raw.shared_bytes,
        Level.CROSSBAR: read_bytes,
        Level.L2: read_bytes + raw.written_bytes + _FABRIC * dram_bytes,
        Level.DRAM: dram_bytes,
    }
    counted = {
        Access.L1_WAVEFRONT: raw.wavefronts,
        Access.L2_REQUEST: share * raw.read_lines + raw.written_lines + lines,
        Access.L2_MISS: _MISSES_A_LINE * lines,
    }
    return tuple(moved.items()), tuple(counted.items())


def wavefronts(lines: float, width: float) -> float:
    """Return what the tag stage of L1 hands on at once for one warp's access.

    Args:
        lines: Lines of 128 bytes that it asks for.
        width: Bytes of a lane.
    """
    least = math.ceil(WARP * width / LINE_BYTES)
    return 1.0 if lines <= least else max(lines / 2, 1.0)


def _like_the_rest(
    accesses: Mapping[int, MemoryAccess], executions: Mapping[int, float]
) -> tuple[dict[int, MemoryAccess], tuple[int, ...]]:
    """Return accesses; a few that are not known take words side by side, and which these are."""
    unknown = tuple(at for at, one in accesses.items() if not one.shared and not one.is_affine)
    whole = sum(executions[at] for at, one in accesses.items() if not one.shared)
    if not sum(executions[at] for at in unknown) < _FEW * whole:
        return dict(accesses), ()
    beside = {at: replace(accesses[at], lanes=np.arange(WARP) * accesses[at].width) for at in unknown}
    return {**accesses, **beside}, unknown


def _note(data_bytes: float, dram_bytes: float, cold_bytes: float, given: GivenBytes, *, again: bool) -> str:
    by = f"by the addresses of its code it works on {data_bytes:.4g} bytes"
    if math.isfinite(given.dram_bytes):
        return f"{by}; those of DRAM are given"
    if cold_bytes:
        return (
            f"{by}, which L2 holds: they are taken to be there, and the interval reaches to {cold_bytes:.4g}"
            " bytes from DRAM (`dram_bytes`)"
        )
    once = "once,"
    if again:
        once = "once for each loop that reads it, as the blocks that run at once take more than L2,"
    return f"{by}, more than L2 holds: DRAM is taken to move each line {once} {dram_bytes:.4g} bytes"


def _ask(raw: Asked, one: MemoryAccess, warps: float) -> float:
    """Add what some warps ask for, and return it in bytes."""
    lanes, width = one.lanes, one.width
    if one.shared:
        shared_bytes = warps * LINE_BYTES * _bank_passes(one)
        raw.shared_bytes += shared_bytes
        return shared_bytes
    if one.instruction.base in _LOCAL:
        # The driver lays the stacks of a warp's threads side by side.
        lanes = np.arange(WARP) * width
    if lanes is None:
        sectors, lines = WARP * math.ceil(width / SECTOR_BYTES), WARP
    else:
        starts = lanes + one.offset % LINE_BYTES
        sectors = _parts(starts, width, SECTOR_BYTES)
        lines = _parts(starts, width, LINE_BYTES)
    raw.wavefronts += warps * wavefronts(lines, width)
    if one.stores:
        raw.written_bytes += warps * sectors * SECTOR_BYTES
        raw.written_lines += warps * lines
    else:
        raw.read_bytes += warps * sectors * SECTOR_BYTES
        raw.read_lines += warps * lines
    return warps * sectors * SECTOR_BYTES


def _parts(starts: np.ndarray, width: int, size: int) -> int:
    """Return how many aligned parts of memory some words touch."""
    return len(np.unique(np.concatenate([starts // size, (starts + width - 1) // size])))


def _bank_passes(one: MemoryAccess) -> int:
    """Return how often shared memory is read for one warp: the words of a bank go one after the other."""
    if one.lanes is None:
        return math.ceil(WARP * one.width / LINE_BYTES)
    words = one.lanes[:, None] // BANK_BYTES + np.arange(max(one.width // BANK_BYTES, 1))
    return int(np.bincount(np.unique(words) % BANKS).max())


def _read_past_l1(
    loads: Sequence[MemoryAccess],
    launch: Launch,
    passes: Mapping[int, float],
    raw_bytes: float,
    l1_block_bytes: float,
) -> float:
    """Return what blocks read where L1 keeps what they read before, or all where that is too much for it."""
    block_bytes = _Footprints(launch, passes, of_block=True).of(loads)
    return launch.blocks * block_bytes if block_bytes <= l1_block_bytes else raw_bytes


def _by_loops(accesses: Iterable[MemoryAccess]) -> Iterable[list[MemoryAccess]]:
    """Return accesses by the loops that they go on in: what another loop read is long gone."""
    groups: dict[tuple[int, ...], list[MemoryAccess]] = {}
    for one in accesses:
        groups.setdefault(tuple(sorted(one.steps.passes)), []).append(one)
    return groups.values()


class _Footprints:
    """How many distinct bytes accesses touch, of one block or of all."""

    def __init__(self, launch: Launch, passes: Mapping[int, float], *, of_block: bool) -> None:
        self._launch, self._passes, self._of_block = launch, passes, of_block

    def of(self, accesses: Iterable[MemoryAccess]) -> float:
        """Return the bytes; those of accesses that go alike over one array count once."""
        groups: dict[tuple[object, ...], dict[tuple[int, _Dims], list[int]]] = {}
        for one in accesses:
            if one.is_affine:
                of_base = groups.setdefault(one.base, {})
                of_base.setdefault(self._dims(one), []).append(one.offset)
        return sum(map(_of_array, groups.values()))

    def _dims(self, one: MemoryAccess) -> tuple[int, _Dims]:
        """Return the bytes that are touched at once, and the steps that these make."""
        assert one.lanes is not None  # noqa: S101 (an affine access has them)
        steps = [(one.steps.warp or 0, float(self._launch.warps))]
        steps += [(step or 0, self._passes.get(loop, 1.0)) for loop, step in one.steps.passes.items()]
        if not self._of_block:
            steps += [
                (step or 0, float(n)) for step, n in zip(one.steps.blocks, self._launch.grid, strict=True)
            ]
        apart = set(np.diff(np.unique(one.lanes)).tolist())
        size = one.width
        if len(apart) <= 1:
            steps += [(step, float(len(np.unique(one.lanes)))) for step in apart]
        else:
            size = _parts(one.lanes, one.width, SECTOR_BYTES) * SECTOR_BYTES
        return size, tuple(sorted((abs(step), n) for step, n in steps if step and n > 1))


def _of_array(groups: Mapping[tuple[int, _Dims], Sequence[int]]) -> float:
    """Return how many bytes of one array accesses touch: those that go otherwise over a part count once."""
    spans = []
    for (size, dims), offsets in groups.items():
        end = max(offsets) + size + sum(step * (n - 1) for step, n in dims)
        spans.append((min(offsets), end, size, dims, sorted(offsets)))
    total = most = 0.0
    reached = -math.inf
    for begin, end, size, dims, offsets in sorted(spans):
        if begin >= reached:
            total, most = total + most, 0.0
        most = max(most, _union(size, dims, offsets))
        reached = max(reached, end)
    return total + most


def _union(size: int, dims: _Dims, offsets: Sequence[int]) -> float:
    """Return how many bytes accesses touch that go alike and begin at some offsets."""
    touched, chunk = _extent(size, dims)
    total = touched
    for before, after in pairwise(offsets):
        gap = after - before
        # It falls on what the first touches some passes, warps or blocks later, but for the last of them.
        again = [gap / (step * n) for step, n in dims if gap % step == 0 and gap < step * n]
        total += touched * min([gap / chunk, 1.0, *again])
    return total


def _extent(size: int, dims: _Dims) -> tuple[float, float]:
    """Return how many bytes steps of growing size touch, and how many of them lie side by side."""
    touched = chunk = float(size)
    dense = True
    for step, n in dims:
        if dense and step <= chunk:
            chunk += step * (n - 1)
            touched = chunk
        else:
            touched = (max(touched, SECTOR_BYTES) if dense else touched) * n
            dense = False
    return touched, chunk

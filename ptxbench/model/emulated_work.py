"""What a launch executes and moves, by a run of a sample of its blocks in the emulator."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.activity import operand_places
from ptxbench.emulator.sass.launch import Emulated
from ptxbench.emulator.sass.tally import Tally
from ptxbench.model.ncu import lanes_of
from ptxbench.model.opcodes import OpcodeClass, opcode_class, width_bytes
from ptxbench.model.traffic import Asked, by_level, stays_in_l1, wavefronts
from ptxbench.model.work import LINE_BYTES, Activity, KernelWork

_SECTOR_BYTES = 32
_REMOTE = (OpcodeClass.GLOBAL, OpcodeClass.ATOMIC, OpcodeClass.COPY)
_WRITES = ("ST", "RED", "ATOM")
# Less than this in common is taken for none.
_ALONE = 1e-4
_HALVINGS = 60
# Of the bits that change, what from one half of the warp to the other counts beside what does in time, and
# how many of a random word's change.
_HALVES, _RANDOM_BITS = 1 / 3, 16.0
_WORD_BYTES = 4
_LOADS = (OpcodeClass.SHARED, OpcodeClass.GLOBAL)


@dataclass(frozen=True)
class EmulatedWork:
    """The work of a launch, and what was taken for granted of its bytes.

    Attributes:
        work: What it executes and moves; its time is not known.
        cold: The same where nothing is in L2 before.
        notes: A sentence each.
    """

    work: KernelWork
    cold: KernelWork
    notes: tuple[str, ...]


def work_of(name: str, found: Emulated, array_bytes: float, l2_size: float) -> EmulatedWork:
    """Return what a launch executes and moves.

    What a block reads again comes from L1, if the blocks of an SM fit into it. DRAM moves each distinct
    sector once, if they are more than L2 holds; fewer are taken to be in L2 already.

    Args:
        name: Name of the work.
        found: The run.
        array_bytes: Bytes of all arrays of the launch.
        l2_size: Bytes of L2.
    """
    warps, threads = found.by_opcode(), found.by_opcode(Tally.THREADS)
    lanes = lanes_of(warps, {opcode: threads.get(opcode, 0.0) for opcode in warps})
    idle = {opcode: WARP * n - lanes[opcode] for opcode, n in warps.items()}
    asked = _asked(found)
    own = found.scale * found.tallies[Tally.READ_FIRST].sum() * _SECTOR_BYTES
    blocks = found.scale * len(found.sample.blocks)
    kept = stays_in_l1(own / blocks, found.sample.threads)
    read_bytes = min(own, asked.read_bytes) if kept else asked.read_bytes
    read, written = (_distinct(found, by_block, by_any) for by_block, by_any in _FIRSTS)
    data_bytes = min(max(read, written, min(read + written, array_bytes)), array_bytes)
    moved_bytes = min(read, array_bytes) + min(written, array_bytes)
    stays = data_bytes <= l2_size
    left_out = tuple((opcode, n) for opcode, n in sorted(idle.items()) if n > 0)

    def moving(dram_bytes: float) -> KernelWork:
        levels, accesses = by_level(asked, read_bytes, dram_bytes)
        return KernelWork(name, tuple(sorted(lanes.items())), levels, accesses=accesses, idle=left_out)

    best = moving(0.0 if stays else moved_bytes)
    return EmulatedWork(best, moving(moved_bytes), _notes(found, data_bytes, stays))


def activity_of(found: Emulated) -> Activity:
    """Return the activity of the operands of each opcode that was seen.

    It is the share of the bits of an instruction's operands that change, over half of them: a third by
    lane i and lane i + 16, two thirds by the instruction before it on the same unit. Constants do not change.
    What lies between is taken for proportional.
    """
    changes: dict[str, float] = defaultdict(float)
    weights: dict[str, float] = defaultdict(float)
    moved = loads = 0.0
    for number, one in enumerate(found.instructions):
        tally = found.tallies[:, number]
        if not tally[Tally.SEEN]:
            continue
        operands = operand_places(one)
        seen = float(tally[Tally.ISSUED])
        if operands:
            changes[one.opcode] += seen * _changed(tally, _READ) / operands
            weights[one.opcode] += seen
        if opcode_class(one.opcode) in _LOADS and tally[Tally.HALVES_RESULT : Tally.HALVES_RESULT + 1].any():
            words = max(width_bytes(one.opcode) / _WORD_BYTES, 1.0)
            moved, loads = moved + seen * _changed(tally, _RESULT) / words, loads + seen
    by_opcode = {opcode: min(changes[opcode] / weight, 1.0) for opcode, weight in weights.items()}
    data = min(moved / loads, 1.0) if loads else _mean_of(by_opcode, weights)
    return Activity(data, data, data, by_opcode)


def _changed(tally: npt.NDArray[np.float64], places: range) -> float:
    """Return the bits that change of some operands of an instruction, over half of a word's."""
    between, in_time = max(tally[Tally.PAIRS], 1.0), max(tally[Tally.AFTER], 1.0)
    halves = sum(tally[Tally.HALVES_A + place] for place in places) / between
    moved = sum(tally[Tally.MOVED_A + place] for place in places) / in_time
    return float(_HALVES * halves + (1 - _HALVES) * moved) / _RANDOM_BITS


def _mean_of(by_opcode: Mapping[str, float], weights: Mapping[str, float]) -> float:
    whole = sum(weights.values())
    return sum(weights[opcode] * share for opcode, share in by_opcode.items()) / whole if whole else 1.0


_READ, _RESULT = range(3), range(3, 4)
_FIRSTS = (
    (Tally.READ_FIRST, Tally.READ_BY_ANY),
    (Tally.WRITTEN_FIRST, Tally.WRITTEN_BY_ANY),
)


def _asked(found: Emulated) -> Asked:
    """Return what all warps of a launch ask of L1 and shared memory."""
    asked, scale = Asked(), found.scale
    asked.shared_bytes = scale * LINE_BYTES * float(found.tallies[Tally.PASSES].sum())
    for number, one in enumerate(found.instructions):
        requests, sectors, lines = (
            scale * float(found.tallies[what, number])
            for what in (Tally.REQUESTS, Tally.SECTORS, Tally.LINES)
        )
        if not sectors or opcode_class(one.opcode) not in _REMOTE:
            continue
        asked.wavefronts += requests * wavefronts(lines / requests, width_bytes(one.opcode))
        if one.base.startswith(_WRITES):
            asked.written_bytes += sectors * _SECTOR_BYTES
            asked.written_lines += lines
        else:
            asked.read_bytes += sectors * _SECTOR_BYTES
            asked.read_lines += lines
    return asked


def _distinct(found: Emulated, by_block: Tally, by_any: Tally) -> float:
    """Return how many distinct bytes all blocks touch."""
    count = len(found.sample.blocks)
    firsts = zip(found.tallies[by_block], found.tallies[by_any], strict=True)
    sectors = (
        _among_all(float(own) / count, float(together), count, found.scale * count)
        for own, together in firsts
    )
    return _SECTOR_BYTES * sum(sectors)


def _among_all(each: float, together: float, count: int, blocks: float) -> float:
    """Return how many distinct sectors all blocks touch, as if each took its own at random from N of them.

    Then `count` of them touch N (1 - (1 - each / N)^count) together, which tells N. Blocks that touch the
    same sectors have N = each, those that touch none of another's have no end of N.

    Args:
        each: Sectors that a block touches.
        together: Distinct sectors of the blocks of the sample.
        count: Blocks of the sample.
        blocks: Blocks of the launch.
    """
    if count == 1 or together >= each * count * (1 - _ALONE):
        return each * blocks
    low, high = each, each * blocks * count
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        touched = middle * (1 - (1 - each / middle) ** count)
        low, high = (middle, high) if touched < together else (low, middle)
    return float(high * (1 - (1 - each / high) ** blocks))


def _notes(found: Emulated, data_bytes: float, stays: bool) -> tuple[str, ...]:
    sample = found.sample
    blocks = f"{len(sample.blocks)} of {math.prod(sample.grid)} blocks were run in the emulator"
    notes = [f"{blocks}, and the others are counted like them"]
    notes += [
        f"of the loop at {one.address:#x}, {one.left_out:,} passes are counted like {one.run:,} that were run"
        for one in found.skipped
    ]
    if data_bytes:
        where = "L2 holds: they are taken to be there" if stays else "L2 does not hold: DRAM moves them once"
        notes.append(f"its blocks work on about {data_bytes:.4g} bytes of global memory, which {where}")
    return tuple(notes)

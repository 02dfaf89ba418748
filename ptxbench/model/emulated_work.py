"""What a launch executes and moves, by a run of a sample of its blocks in the emulator."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.core.threads import LINE_BYTES, SECTOR_BYTES, WARP
from ptxbench.emulator.sass.activity import words_read, words_written
from ptxbench.emulator.sass.launch import Emulated
from ptxbench.emulator.sass.tally import Tally
from ptxbench.model.ncu import lanes_of
from ptxbench.model.opcodes import OpcodeClass, opcode_class, width_bytes
from ptxbench.model.traffic import Asked, by_level, wavefronts
from ptxbench.model.work import Activity, KernelWork
from ptxbench.sass.program import SassInstruction

_REMOTE = (OpcodeClass.GLOBAL, OpcodeClass.ATOMIC, OpcodeClass.COPY)
_WRITES = ("ST", "RED", "ATOM")
# Less than this in common is taken for none.
_ALONE = 1e-4
_HALVINGS = 60
# What a bit costs by the law of operands, fJ, of an H100 and an H200: where halves differ, in an operand's
# place, in a result's register, and set (docs/operands.md). Loops of f64 and f16 do not tell these apart:
# they take those of f32.
_FLOATS = (OpcodeClass.FP32, OpcodeClass.FP64, OpcodeClass.HALF)
_LAW_OF_FLOATS, _LAW_OF_OTHERS = (115.0, 128.0, 65.0, 42.0), (110.0, 50.0, 155.0, 70.0)
# Of a random word.
_RANDOM_BITS = 16.0
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

    What a block reads again comes from L1, as long as its share of it holds that. DRAM moves each distinct
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
    missed_bytes = found.scale * float(found.tallies[Tally.MISSED].sum()) * SECTOR_BYTES
    read_bytes = min(missed_bytes, asked.read_bytes)
    read = _distinct(found, Tally.READ_FIRST, Tally.READ_BY_ANY)
    written = _distinct(found, Tally.WRITTEN_FIRST, Tally.WRITTEN_BY_ANY)
    data_bytes = min(read + written, array_bytes)
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

    It is what the bits of an instruction cost by the law of operands, over what they would if all its words
    were random. Constants change nothing and are not random. What lies between is taken for proportional.
    """
    changes: dict[str, float] = defaultdict(float)
    weights: dict[str, float] = defaultdict(float)
    moved = loads = 0.0
    for number, one in enumerate(found.instructions):
        tally = found.tallies[:, number]
        if not tally[Tally.LOOKED]:
            continue
        seen, kind = float(tally[Tally.ISSUED]), opcode_class(one.opcode)
        if words_read(one):
            changes[one.opcode] += seen * _share(tally, one)
            weights[one.opcode] += seen
        if kind in _LOADS and tally[Tally.HALVES_RESULT]:
            brought = max(width_bytes(one.opcode) / _WORD_BYTES, 1.0)
            moved, loads = moved + seen * _share_of_result(tally, brought), loads + seen
    by_opcode = {opcode: min(changes[opcode] / weight, 1.0) for opcode, weight in weights.items()}
    data = min(moved / loads, 1.0) if loads else _mean_of(by_opcode, weights)
    return Activity(data, data, data, by_opcode)


def law_of(opcode: str) -> tuple[float, float, float, float]:
    """Return what a bit of an opcode costs where halves differ, in a place, in a register, and set, fJ."""
    return _LAW_OF_FLOATS if opcode_class(opcode) in _FLOATS else _LAW_OF_OTHERS


def _share(tally: npt.NDArray[np.float64], instruction: SassInstruction) -> float:
    """Return what the bits of an instruction cost, over those of random words."""
    halves, ports, flips, ones = law_of(instruction.opcode)
    # A pair of lanes is two of them.
    between = (tally[Tally.HALVES] + tally[Tally.HALVES_RESULT]) / max(tally[Tally.PAIRS], 1.0) / 2
    of_lanes = ports * tally[Tally.PORTS] + flips * tally[Tally.FLIPS] + ones * tally[Tally.ONES]
    own = halves * between + of_lanes / tally[Tally.LOOKED]
    read, written = words_read(instruction), words_written(instruction)
    random = halves * (read + written) / 2 + (ports + ones) * read + flips * written
    return float(own / random / _RANDOM_BITS)


def _share_of_result(tally: npt.NDArray[np.float64], words: float) -> float:
    """Return the same of what a load brings."""
    halves, _, flips, _ = _LAW_OF_OTHERS
    own = halves * tally[Tally.HALVES_RESULT] / max(tally[Tally.PAIRS], 1.0) / 2
    own += flips * tally[Tally.FLIPS] / tally[Tally.LOOKED]
    return float(own / ((halves / 2 + flips) * words) / _RANDOM_BITS)


def _mean_of(by_opcode: Mapping[str, float], weights: Mapping[str, float]) -> float:
    whole = sum(weights.values())
    return sum(weights[opcode] * share for opcode, share in by_opcode.items()) / whole if whole else 1.0


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
            asked.written_bytes += sectors * SECTOR_BYTES
            asked.written_lines += lines
        else:
            asked.read_bytes += sectors * SECTOR_BYTES
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
    return SECTOR_BYTES * sum(sectors)


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

"""How many bits of an instruction's operands change, by the four kinds that the law of operands has.

A unit of 16 lanes takes a warp in two passes, so that what lane i + 16 has follows what lane i had. Operands
come by a way of each place, whatever the opcode. A result is written over what its register held. And bits
that are set cost more than those that are not (docs/operands.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.lanes import Array, Bound, Mask
from ptxbench.emulator.sass.tally import Tallies, Tally
from ptxbench.sass.operand import Kind, Operand
from ptxbench.sass.program import SassInstruction
from ptxbench.sass.written import results, written

_HALF = WARP // 2
_MOST_OPERANDS = 3
_TWO_WORDS = ("SHF", "LEA", "PRMT")
_READ = (
    *(Kind.REGISTER, Kind.ZERO, Kind.UNIFORM, Kind.UNIFORM_ZERO),
    *(Kind.CONSTANT, Kind.ADDRESS, Kind.IMMEDIATE),
)
_NO_DATA = ("BAR", "BRA", "BSSY", "BSYNC", "RET", "CALL", "EXIT")
_PAIRS = ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX")


@dataclass(frozen=True)
class _Slots:
    """What an instruction reads and writes in general registers, by the place of the operand."""

    reads: tuple[tuple[int, tuple[Array, ...]], ...]
    writes: tuple[Array, ...]


class Activity:
    """Looks at the operands of instructions as they are executed."""

    def __init__(self, tallies: Tallies, bound: Sequence[Bound]) -> None:
        self._tallies = tallies
        self._slots = [_slots(one) for one in bound]
        self._last: dict[tuple[int, int], Array] = {}
        self._held: list[Array] = []
        self._weights: tuple[Array | None, Array | None] = (None, None)

    def before(self, number: int, active: Mask) -> None:
        """See what an instruction reads, of the lanes that take part."""
        slots = self._slots[number]
        if slots is None:
            return
        tally = self._tallies[:, number]
        lanes = None if active is None else np.ascontiguousarray(active)
        pairs = None if lanes is None else lanes[:, :_HALF] & lanes[:, _HALF:]
        self._weights = lanes, pairs
        shape = slots.reads[0][1][0].shape if slots.reads else slots.writes[0].shape
        tally[Tally.LOOKED] += shape[0] * WARP if lanes is None else np.count_nonzero(lanes)
        tally[Tally.PAIRS] += shape[0] * _HALF if pairs is None else np.count_nonzero(pairs)
        for place, registers in slots.reads:
            for word, value in enumerate(registers):
                tally[Tally.HALVES] += _differing(value, pairs)
                tally[Tally.ONES] += _bits(value, lanes)
                last = self._last.get((place, word))
                if last is not None:
                    tally[Tally.PORTS] += _bits(value ^ last, lanes)
                self._last[place, word] = value.copy()
        self._held = [one.copy() for one in slots.writes]

    def after(self, number: int) -> None:
        """See what it wrote."""
        slots = self._slots[number]
        if slots is None:
            return
        tally, (lanes, pairs) = self._tallies[:, number], self._weights
        for held, value in zip(self._held, slots.writes, strict=True):
            tally[Tally.HALVES_RESULT] += _differing(value, pairs)
            tally[Tally.FLIPS] += _bits(value ^ held, lanes)


def _bits(words: Array, lanes: Array | None) -> int:
    counts = np.bitwise_count(words)
    return int((counts if lanes is None else counts * lanes).sum())


def _differing(words: Array, pairs: Array | None) -> int:
    return _bits(words[:, :_HALF] ^ words[:, _HALF:], pairs)


def words_read(instruction: SassInstruction) -> int:
    """Return how many words an instruction reads, those that are constants or immediates among them."""
    count = min(len(_sources(instruction)), 2 if instruction.base in _TWO_WORDS else _MOST_OPERANDS)
    return sum(_words_read(instruction, place) for place in range(count))


def words_written(instruction: SassInstruction) -> int:
    """Return how many words an instruction writes to registers: none where it stores, or compares."""
    return len(registers_written(instruction))


def registers_written(instruction: SassInstruction) -> list[str]:
    """Return the general registers that an instruction writes."""
    return sorted(name for name in written(instruction) if name[0] == "R")


def registers_read(instruction: SassInstruction) -> list[tuple[int, list[str]]]:
    """Return the general registers that an instruction reads, by the place of the operand."""
    sources = _sources(instruction)[:_MOST_OPERANDS]
    names = ((n, _names(one, _words_read(instruction, n))) for n, one in enumerate(sources))
    return [(place, found) for place, found in names if found]


def _names(operand: Operand, count: int) -> list[str]:
    if operand.kind is Kind.ADDRESS:
        inner = operand.text.rpartition("[")[2].rstrip("]").split("+")[0].partition(".")[0]
        return [inner] if inner.startswith("R") and inner != "RZ" else []
    if operand.kind is not Kind.REGISTER:
        return []
    number = int(operand.name[1:])
    return [f"R{number + n}" for n in range(count)]


def _sources(instruction: SassInstruction) -> list[Operand]:
    """Return what an instruction reads, without predicates."""
    operands = instruction.operand_list[len(results(instruction)) :]
    return [one for one in operands if one.kind in _READ]


def _slots(i: Bound) -> _Slots | None:
    """Return the general registers that an instruction reads and writes, None where there are none."""
    base = i.instruction.base
    if not i.operands or base.startswith("U") or base in _NO_DATA:
        return None
    file = i.registers.general

    def held(names: Sequence[str]) -> tuple[Array, ...]:
        # Of an opcode that is not known more are named than a kernel may have.
        return tuple(file[int(name[1:])] for name in names if int(name[1:]) < len(file))

    reads = tuple((place, held(names)) for place, names in registers_read(i.instruction))
    writes = held(registers_written(i.instruction))
    return _Slots(reads, writes) if reads or writes else None


def _words_read(instruction: SassInstruction, place: int) -> int:
    base, words = instruction.base, instruction.opcode.split(".")[1:]
    if base in _PAIRS or (base in ("F2F", "F2I") and "F64" in words[1:]):
        return 2
    if base.startswith("ST") and place == 1:
        return 4 if "128" in words else 2 if "64" in words else 1
    if base in ("HMMA", "IMMA", "DMMA"):
        return (4, 2, 4)[place]
    return 2 if base == "IMAD" and "WIDE" in words and place == 2 else 1

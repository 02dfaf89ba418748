"""How many bits of an instruction's operands change: from one half of the warp to the other, and in time.

A unit of 16 lanes takes a warp in two passes, so that what lane i + 16 has follows what lane i had. And an
instruction follows the one before it on the same unit, of the same warp.
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

_HALF = WARP // 2
MOST_OPERANDS = 3
# Which unit takes an opcode, as far as they differ in their operands' ways.
_UNITS = {
    "multiply": "FFMA FMUL FADD IMAD HFMA2 HADD2 HMUL2 IDP",
    "double": "DFMA DADD DMUL DSETP DMNMX",
    "special": "MUFU POPC FLO BREV I2F F2I F2F FRND",
    "memory": "LDS STS LDG STG LDL STL LD ST ATOMS ATOMG ATOM RED REDG LDSM SHFL LDGSTS",
    "tensor": "HMMA IMMA DMMA",
}
_UNIT_OF = {base: unit for unit, bases in _UNITS.items() for base in bases.split()}
_TWO_WORDS = ("SHF", "LEA", "PRMT")
_READ = (
    *(Kind.REGISTER, Kind.ZERO, Kind.UNIFORM, Kind.UNIFORM_ZERO),
    *(Kind.CONSTANT, Kind.ADDRESS, Kind.IMMEDIATE),
)
_PAIRS = ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX")


@dataclass(frozen=True)
class _Slots:
    """What an instruction reads and writes in general registers, by the place of the operand."""

    unit: str
    reads: tuple[tuple[int, tuple[Array, ...]], ...]
    writes: tuple[Array, ...]


class Activity:
    """Looks at the operands of instructions as they are executed."""

    def __init__(self, tallies: Tallies, bound: Sequence[Bound]) -> None:
        self._tallies = tallies
        self._slots = [_slots(one) for one in bound]
        self._last: dict[tuple[str, int], list[Array]] = {}
        self._weights: tuple[Array | None, Array | None] = (None, None)

    def forget(self) -> None:
        """Begin anew: what comes next does not follow what was seen last."""
        if self._last:
            self._last = {}

    def before(self, number: int, active: Mask, warps: int) -> None:
        """See what an instruction reads.

        Args:
            number: Of the instruction.
            active: Lanes that take part.
            warps: Warps that execute it.
        """
        slots = self._slots[number]
        if slots is None:
            return
        tally = self._tallies[:, number]
        tally[Tally.SEEN] += warps
        lanes = None if active is None else np.ascontiguousarray(active)
        pairs = None if lanes is None else lanes[:, :_HALF] & lanes[:, _HALF:]
        self._weights = lanes, pairs
        shape = slots.reads[0][1][0].shape if slots.reads else slots.writes[0].shape
        tally[Tally.PAIRS] += shape[0] * _HALF if pairs is None else np.count_nonzero(pairs)
        tally[Tally.AFTER] += shape[0] * WARP if lanes is None else np.count_nonzero(lanes)
        for place, registers in slots.reads:
            self._see(tally, slots.unit, place, registers)

    def after(self, number: int) -> None:
        """See what it wrote."""
        slots = self._slots[number]
        if slots is not None and slots.writes:
            self._see(self._tallies[:, number], slots.unit, MOST_OPERANDS, slots.writes)

    def _see(self, tally: Array, unit: str, place: int, registers: Sequence[Array]) -> None:
        lanes, pairs = self._weights
        last = self._last.get((unit, place))
        kept = [one.copy() for one in registers]
        for number, value in enumerate(kept):
            differ = np.bitwise_count(value[:, :_HALF] ^ value[:, _HALF:])
            if pairs is not None:
                differ = differ * pairs
            tally[Tally.HALVES_A + place] += differ.sum()
            if last is not None and number < len(last):
                moved = np.bitwise_count(value ^ last[number])
                if lanes is not None:
                    moved = moved * lanes
                tally[Tally.MOVED_A + place] += moved.sum()
                across = np.bitwise_count(value[:, :_HALF] ^ last[number][:, _HALF:])
                if pairs is not None:
                    across = across * pairs
                tally[Tally.ACROSS_A + place] += across.sum()
        self._last[unit, place] = kept


def operand_places(instruction: SassInstruction) -> int:
    """Return how many words an instruction reads, those that are constants or immediates among them."""
    count = min(len(_sources(instruction)), MOST_OPERANDS)
    if instruction.base in _TWO_WORDS:
        count = min(count, 2)
    return 2 * count if instruction.base in _PAIRS else count


def _sources(instruction: SassInstruction) -> list[Operand]:
    """Return what an instruction reads, without predicates."""
    operands = instruction.operand_list
    return [one for one in operands[0 if _stores(instruction.base) else 1 :] if one.kind in _READ]


def _stores(base: str) -> bool:
    return base.startswith(("ST", "RED")) or base == "LDGSTS"


def _slots(i: Bound) -> _Slots | None:
    """Return the general registers that an instruction reads and writes, None where there are none."""
    base = i.instruction.base
    operands = i.operands
    if not operands or base.startswith("U") or base in ("BAR", "BRA", "BSSY", "BSYNC", "RET", "CALL", "EXIT"):
        return None
    outs = () if _stores(base) else operands[:1]
    reads = []
    for place, operand in enumerate(_sources(i.instruction)[:MOST_OPERANDS]):
        registers = _registers(i, operand, _words_read(i, place))
        if registers:
            reads.append((place, registers))
    writes = tuple(one for out in outs for one in _registers(i, out, _words_written(i)))
    if not reads and not writes:
        return None
    return _Slots(_UNIT_OF.get(base, "logic"), tuple(reads), writes)


def _registers(i: Bound, operand: Operand, count: int) -> tuple[Array, ...]:
    if operand.kind is Kind.ADDRESS:
        inner = operand.text.rpartition("[")[2].rstrip("]").split("+")[0].partition(".")[0]
        if not inner.startswith("R") or inner == "RZ":
            return ()
        return (i.register(inner),)
    if operand.kind is not Kind.REGISTER:
        return ()
    number = int(operand.name[1:])
    file = i.registers.general
    return tuple(file[number + n] for n in range(count) if number + n < len(file))


def _words_read(i: Bound, place: int) -> int:
    base, words = i.instruction.base, i.words
    if base in _PAIRS or (base in ("F2F", "F2I") and "F64" in words[1:]):
        return 2
    if base.startswith("ST") and place == 1:
        return 4 if "128" in words else 2 if "64" in words else 1
    if base in ("HMMA", "IMMA", "DMMA"):
        return (4, 2, 4)[place]
    return 2 if base == "IMAD" and "WIDE" in words and place == 2 else 1


def _words_written(i: Bound) -> int:
    base, words = i.instruction.base, i.words
    if base in ("HMMA", "IMMA", "DMMA") or "128" in words:
        return 4
    wide = base in _PAIRS[:3] or "64" in words or "WIDE" in words
    return 2 if wide or (base in ("F2F", "I2F") and words[:1] == ["F64"]) else 1

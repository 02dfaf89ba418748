"""Loops of many passes: after some are run, the rest is counted like them, and the last ones are run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ptxbench.emulator.sass.code import Code
from ptxbench.emulator.sass.integer import COMPARES
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Registers, Step
from ptxbench.emulator.sass.tally import Tallies, Tally
from ptxbench.sass.operand import Operand
from ptxbench.sass.program import SassInstruction
from ptxbench.sass.written import written

# Passes left out are a multiple of this, so that what repeats in few passes keeps its place.
_EVEN = 64
# Passes at the end that are never left out; chosen.
_AT_END = 4
# Counts of the last passes may differ by so much from those before them.
_STEADY = {Tally.ISSUED: 0.02, Tally.THREADS: 0.02, Tally.SECTORS: 0.05, Tally.PASSES: 0.05}
# The table of truth of a & b & c.
_ALL_THREE = 0x80


@dataclass(frozen=True)
class Skipped:
    """A loop whose passes were not all run.

    Attributes:
        address: Of its head.
        run: Passes that were run before.
        left_out: Passes that were counted like them.
    """

    address: int
    run: int
    left_out: int


@dataclass
class _Seen:
    """What was seen of a loop since it was entered."""

    visits: int = 0
    wanted: int = 0
    counts: dict[int, Tallies] = field(default_factory=dict)
    registers: list[tuple[Array, Array]] = field(default_factory=list)
    distances: list[npt.NDArray[np.int64]] = field(default_factory=list)


@dataclass(frozen=True)
class _End:
    """How a loop ends: what is compared, and the comparison that makes it go on."""

    number: int
    compare: str
    unsigned: bool
    goes_on: bool


class LongLoops:
    """Leaves passes of long loops out, where all lanes take the same number of them.

    The loop must have one end, by one comparison of whole numbers whose difference changes by the same step
    in each pass. Registers that change so take the step as often as passes are left out; all others, and
    memory, stay as they are.
    """

    def __init__(self, code: Code, registers: Registers, passes: int) -> None:
        self._registers, self._passes = registers, passes
        self._ends = {head: end for head in code.loops if (end := _end_of(code, head)) is not None}
        self._seen: dict[int, _Seen] = {}
        self._distance: dict[int, npt.NDArray[np.int64]] = {}
        self._lanes: dict[int, Mask] = {}
        self.skipped: list[Skipped] = []

    def watching(self, i: Bound, number: int, step: Step) -> Step:
        """Return the step of a comparison that ends a loop so that its operands are kept."""
        end = next((one for one in self._ends.values() if one.number == number), None)
        if end is None:
            return step
        a, b = (i.word(one) for one in i.operands[2:4])
        kind = np.uint32 if end.unsigned else np.int32

        def watched(active: Mask) -> None:
            self._lanes[number] = active
            self._distance[number] = a().view(kind).astype(np.int64) - b().view(kind).astype(np.int64)
            step(active)

        return watched

    def at_head(self, head: int, again: bool, tallies: Tallies, alive: npt.NDArray[np.bool_]) -> None:
        """Look at a loop whose head all lanes that are alive have reached; leave passes out if that can be.

        Args:
            head: Its address.
            again: Whether they come from its own end.
            tallies: What is counted so far; passes that are left out are added.
            alive: The lanes.
        """
        if head not in self._ends:
            return
        seen = self._seen.setdefault(head, _Seen())
        if not again:
            self._seen[head] = _Seen(wanted=self._passes)
            return
        seen.visits += 1
        wanted = seen.wanted or self._passes
        if seen.visits in (wanted // 2, wanted * 3 // 4):
            seen.counts[seen.visits] = tallies.copy()
        if seen.visits < wanted - 2:
            return
        end = self._ends[head]
        seen.registers.append((self._registers.general.copy(), self._registers.uniform.copy()))
        compared = self._lanes.get(end.number)
        if end.number not in self._distance or (compared is not None and (alive & ~compared).any()):
            # Some lanes went another way round.
            self._seen[head] = _Seen(0, wanted)
            return
        seen.distances.append(self._distance.pop(end.number))
        if seen.visits < wanted:
            return
        self._leave_out(head, seen, wanted, tallies)
        self._seen[head] = _Seen(seen.visits, 2 * wanted, {seen.visits: tallies.copy()})

    def _leave_out(self, head: int, seen: _Seen, wanted: int, tallies: Tallies) -> None:
        end, before = self._ends[head], [seen.counts.get(n) for n in (wanted // 2, wanted * 3 // 4)]
        if before[0] is None or before[1] is None:
            return
        passes, before_that = wanted - wanted * 3 // 4, wanted * 3 // 4 - wanted // 2
        later, sooner = tallies - before[1], before[1] - before[0]
        if not _are_alike(later / passes, sooner / before_that):
            return
        left = _passes_left(end, *seen.distances[-3:])
        left_out = (left - _AT_END) // _EVEN * _EVEN
        if left_out < wanted:
            return
        for now, kept in (
            (self._registers.general, [one[0] for one in seen.registers[-3:]]),
            (self._registers.uniform, [one[1] for one in seen.registers[-3:]]),
        ):
            step = kept[2] - kept[1]
            steady = (kept[1] - kept[0] == step).all(axis=(1, 2), keepdims=True)
            now += np.where(steady, step, np.uint32(0)) * np.uint32(left_out)
        tallies += later * (left_out / passes)
        self.skipped.append(Skipped(head, seen.visits, left_out))


def _are_alike(later: Tallies, sooner: Tallies) -> bool:
    """Return whether a pass counts the same in two parts of a loop."""
    for what, off in _STEADY.items():
        one, other = later[what].sum(), sooner[what].sum()
        if abs(one - other) > off * max(one, other):
            return False
    return bool(later[Tally.ISSUED].any())


def _passes_left(end: _End, *distances: npt.NDArray[np.int64]) -> int:
    """Return after how many more passes the first lane leaves, 0 where that is not known."""
    first, second, third = np.broadcast_arrays(*distances)
    step = third - second
    if (second - first != step).any():
        return 0
    compare = COMPARES[end.compare]
    if (compare(third, np.zeros_like(third)) != end.goes_on).any():
        return 0
    left = 0
    nothing = np.array(0)
    # Where the difference crosses 0, and one to either side of that.
    for value, by in {(int(v), int(s)) for v, s in zip(third.flat, step.flat, strict=True)}:
        crossing = [abs(value) // max(abs(by), 1) + n for n in (-1, 0, 1, 2)]
        ends = [
            n for n in crossing if n > 0 and bool(compare(np.array(value + n * by), nothing)) != end.goes_on
        ]
        if not by or not ends or ends[0] == crossing[0]:
            return 0
        left = min(left, ends[0]) if left else ends[0]
    return left


def _end_of(code: Code, head: int) -> _End | None:
    """Return how a loop ends, None where there are several ends or it is not by whole numbers."""
    leaving = _leaving(code, head, code.loops[head])
    if leaving is None or len(leaving) != 1:
        return None
    branch, taken_goes_on = leaving[0]
    if not branch.predicate or len(branch.operand_list) != 1:
        return None
    name, negated = branch.predicate.lstrip("@!"), "!" in branch.predicate
    compare = _writer_before(code, head, branch, name)
    if compare is None or compare.base not in ("ISETP", "UISETP") or compare.predicate:
        return None
    words = compare.opcode.split(".")
    operands = compare.operand_list
    plain = operands[4].lost and not operands[4].negative and "EX" not in words
    if not plain or "AND" not in words:
        return None
    if len(operands) != 5 or operands[1].name == name:
        return None
    number = code.number_at[compare.address]
    return _End(number, words[1], "U32" in words, taken_goes_on is not negated)


def _leaving(code: Code, head: int, last: int) -> list[tuple[SassInstruction, bool]] | None:
    """Return the branches that leave a loop, and whether it goes on where they are taken; None: code ends."""
    found: list[tuple[SassInstruction, bool]] = []
    for one in code.instructions:
        if not head <= one.address <= last:
            continue
        if one.base in ("EXIT", "RET"):
            return None
        if one.base in ("BRA", "UBRA"):
            if not head <= code.target(one) <= last:
                found.append((one, False))
            elif one.address == last and one.predicate:
                found.append((one, True))
    return found


def _writer_before(code: Code, head: int, place: SassInstruction, predicate: str) -> SassInstruction | None:
    """Return what writes a predicate last before a place of a loop; copies are followed."""
    for one in reversed(code.instructions[code.number_at[head] : code.number_at[place.address]]):
        operands = one.operand_list
        if predicate in written(one):
            copied = _copied(operands) if one.base == "PLOP3" and operands[0].name == predicate else ""
            return _writer_before(code, head, one, copied) if copied else one
    return None


def _copied(operands: Sequence[Operand]) -> str:
    """Return the one predicate that a PLOP3 copies, "" where it does more."""
    known = [one for one in operands[2:5] if not one.lost]
    same = len(known) == 1 and not known[0].negative and operands[5].number == _ALL_THREE
    return known[0].name if same and not any(o.negative for o in operands[2:5]) else ""

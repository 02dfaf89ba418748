"""How often each instruction of a kernel is executed: by its SASS, trip counts, and which way branches go.

A block is executed as often as the blocks before it go on to it, a loop's head as often times its passes.
Which way a branch goes is the caller's to say. Else slow paths of arithmetic and ways past all work count as
not taken, and a loop as entered. Of other branches each side counts by half.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ptxbench.core.errors import InputError
from ptxbench.core.wrap import first_of
from ptxbench.model.addresses import Launch, MemoryAccess, find_accesses
from ptxbench.model.control_flow import Block, Flow, NaturalLoop, called, find_flows, leaves_apart
from ptxbench.sass.program import SassInstruction, SassKernel

Counts = tuple[tuple[str, float], ...]

# Routines of division, square root and trigonometric functions for operands out of the common range.
_SLOW = re.compile(r"slowpath|mediumpath|_f64_full")
# What CUDA's functions compare to tell operands out of the common range (math_functions.hpp), and the answer
# for others: sinf reduces large angles by many digits of pi, exp2 and log2 scale what would be denormal.
_RANGES = (
    (re.compile(r"^GEU?$"), "105615", False),
    (re.compile(r"^GEU?$"), "-126", True),
    (re.compile(r"^GEU?$"), "1.17549435", True),
    (re.compile(r"^GTU?$"), "+INF", False),
    (re.compile(r"^NEU?$"), "+INF", True),
)
_NO_WORK = frozenset({"EXIT", "RET", "NOP", "BSYNC"})
_ENDS = frozenset({"EXIT", "RET", "KILL"})
# Where nothing tells how often a branch is taken.
_HALF = 0.5
_EVERY = "all"
_SHOWN = 4


# By place: the opcode, executions in which the thread takes part, and those in which a guard turns it off.
Placed = dict[str, tuple[str, float, float]]


@dataclass(frozen=True)
class Executed:
    """What one thread executes.

    Attributes:
        counts: Executions of each opcode in which the thread takes part.
        idle: Those that its warp issues while a guard turns it off.
        least: Executions along the cheaper side of each branch that nothing decides.
        most: Executions where both of its sides are executed.
        notes: What was taken for granted, a sentence each.
        placed: Executions by the place of each instruction, in which the thread takes part and in which not.
        passes: Passes of its loops by number.
        accesses: Its own loads and stores by the address of their instruction, where the launch is known.
    """

    counts: Counts
    idle: Counts
    least: Counts
    most: Counts
    notes: tuple[str, ...]
    placed: Placed
    passes: Mapping[int, float]
    accesses: Mapping[int, MemoryAccess]


@dataclass(frozen=True)
class _Ways:
    """Which way a flow's branches and guards go.

    Attributes:
        taken: Probability by address of what the caller or the code decides.
        slow: Addresses of branches to a slow path.
        early: Addresses of branches past all work.
    """

    taken: Mapping[int, float]
    slow: tuple[int, ...]
    early: tuple[int, ...]


def executions(
    kernel: SassKernel,
    trips: Mapping[str, float],
    probabilities: Mapping[str, float] | None = None,
    functions: Mapping[str, SassKernel] | None = None,
    launch: Launch | None = None,
) -> Executed:
    """Return how often one thread executes each opcode.

    Args:
        kernel: The kernel.
        trips: Trip count by loop: its number ("0") or its head's address ("0x1a0").
        probabilities: How often, from 0 to 1, a branch is taken or a guarded instruction takes place, by its
            address ("0x1b0"), or "all" for those that are not named and that nothing else decides.
        functions: What else the kernel's file holds, by name: routines that it calls may stand there.
        launch: Its shape, which tells addresses, and branches that the numbers of threads and blocks decide.

    Raises:
        InputError: A loop's trip count is not known, a name fits no loop or no branch, or the code calls
            itself or what only its run decides.
    """
    flows = {flow.name: flow for flow in find_flows(kernel, functions)}
    given = probabilities or {}
    _require_known(kernel, flows.values(), given)
    loops = [loop for flow in flows.values() for loop in flow.loops]
    named = _named_passes(kernel, loops, trips)
    passes = {loop.index: loop.trips for loop in loops if loop.trips is not None} | named
    ways = {name: _Decider(flow, passes, frozenset(named)).ways(given) for name, flow in flows.items()}
    _require_passes(kernel, flows, ways, passes)
    accesses: Mapping[int, MemoryAccess] = {}
    if launch is not None:
        flow, own = flows[kernel.name], ways[kernel.name]
        found = find_accesses(flow, launch, own.taken, passes)
        accesses, told = (
            found.accesses,
            {at: p for at, p in found.taken.items() if flow.place(at) not in given},
        )
        early = tuple(at for at in own.early if at not in told)
        ways[kernel.name] = _Ways({**own.taken, **told}, own.slow, early)
    other = given.get(_EVERY, _HALF)
    best, least, most = (
        _Count(flows, ways, passes, choice, other).of(kernel.name) for choice in ("best", "least", "most")
    )
    sides = (_by_opcode(least), _by_opcode(most)) if _EVERY not in given else ((), ())
    notes = _notes(flows, ways, _EVERY in given)
    return Executed(_by_opcode(best), _by_opcode(best, 2), *sides, notes, best, passes, accesses)


def _by_opcode(placed: Placed, which: int = 1) -> Counts:
    counts: dict[str, float] = defaultdict(float)
    for one in placed.values():
        counts[one[0]] += float(one[which])
    return tuple(sorted((opcode, n) for opcode, n in counts.items() if n))


def _is_decision(instruction: SassInstruction, block: Block) -> bool:
    """Return whether an instruction goes one of two ways, or may take place or not."""
    return bool(instruction.predicate) or (instruction is block.last and len(block.successors) == 2)


def _decisions(flow: Flow) -> Iterator[tuple[Block, SassInstruction]]:
    return ((b, i) for b in flow.blocks.values() for i in b.instructions if _is_decision(i, b))


def _require_known(kernel: SassKernel, flows: Iterable[Flow], given: Mapping[str, float]) -> None:
    have = [flow.place(i.address) for flow in flows for _, i in _decisions(flow)]
    for name in given:
        if name != _EVERY and name not in have:
            raise InputError(
                f"{kernel.name} has no branch or guarded instruction at {name!r}; it has"
                f" {first_of(have, _SHOWN) or 'none'}, and {_EVERY!r} names those that are not named"
            )


def _named_passes(
    kernel: SassKernel, loops: Sequence[NaturalLoop], trips: Mapping[str, float]
) -> dict[int, float]:
    """Return the passes of loops that the caller gives, by number."""
    found: dict[int, float] = {}
    for name, count in trips.items():
        loop = next((one for one in loops if name in (str(one.index), f"{one.address:#x}")), None)
        if loop is None:
            have = ", ".join(f"{one.index} at {one.address:#x}" for one in loops) or "none"
            raise InputError(f"{kernel.name} has no loop {name!r}; its loops: {have}")
        found[loop.index] = count
    return found


def _require_passes(
    kernel: SassKernel, flows: Mapping[str, Flow], ways: Mapping[str, _Ways], passes: Mapping[int, float]
) -> None:
    """Refuse a loop that is reached and whose passes nobody knows."""
    count = _Count(flows, ways, defaultdict(lambda: 1.0, passes), "best", _HALF)
    count.of(kernel.name)
    unknown = {
        loop.index: flows[name].place(loop.address)
        for name in count.called
        for loop in flows[name].loops
        if loop.index not in passes and count.frequencies(name)[loop.address]
    }
    if unknown:
        places = (f"{place} (`trips` {index}=N)" for index, place in unknown.items())
        raise InputError(
            f"{kernel.name}: how often its loops run is not in the code; give the passes of one thread each"
            f" time it enters the loop at {', at '.join(places)}"
        )


class _Decider:
    """Finds out which way a flow's branches go where its code tells."""

    def __init__(self, flow: Flow, passes: Mapping[int, float], named: frozenset[int]) -> None:
        self._flow, self._passes, self._named = flow, passes, named
        self._taken: dict[int, float] = {}
        self._slow: list[int] = []
        self._early: list[int] = []

    def ways(self, given: Mapping[str, float]) -> _Ways:
        """Return the ways, by what the caller gives first."""
        for block, instruction in _decisions(self._flow):
            address, place = instruction.address, self._flow.place(instruction.address)
            if place in given:
                self._taken[address] = given[place]
            elif instruction.base == "EXIT":
                self._leave(self._early, address, 0.0)
            elif _SLOW.search(called(instruction)):
                self._leave(self._slow, address, 0.0)
            elif (usual := self._usual(block, instruction)) is not None:
                self._leave(self._slow, address, float(usual))
            elif instruction is block.last and not _ends_loop(self._flow, block):
                self._decide(block)
        return _Ways(self._taken, tuple(self._slow), tuple(self._early))

    def _leave(self, why: list[int], address: int, taken: float) -> None:
        self._taken[address] = taken
        why.append(address)

    def _usual(self, block: Block, instruction: SassInstruction) -> bool | None:
        """Return whether a guard is true for operands in the common range, None where nothing tells."""
        guard = instruction.predicate
        if not guard or (instruction is block.last and _ends_loop(self._flow, block)):
            return None
        setting = f"{guard.lstrip('@!')},"
        before = (i for i in self._flow.instructions if i.address < instruction.address)
        compare = max(
            (i for i in before if i.operands.startswith(setting)), key=lambda i: i.address, default=None
        )
        if compare is None or compare.base != "FSETP":
            return None
        bound = compare.operand_list[3].text if len(compare.operand_list) > 3 else ""
        how = compare.opcode.split(".")[1]
        for pattern, start, answer in _RANGES:
            if pattern.match(how) and bound.startswith(start):
                return answer != ("!" in guard)
        return None

    def _decide(self, block: Block) -> None:
        flow, address, ways = self._flow, block.last.address, block.successors
        if len(ways) != 2:
            return None
        sides = {way: flow.side(block.begin, way) for way in ways}
        loops = {way: [one.index for one in flow.loops if one.address in sides[way]] for way in ways}
        for way, other in (ways, ways[::-1]):
            apart = way == ways[0] and leaves_apart(block.last)
            # Where the other side does the work, too, a loop of unknown passes is for rare operands.
            unknown = any(loop not in self._passes for loop in loops[way])
            rare = unknown and sides[other] and not loops[other]
            if apart or rare or _is_slow(flow, block, way, other):
                return self._leave(self._slow, address, float(way != ways[0]))
            if _is_end(flow.blocks[way]) and not _is_end(flow.blocks[other]):
                return self._leave(self._early, address, float(way != ways[0]))
        # A loop is entered that nothing stands beside, or whose passes the caller gives.
        wanted = {way: not self._named.isdisjoint(loops[way]) for way in ways}
        for way, other in (ways, ways[::-1]):
            if (loops[way] and not sides[other]) or (wanted[way] and not wanted[other]):
                self._taken[address] = float(way == ways[0])
        return None


def _is_slow(flow: Flow, block: Block, way: int, other: int) -> bool:
    """Return whether a side of a branch is a slow path of arithmetic, and the other is none."""
    return bool(flow.side(block.begin, way)) and _calls_slow(flow, way) and not _calls_slow(flow, other)


def _calls_slow(flow: Flow, begin: int) -> bool:
    """Return whether a slow path is called before the next branch."""
    seen: set[int] = set()
    while begin not in seen:
        seen.add(begin)
        block = flow.blocks[begin]
        if any(_SLOW.search(called(i)) for i in block.instructions):
            return True
        if len(block.successors) == 1:
            begin = block.successors[0]
    return False


def _ends_loop(flow: Flow, block: Block) -> bool:
    """Return whether a block may leave a loop around it, or repeat it: its passes decide that."""
    around = [one for one in flow.loops if block.begin in one.members]
    return any(way not in one.members or way == one.address for one in around for way in block.successors)


def _is_end(block: Block) -> bool:
    return block.last.base in _ENDS and all(i.base in _NO_WORK for i in block.instructions)


class _Count:
    """Counts executions of flows, by one choice of the sides that nothing decides."""

    def __init__(
        self,
        flows: Mapping[str, Flow],
        ways: Mapping[str, _Ways],
        passes: Mapping[int, float],
        choice: str,
        other: float,
    ) -> None:
        self._flows, self._ways, self._passes = flows, ways, passes
        self._choice, self._other = choice, other
        self.called: dict[str, Placed | None] = {}

    def of(self, name: str) -> Placed:
        """Return what one call of a flow executes."""
        known = self.called.get(name)
        if known is not None:
            return known
        if name in self.called:
            raise InputError(f"{name} calls itself: how often cannot be read off its code; use `ncu`")
        self.called[name] = None
        placed: Placed = {}
        flow, frequencies = self._flows[name], self.frequencies(name)
        for block in flow.blocks.values():
            times = frequencies[block.begin]
            for instruction in block.instructions if times else ():
                share = self._share(name, block, instruction)
                _add(
                    placed,
                    flow.place(instruction.address),
                    instruction.opcode,
                    times * share,
                    times * (1 - share),
                )
                routine = called(instruction)
                if routine and share:
                    for inner, (opcode, n, idle) in self.of(routine).items():
                        _add(placed, inner, opcode, times * share * n, times * share * idle)
        self.called[name] = placed
        return placed

    def _share(self, name: str, block: Block, instruction: SassInstruction) -> float:
        """Return how many of the executions of its block an instruction takes part in."""
        decides = instruction is block.last and (len(block.successors) == 2 or instruction.base in _ENDS)
        if not instruction.predicate or decides:
            return 1.0
        chosen = {"best": self._other, "least": 0.0, "most": 1.0}[self._choice]
        return self._ways[name].taken.get(instruction.address, chosen)

    def frequencies(self, name: str) -> Mapping[int, float]:
        """Return how often each block is executed in one call of a flow."""
        flow, taken = self._flows[name], self._ways[name].taken
        found: dict[int, float] = defaultdict(float, {min(flow.blocks): 1.0})
        entered: dict[int, float] = {}
        loops = {loop.address: loop for loop in flow.loops}
        for block in flow.in_order:
            if block.begin in loops:
                entered[block.begin] = found[block.begin]
                found[block.begin] *= self._passes[loops[block.begin].index] if found[block.begin] else 0.0
            around = [one for one in flow.loops if block.begin in one.members]
            stay = [
                way
                for way in block.successors
                if all(way in one.members for one in around) and way not in flow.dominators[block.begin]
            ]
            leaves = [way for way in block.successors if any(way not in one.members for one in around)]
            goes_on = found[block.begin]
            if block.last.base in _ENDS:
                goes_on *= 1 - taken.get(block.last.address, self._other)
            for way, share in zip(stay, self._shares(flow, block, stay, taken), strict=True):
                found[way] += share * goes_on
            for way in leaves:
                left = [one for one in around if way not in one.members]
                outermost = min(left, key=lambda one: one.depth)
                found[way] += entered[outermost.address] * _exit_share(flow, outermost, block)
        if self._choice != "most":
            return found
        # Both sides are executed, as often as the loops around them run.
        return {begin: self._passes_around(flow, begin) if found[begin] else 0.0 for begin in flow.blocks}

    def _passes_around(self, flow: Flow, begin: int) -> float:
        return math.prod(self._passes[one.index] for one in flow.loops if begin in one.members)

    def _shares(
        self, flow: Flow, block: Block, stay: Sequence[int], taken: Mapping[int, float]
    ) -> tuple[float, ...]:
        if len(stay) != 2:
            return (1.0,) * len(stay)
        jump = taken.get(block.last.address)
        if jump is None and self._choice == "least":
            weights = [
                sum(
                    len(flow.blocks[begin].instructions) * self._passes_around(flow, begin)
                    for begin in flow.side(block.begin, way)
                )
                for way in stay
            ]
            jump = float(weights[0] <= weights[1])
        jump = self._other if jump is None else jump
        return jump, 1 - jump


def _add(placed: Placed, place: str, opcode: str, n: float, idle: float) -> None:
    _, before, idle_before = placed.get(place, (opcode, 0.0, 0.0))
    placed[place] = opcode, before + n, idle_before + idle


def _exit_share(flow: Flow, loop: NaturalLoop, block: Block) -> float:
    """Return how many of a loop's ends are at a block: at those that repeat it, or at all that leave it."""
    leaving = [
        one
        for one in flow.blocks.values()
        if one.begin in loop.members and any(way not in loop.members for way in one.successors)
    ]
    repeating = [one for one in leaving if loop.address in one.successors] or leaving
    return 1 / len(repeating) if block in repeating else 0.0


def _notes(flows: Mapping[str, Flow], ways: Mapping[str, _Ways], given: bool) -> tuple[str, ...]:
    def places(of: Mapping[str, Sequence[int]]) -> str:
        listed = [flows[name].place(address) for name, found in of.items() for address in found]
        return first_of(listed, _SHOWN)

    notes = []
    slow = {name: one.slow for name, one in ways.items() if not _SLOW.search(name)}
    if any(slow.values()):
        notes.append(f"slow paths count as not taken (at {places(slow)}): operands in the common range")
    early = {name: one.early for name, one in ways.items() if not _SLOW.search(name)}
    if any(early.values()):
        notes.append(f"threads that leave before the work are not counted (at {places(early)})")
    half = {
        name: [
            i.address
            for block, i in _decisions(flow)
            if i.address not in ways[name].taken and not (i is block.last and _ends_loop(flow, block))
        ]
        for name, flow in flows.items()
        if not _SLOW.search(name)
    }
    if any(half.values()) and not given:
        notes.append(
            "branches and guarded instructions that nothing decides count by half, and the interval reaches"
            f" to none and to all (at {places(half)}): `probability` ADDRESS=P, or {_EVERY}=P, says how often"
        )
    return tuple(notes)

"""Which addresses a kernel's loads and stores take, found by running its integer instructions on a sample.

The sample is a few blocks. Registers are `Affine` or not known: what is loaded, and products
of parameters. A loop is run three times: what changes by the same step in each goes on so. Where two ways
meet, what they do not agree on is not known. So addresses that are affine in lane, warp, block and passes
come out with their steps, whatever shifts and masks make them up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ptxbench.core.arrays import Bools, Ints
from ptxbench.core.threads import WARP
from ptxbench.emulator.sass.integer import COMPARES, table
from ptxbench.model.affine import Affine, product
from ptxbench.model.control_flow import Block, Flow, NaturalLoop
from ptxbench.model.opcodes import OpcodeClass, opcode_class, width_bytes
from ptxbench.model.trips import packed_halves
from ptxbench.sass.operand import Kind, Operand
from ptxbench.sass.program import SassInstruction
from ptxbench.sass.written import results
from ptxbench.sass.written import written as names_written

# Passes that are followed: addresses that step evenly from the first to the second, and to the third, go on
# so.
_PASSES = 3
# Stands for the last pass of a loop.
_LAST = -1
_CONSTANT = re.compile(r"c\[0x0\]\[(RZ|0x[0-9a-f]+)\]")
_ADDRESS = re.compile(r"\[([^\]]+)\]$")
# Where the driver puts the sizes of block and grid, x, y, z each (before sm_100, and from then on).
_NEWER = 100
_SIZES = {False: 0x0, True: 0x360}
_SIDES = (Kind.PREDICATE, Kind.TRUE, Kind.UNIFORM_PREDICATE, Kind.UNIFORM_TRUE)
_ZEROS = (Kind.ZERO, Kind.UNIFORM_ZERO)
_REGISTERS = (Kind.REGISTER, Kind.UNIFORM)
_GLOBAL, _SHARED = OpcodeClass.GLOBAL, OpcodeClass.SHARED

# A parameter that is a length or a pitch stands for so many bytes: beyond all other steps, and whole lines.
_FAR = 1 << 24

Dims = tuple[int, int, int]
State = dict[str, Affine | None]


@dataclass(frozen=True)
class Launch:
    """The shape of a launch by dimension.

    Attributes:
        grid: Blocks, x, y, z.
        block: Threads a block, x, y, z.
        newer: Whether the GPU is of sm_100 or newer, which has its parameters elsewhere.
    """

    grid: Dims
    block: Dims
    newer: bool = False

    @classmethod
    def of(cls, grid: int | Sequence[int], block: int | Sequence[int], target: str) -> Self:
        """Return the shape of a launch by one number or by dimensions, on a GPU of a target."""
        newer = int("".join(c for c in target if c.isdigit()) or 0) >= _NEWER
        return cls(dims(grid), dims(block), newer)

    @property
    def blocks(self) -> int:
        """Blocks."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads a block."""
        return math.prod(self.block)

    @property
    def warps(self) -> int:
        """Warps a block."""
        return math.ceil(math.prod(self.block) / WARP)


@dataclass(frozen=True)
class Steps:
    """How an address goes on from warp to warp, block to block, and pass to pass, bytes; None: not affine."""

    warp: int | None
    blocks: tuple[int | None, int | None, int | None]
    passes: Mapping[int, int | None]


@dataclass(frozen=True)
class MemoryAccess:
    """A load, store or atomic of global or shared memory.

    Attributes:
        instruction: Which.
        lanes: Addresses of a warp's lanes from that of the lowest, None where they are not known.
        base: What it points into, such as a parameter.
        offset: Where the first warp's lowest lane begins behind that, bytes.
        steps: How that goes on.
    """

    instruction: SassInstruction
    lanes: Ints | None
    base: tuple[object, ...] = ()
    offset: int = 0
    steps: Steps = Steps(None, (None, None, None), {})

    @property
    def is_affine(self) -> bool:
        """Whether its address is known, and goes on by fixed steps."""
        steps = (self.steps.warp, *self.steps.blocks, *self.steps.passes.values())
        return self.lanes is not None and None not in steps

    @property
    def width(self) -> int:
        """Bytes of a thread."""
        return width_bytes(self.instruction.opcode)

    @property
    def shared(self) -> bool:
        """Whether it is of shared memory."""
        return opcode_class(self.instruction.opcode) in (_SHARED, OpcodeClass.SHARED_ATOMIC)

    @property
    def stores(self) -> bool:
        """Whether it writes."""
        return self.instruction.base.startswith(("ST", "RED", "ATOM"))


@dataclass(frozen=True)
class Found:
    """What running a sample tells.

    Attributes:
        accesses: Accesses by the address of their instruction.
        taken: How often a branch is taken, or a guard true, by its address, where the threads alone decide.
    """

    accesses: Mapping[int, MemoryAccess]
    taken: Mapping[int, float]


def find_accesses(
    flow: Flow, launch: Launch, decided: Mapping[int, float], passes: Mapping[int, float]
) -> Found:
    """Run a kernel's integer instructions on a sample of its threads.

    Args:
        flow: The entry's control flow.
        launch: Its shape.
        decided: Probability of branches by address, as far as it is decided: ways of none are not gone.
        passes: Passes of its loops by number, as far as they are known.
    """
    return _Sample(flow, launch, decided, passes).run()


class _Sample:
    def __init__(
        self, flow: Flow, launch: Launch, decided: Mapping[int, float], passes: Mapping[int, float]
    ) -> None:
        self._flow, self._launch, self._decided, self._known_passes = flow, launch, decided, passes
        self._order = {block.begin: n for n, block in enumerate(flow.in_order)}
        self._blocks = _sampled_blocks(launch.grid)
        threads = np.arange(launch.warps * WARP)
        self._thread = np.tile(threads, len(self._blocks))
        self._block_of = np.repeat(np.arange(len(self._blocks)), len(threads))
        self._one = np.ones(len(self._thread), np.int64)
        # Addresses of each access, by instruction, for the passes of the loops around it.
        self._seen: dict[int, dict[tuple[int, ...], Affine | None]] = {}
        self._shares: dict[int, set[float]] = {}
        self._passes: list[tuple[int, int]] = []

    def run(self) -> Found:
        first = min(self._flow.blocks)
        self._region(set(self._flow.blocks), first, {}, None)
        instructions = {i.address: i for i in self._flow.instructions}
        accesses = {at: self._access(instructions[at], seen) for at, seen in self._seen.items()}
        taken = {at: next(iter(shares)) for at, shares in self._shares.items() if len(shares) == 1}
        return Found(accesses, {at: share for at, share in taken.items() if not math.isnan(share)})

    def _region(
        self, members: set[int], head: int, state: State, around: NaturalLoop | None
    ) -> tuple[State | None, dict[int, State]]:
        """Run the blocks of one pass of a loop, or of all; return the state at its way back and its ends."""
        incoming: dict[int, State] = {head: dict(state)}
        back: State | None = None
        ends: dict[int, State] = {}
        done: set[int] = set()
        for begin in sorted(members, key=lambda one: self._order.get(one, math.inf)):
            if begin in done or begin not in incoming:
                continue
            loop = next((one for one in self._flow.loops if one.address == begin and one is not around), None)
            if loop is not None:
                inside = {b for b in members if b in loop.members}
                left = self._loop(loop, inside, incoming[begin])
                done |= inside
            else:
                left = self._block(self._flow.blocks[begin], incoming[begin], around)
            for way, its in left.items():
                if way == head and around is not None:
                    back = _merged(back, its)
                elif way in members:
                    incoming[way] = _merged(incoming.get(way), its)
                else:
                    ends[way] = _merged(ends.get(way), its)
        return back, ends

    def _loop(self, loop: NaturalLoop, inside: set[int], state: State) -> dict[int, State]:
        """Run some passes of a loop; what has one step goes on, anything else that changes is not known."""
        seen: list[dict[int, State]] = []
        heads: list[State] = []
        now: State | None = state
        for number in range(_PASSES):
            if now is None:
                break
            heads.append(now)
            now, ends = self._pass(loop, number, inside, now)
            seen.append(ends)
        if self._known_passes.get(loop.index, 0.0) > _PASSES:
            # What wraps round does so late.
            begin = {name: self._behind(loop, [head.get(name) for head in heads]) for name in state}
            self._pass(loop, _LAST, inside, begin)
        return {
            way: {
                name: self._behind(loop, [ends[way].get(name) for ends in seen if way in ends])
                for name in state
            }
            for way, state in seen[0].items()
        }

    def _pass(
        self, loop: NaturalLoop, number: int, inside: set[int], state: State
    ) -> tuple[State | None, dict[int, State]]:
        self._passes.append((loop.index, number))
        found = self._region(inside, loop.address, state, loop)
        self._passes.pop()
        return found

    def _behind(self, loop: NaturalLoop, values: Sequence[Affine | None]) -> Affine | None:
        """Return what a register holds behind a loop, by what it held at the end of its first passes."""
        known = [value for value in values if value is not None]
        if len(known) < _PASSES:
            return None
        step = known[1].minus(known[0])
        if not known[2].minus(known[1]).same(step):
            return None
        if not step.terms and not step.constant.any():
            return known[0]
        passes = self._known_passes.get(loop.index, math.nan)
        return known[0] + step.times(self._one * int(passes - 1)) if math.isfinite(passes) else None

    def _block(self, block: Block, state: State, around: NaturalLoop | None) -> dict[int, State]:
        for instruction in block.instructions:
            self._step(instruction, state)
        ways = block.successors
        # The first passes, which are all that is run, do not tell when a loop ends.
        leaves = around is not None and not around.members.issuperset(ways)
        if len(ways) == 2 and not leaves:
            share = self._share(block.last, state)
            if not math.isnan(share):
                self._shares.setdefault(block.last.address, set()).add(share)
            taken = self._decided.get(block.last.address, share)
            ways = ways[1:] if taken == 0 else ways[:1] if taken == 1 else ways
        return {way: dict(state) for way in ways}

    def _share(self, instruction: SassInstruction, state: State) -> float:
        """Return of how many threads a guard is true, where that is so in every sampled block; else NaN."""
        guard = instruction.predicate
        if not guard or (instruction.base == "BRA" and re.match(r"!?U?P\d", instruction.operands)):
            return math.nan
        value = state.get(guard.lstrip("@!"))
        if value is None or value.known is None:
            return math.nan
        true = (value.constant != 0) != ("!" in guard)
        lives = self._thread < math.prod(self._launch.block)
        shares = {float(true[(self._block_of == b) & lives].mean()) for b in range(len(self._blocks))}
        return shares.pop() if len(shares) == 1 else math.nan

    def _step(self, instruction: SassInstruction, state: State) -> None:
        """Carry one instruction out."""
        kind = opcode_class(instruction.opcode)
        if kind in (_GLOBAL, _SHARED, OpcodeClass.ATOMIC, OpcodeClass.SHARED_ATOMIC):
            place = self._seen.setdefault(instruction.address, {})
            place[tuple(number for _, number in self._passes)] = self._address(instruction, state)
        if instruction.predicate:
            share = self._share(instruction, state)
            if not math.isnan(share):
                self._shares.setdefault(instruction.address, set()).add(share)
        written = self._written(instruction, state)
        guard = state.get(instruction.predicate.lstrip("@!")) if instruction.predicate else None
        for name, value in written.items():
            if not instruction.predicate:
                state[name] = value
            elif guard is None or guard.known is None:
                old = state.get(name)
                state[name] = value if old is not None and value is not None and value.same(old) else None
            else:
                true = (guard.constant != 0) != ("!" in instruction.predicate)
                state[name] = value if true.all() else _chosen(true, value, state.get(name))

    def _written(self, instruction: SassInstruction, state: State) -> State:
        """Return what an instruction writes to each register."""
        written: State = dict.fromkeys(names_written(instruction))
        targets = results(instruction)
        rest = instruction.operand_list[len(targets) :]
        if not written or targets[0].kind not in _REGISTERS:
            if instruction.base in ("ISETP", "UISETP") and written:
                written[targets[0].name] = self._compared(instruction, rest, state)
            return written
        name = targets[0].name
        written[name] = self._result(instruction, rest, state)
        if instruction.base in ("LDC", "ULDC") and ".64" in instruction.opcode:
            file = name.rstrip("0123456789")
            written[f"{file}{int(name.removeprefix(file)) + 1}"] = self._constant(rest[0].text, 4)
        return written

    def _result(self, instruction: SassInstruction, rest: Sequence[Operand], state: State) -> Affine | None:
        base, words = instruction.base.removeprefix("U"), instruction.opcode.split(".")
        if base in ("S2R", "S2UR", "2R", "CS2R"):
            return self._special(rest[0].text)
        if base == "LDC":
            return self._constant(rest[0].text)
        if instruction.opcode == "HFMA2.MMA" and len(rest) == 4 and rest[1].kind in _ZEROS:
            halves = packed_halves(rest[2].text, rest[3].text)
            return None if halves is None else Affine(self._one * halves)
        if "X" in words or ("HI" in words and base != "SHF"):
            return None
        values = [self._value(one, state) for one in rest if one.kind not in _SIDES]
        compute = _OPERATIONS.get(base)
        if base == "SEL" and len(values) == 2:
            guard = state.get(rest[-1].name)
            if guard is None or guard.known is None:
                return None
            return _chosen((guard.constant != 0) != rest[-1].negative, *values)
        if compute is None or any(value is None for value in values):
            return None
        return compute(words, [value for value in values if value is not None])

    def _compared(self, instruction: SassInstruction, rest: Sequence[Operand], state: State) -> Affine | None:
        words = instruction.opcode.split(".")
        if len(rest) != 3 or rest[2].kind not in (Kind.TRUE, Kind.UNIFORM_TRUE) or words[1] not in COMPARES:
            return None
        a, b = (self._value(one, state) for one in rest[:2])
        if a is None or b is None:
            return None
        apart = a.minus(b)
        # A difference of parameters is not known, unless they fall out.
        if apart.known is None:
            return None
        return Affine(COMPARES[words[1]](apart.constant, 0).astype(np.int64))

    def _value(self, operand: Operand, state: State) -> Affine | None:
        if operand.kind in _ZEROS:
            return Affine(0 * self._one)
        if operand.kind is Kind.IMMEDIATE:
            number = operand.number
            if number is None:
                return None
            return Affine(self._one * (number - (1 << 32) if number >= 1 << 31 else number))
        if operand.kind is Kind.CONSTANT:
            found = self._constant(operand.text.lstrip("-~"))
        elif operand.kind in _REGISTERS:
            found = state.get(operand.name)
        else:
            return None
        if found is None or operand.absolute:
            return None
        if operand.text.startswith("~"):
            return found.times(-self._one) + Affine(-self._one)
        return found.times(-self._one) if operand.negative else found

    def _constant(self, text: str, beyond: int = 0) -> Affine | None:
        match = _CONSTANT.match(text)
        if match is None:
            return None
        offset = (0 if match[1] == "RZ" else int(match[1], 16)) + beyond
        place = offset - _SIZES[self._launch.newer]
        sizes = (*self._launch.block, *self._launch.grid)
        if 0 <= place < 4 * len(sizes):
            return Affine(self._one * sizes[place // 4])
        return Affine(0 * self._one, {f"c{offset:#x}": self._one})

    def _special(self, text: str) -> Affine | None:
        x, y, _ = self._launch.block
        axis = "XYZ".find(text[-1])
        if text == "SRZ":
            return Affine(0 * self._one)
        if text.startswith("SR_TID."):
            return Affine((self._thread % x, self._thread // x % y, self._thread // (x * y))[axis])
        if text.startswith("SR_CTAID."):
            return Affine(np.array([block[axis] for block in self._blocks], np.int64)[self._block_of])
        if text == "SR_LANEID":
            return Affine(self._thread % WARP)
        return Affine(0 * self._one, {text: self._one})

    def _address(self, instruction: SassInstruction, state: State) -> Affine | None:
        """Return the address that a load or a store takes."""
        text = next((one.text for one in instruction.operand_list if one.kind is Kind.ADDRESS), "")
        inner = _ADDRESS.search(text)
        total: Affine | None = Affine(0 * self._one)
        for part in inner[1].split("+") if inner else ():
            word = part.split(".")[0]
            if word in ("RZ", "URZ"):
                continue
            negative, word = word.startswith("-"), word.lstrip("-")
            found = state.get(word) if word[0] in "UR" else Affine(self._one * int(word, 16))
            if total is None or found is None:
                return None
            total += found.times(-self._one) if negative else found
        return total if inner else None

    def _access(
        self, instruction: SassInstruction, seen: Mapping[tuple[int, ...], Affine | None]
    ) -> MemoryAccess:
        """Return an access by what addresses the sample took."""
        around = [one for one in self._flow.loops if instruction.address in one.members]
        around.sort(key=lambda one: one.depth)
        first = seen.get((0,) * len(around))
        if first is None:
            return MemoryAccess(instruction, None)
        numbers = first.at(_FAR)
        lives = self._thread < math.prod(self._launch.block)
        warp = numbers[:WARP][lives[:WARP]]
        at = {
            (int(self._block_of[i]), int(self._thread[i]) // WARP): int(numbers[i])
            for i in range(0, len(numbers), WARP)
        }
        last = self._launch.warps - 1
        step = at[0, min(1, last)] - at[0, 0]
        warp_step = step if at[0, last] == at[0, 0] + step * last else None
        blocks: list[int | None] = []
        for axis in range(3):
            size = self._launch.grid[axis]
            one, end = (self._blocks.index(_along(axis, n)) for n in (min(1, size - 1), size - 1))
            goes = at[one, 0] - at[0, 0]
            blocks.append(goes if at[end, 0] == at[0, 0] + goes * (size - 1) else None)
        passes = {}
        for depth, loop in enumerate(around):
            numbers_of = {1: 1, 2: 2}
            count = self._known_passes.get(loop.index, 0.0)
            if count > _PASSES:
                numbers_of[_LAST] = int(count) - 1
            later = {
                number: seen.get(tuple(n if d == depth else 0 for d in range(len(around))))
                for n, number in numbers_of.items()
            }
            moved = {n: one.minus(first).at(_FAR) for n, one in later.items() if one is not None}
            steady = {1, 2} <= moved.keys() and len(set(moved[1][lives])) == 1
            steady = steady and all((far == number * moved[1]).all() for number, far in moved.items())
            passes[loop.index] = int(moved[1][0]) if steady else None
        base = tuple(sorted((name, int(factor[0])) for name, factor in first.terms.items()))
        return MemoryAccess(
            instruction,
            np.sort(warp - warp.min()),
            base,
            int(warp.min() - first.at(_FAR)[0] + first.constant[0]),
            Steps(warp_step, (blocks[0], blocks[1], blocks[2]), passes),
        )


def dims(size: int | Sequence[int]) -> Dims:
    """Return a size as x, y, z; what is not given is 1."""
    x, y, z = (*((size,) if isinstance(size, int) else tuple(size)), 1, 1)[:3]
    return x, y, z


def _along(axis: int, number: int) -> Dims:
    return (number * (axis == 0), number * (axis == 1), number * (axis == 2))


def _sampled_blocks(grid: Dims) -> list[Dims]:
    blocks = {(0, 0, 0)}
    for axis, size in enumerate(grid):
        for number in (min(1, size - 1), size - 1):
            blocks.add(_along(axis, number))
    return sorted(blocks)


def _merged(old: State | None, new: State) -> State:
    """Return what two ways that meet agree on."""
    if old is None:
        return new
    kept = {}
    for name, value in old.items():
        other = new.get(name)
        kept[name] = value if value is not None and other is not None and value.same(other) else None
    return kept


def _chosen(true: Bools, a: Affine | None, b: Affine | None) -> Affine | None:
    if a is None or b is None or a.terms or b.terms:
        return a if a is not None and b is not None and a.same(b) else None
    return Affine(np.where(true, a.constant, b.constant))


def _add(_: Sequence[str], values: Sequence[Affine]) -> Affine | None:
    total = values[0]
    for value in values[1:3]:
        total = total + value
    return total


def _multiply_add(words: Sequence[str], values: Sequence[Affine]) -> Affine | None:
    if len(values) != 3:
        return None
    if "MOV" in words:
        return values[2]
    found = product(values[0], values[1])
    return None if found is None else found + values[2]


def _shifted_add(_: Sequence[str], values: Sequence[Affine]) -> Affine | None:
    shift = values[2].known if len(values) == 3 else None
    return None if shift is None or (shift < 0).any() else values[0].times(1 << shift) + values[1]


def _shift(words: Sequence[str], values: Sequence[Affine]) -> Affine | None:
    shift = values[1].known
    if shift is None or (shift < 0).any() or len(values) != 3 or any("64" in word for word in words):
        return None
    if "L" in words and "HI" not in words and "W" not in words:
        return values[0].times(1 << shift)
    high = values[2].known
    # A right shift of one word takes it as the higher one.
    alone = "R" in words and values[0].known is not None and not values[0].constant.any()
    return Affine(high >> shift) if alone and high is not None else None


def _logic(_: Sequence[str], values: Sequence[Affine]) -> Affine | None:
    """Return what a table of truth makes of three words."""
    known = [value.known for value in values]
    if len(known) < 4 or any(value is None for value in known):
        return None
    a, b, c, lut = (value for value in known if value is not None)
    return Affine(table(int(lut[0]), (a, b, c), np.full_like(a, -1)))


_OPERATIONS: dict[str, Callable[[Sequence[str], Sequence[Affine]], Affine | None]] = {
    "MOV": lambda _, values: values[0],
    "MOV32I": lambda _, values: values[0],
    "R2UR": lambda _, values: values[0],
    "IADD3": _add,
    "IADD": _add,
    "VIADD": _add,
    "IMAD": _multiply_add,
    "LEA": _shifted_add,
    "SHF": _shift,
    "LOP3": _logic,
}

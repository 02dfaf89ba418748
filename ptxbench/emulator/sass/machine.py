"""Runs a kernel's machine code on a sample of its blocks, all lanes at once.

Lanes that stand at one instruction go on together. Those that a branch parts wait for each other where the
code says so (BSSY and BSYNC, WARPSYNC, BAR), as on the hardware.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError
from ptxbench.core.threads import WARP
from ptxbench.emulator.sass import convert, floats, halves, integer, moves, tensor, warp
from ptxbench.emulator.sass.access import Accesses
from ptxbench.emulator.sass.activity import Activity
from ptxbench.emulator.sass.code import BYTES, ENDS, Code, CodeBlock
from ptxbench.emulator.sass.lanes import Array, Bound, Mask, Registers, Step, unknown
from ptxbench.emulator.sass.memory import Memory, MemorySteps, Spaces
from ptxbench.emulator.sass.passes import LongLoops, Skipped
from ptxbench.emulator.sass.tally import Tally, no_tallies
from ptxbench.sass.operand import Kind
from ptxbench.sass.program import SassInstruction

_STEPS: Mapping[str, Callable[[Bound], Step]] = {
    **integer.STEPS,
    **moves.STEPS,
    **floats.STEPS,
    **halves.STEPS,
    **convert.STEPS,
    **warp.STEPS,
    **tensor.STEPS,
}
_GUARD = re.compile(r"@(!?)(U?P[0-7T])$")
_BARRIERS = 16
_AXES = "XYZ"
# Operands are looked at in the first executions of a block, and now and then.
_LOOKED_AT, _NOW_AND_THEN = 96, 64
# Of a sample that never ends; chosen.
MOST_STEPS = 50_000_000

OnProgress = Callable[[int], None]

Lanes = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Sample:
    """Which blocks of a launch are run.

    Attributes:
        grid: Blocks of the launch, x, y, z.
        block: Threads of a block, x, y, z.
        blocks: Places of those that are run, x, y, z each.
        l1_lines: Lines of L1 that a block has.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks: tuple[tuple[int, int, int], ...]
    l1_lines: int = 2048

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)


@dataclass
class _Meeting:
    """Lanes that wait for each other."""

    arrived: dict[int, Lanes] = field(default_factory=dict)

    def wait(self, address: int, lanes: Lanes) -> None:
        held = self.arrived.get(address)
        self.arrived[address] = lanes.copy() if held is None else held | lanes

    def all(self, shape: tuple[int, ...]) -> Lanes:
        total = np.zeros(shape, bool)
        for lanes in self.arrived.values():
            total |= lanes
        return total

    def release(self, lanes: Lanes) -> list[tuple[int, Lanes]]:
        found = []
        for address, held in list(self.arrived.items()):
            gone = held & lanes
            if gone.any():
                found.append((address, gone))
                self.arrived[address] = held & ~lanes
                if not self.arrived[address].any():
                    del self.arrived[address]
        return found


class Machine:
    """One run of one kernel on a sample.

    Attributes:
        tallies: What was counted of each instruction of the code; see `Tally`.
        steps: Instructions that were carried out, each for all lanes at once.
    """

    def __init__(
        self,
        code: Code,
        sample: Sample,
        memory: Memory,
        banks: Mapping[int, npt.NDArray[np.uint8]],
        passes: int = 128,
        look: bool = True,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Bind every instruction of a kernel.

        Args:
            code: The kernel.
            sample: Which blocks are run.
            memory: Global memory with its arrays, shared and local memory of the sample.
            banks: Constant memory by bank.
            passes: Passes of a long loop that are run; 0: all.
            look: Whether operands are looked at.
            on_progress: Called with the steps carried out, now and then.

        Raises:
            InputError: It has an instruction that the emulator does not know.
        """
        self._on_progress = on_progress
        self._code, self._sample = code, sample
        warps = sample.warps * len(sample.blocks)
        self.registers = Registers(code.kernel.registers, warps)
        self.tallies = no_tallies(len(code.instructions))
        self._shape = (warps, WARP)
        thread = np.tile(np.arange(sample.warps * WARP), len(sample.blocks)).reshape(self._shape)
        self._thread, self._alive = thread, thread < sample.threads
        self._whole = bool(self._alive.all())
        self._block_of = np.repeat(np.arange(len(sample.blocks)), sample.warps)
        self._accesses = Accesses(
            self.tallies,
            code.number_at,
            self._block_of,
            len(sample.blocks),
            len(memory.arena),
            sample.l1_lines,
        )
        spaces = Spaces(
            memory,
            np.broadcast_to((self._block_of * memory.shared_bytes)[:, None], self._shape).astype(np.int64),
            (np.arange(warps * WARP).reshape(self._shape) * memory.local_bytes).astype(np.int64),
            self._accesses.touched,
        )
        self._known = {**_STEPS, **MemorySteps(spaces).steps(), "S2R": self._special, "S2UR": self._special}
        self._known["CS2R"] = self._clock
        self._known["B2R"] = self._barrier_result
        self._known |= {"BSSY": self._gather, "BREAK": self._break, "BMOV": self._barrier_move}
        self._loops = LongLoops(code, self.registers, passes) if passes else None
        self._members = np.zeros((_BARRIERS, *self._shape), bool)
        self._meetings = [_Meeting() for _ in range(_BARRIERS)]
        self._sync, self._bars = _Meeting(), [_Meeting() for _ in range(_BARRIERS)]
        self._sync_members = np.zeros(self._shape, bool)
        # What lanes bring to a barrier that counts them, and what it made of it.
        self._brought = np.zeros((_BARRIERS, *self._shape), bool)
        self._made = np.zeros(self._shape, np.uint32)
        self._reduction = [""] * _BARRIERS
        self._ready: dict[int, Lanes] = {}
        self._visits: dict[int, int] = {}
        self._banks = banks
        self._bound = [Bound(one, self.registers, banks) for one in code.instructions]
        self._steps: list[Step | None] = [None] * len(code.instructions)
        self._guards = [self._guard(one) for one in self._bound]
        self._look = Activity(self.tallies, self._bound) if look else None
        self.steps = 0

    def run(self) -> tuple[Skipped, ...]:
        """Run the kernel to its end; return the loops whose passes were not all run.

        Raises:
            InputError: An instruction is not known, an access lies outside all arrays, or lanes wait for
                others that never come.
        """
        first = self._code.instructions[0].address
        self._ready = {first: self._alive.copy()}
        priority = self._code.priority
        with np.errstate(all="ignore"):
            while self._ready or self._stuck():
                address = (
                    min(self._ready, key=priority.__getitem__)
                    if len(self._ready) > 1
                    else next(iter(self._ready))
                )
                lanes = self._ready.pop(address)
                if not lanes.any():
                    continue
                self._block(address, self._code.blocks[address], lanes)
                if self._on_progress is not None:
                    self._on_progress(self.steps)
                if self.steps > MOST_STEPS:
                    raise InputError(
                        f"{self._code.kernel.name} has not ended after {MOST_STEPS:,} instructions of the"
                        " sample; it may wait for other blocks: count it with `ncu`"
                    )
        skipped = tuple(self._loops.skipped) if self._loops else ()
        # They refer to the machine, which would else stay with its memory until garbage is collected.
        self._known.clear()
        self._steps.clear()
        return skipped

    def _stuck(self) -> bool:
        """Return whether nobody is ready while some are alive; then nobody can be waited for."""
        if self._alive.any():
            raise InputError(
                f"{self._code.kernel.name}: lanes wait for others that never come, such as of blocks that the"
                " sample lacks; count it with `ncu`"
            )
        return False

    def _go(self, address: int, lanes: Lanes) -> None:
        if lanes.any():
            held = self._ready.get(address)
            self._ready[address] = lanes if held is None else held | lanes

    def _block(self, address: int, block: CodeBlock, lanes: Lanes) -> None:
        mask: Mask = None if self._whole and lanes.all() else lanes
        warps = len(lanes) if mask is None else int(lanes.any(axis=1).sum())
        threads = lanes.size if mask is None else int(np.count_nonzero(lanes))
        visits = self._visits.get(address, 0)
        self._visits[address] = visits + 1
        looking = self._look if visits < _LOOKED_AT or visits % _NOW_AND_THEN == 0 else None
        steps = self._steps
        for number in range(block.first, block.end):
            one = self._code.instructions[number]
            guard = self._guards[number]
            active = mask
            taking = threads
            if guard is not None:
                active = np.broadcast_to(guard() & lanes, self._shape)
                taking = int(np.count_nonzero(active))
                # Where all take part, what is not masked is quicker.
                active = mask if taking == threads else active
            self.tallies[Tally.ISSUED, number] += warps
            self.tallies[Tally.THREADS, number] += taking
            self.steps += 1
            if one.base in ENDS:
                self._end(one, number, lanes, active if active is not None else lanes)
                return
            if not taking:
                continue
            if one.base == "SHFL":
                self._accesses.exchanged(one, warps)
            step = steps[number]
            if step is None:
                step = steps[number] = self._step(number)
            if looking is not None:
                looking.before(number, active)
                step(active)
                looking.after(number)
            else:
                step(active)
        if block.end < len(self._code.instructions):
            self._reach(self._code.instructions[block.end].address, lanes, again=False)

    def _reach(self, address: int, lanes: Lanes, again: bool) -> None:
        """Let lanes go on at an address, which may be the head of a loop."""
        self._go(address, lanes)
        if self._loops is None or address not in self._code.loops or len(self._ready) != 1:
            return
        if np.array_equal(self._ready[address], self._alive):
            self._loops.at_head(address, again, self.tallies, self._alive)

    def _step(self, number: int) -> Step:
        """Return what an instruction does, bound to the registers; made when it is first executed."""
        one = self._code.instructions[number]
        base = one.base
        make = self._known.get(base)
        if make is None and base.startswith("U"):
            make = self._known.get(base[1:])
        if make is None:
            raise unknown(one)
        bound = self._bound[number]
        try:
            step = make(bound)
        except (LookupError, StopIteration, ValueError, TypeError) as error:
            raise unknown(one) from error
        return step if self._loops is None else self._loops.watching(bound, number, step)

    def _guard(self, i: Bound) -> Callable[[], Array] | None:
        text = i.instruction.predicate
        if not text:
            return None
        match = _GUARD.match(text)
        if match is None:
            raise unknown(i.instruction)
        held = i.truth(match[2])
        return (lambda: ~held) if match[1] else lambda: held

    # What lanes are.

    def _special(self, i: Bound) -> Step:
        """S2R and S2UR."""
        name = i.operands[1].text
        x, y, _ = self._sample.block
        thread, uniform = self._thread, i.instruction.base == "S2UR"
        axis = _AXES.find(name[-1])
        if name.startswith("SR_TID."):
            value = (thread % x, thread // x % y, thread // (x * y))[axis]
        elif name.startswith("SR_CTAID."):
            value = np.array([one[axis] for one in self._sample.blocks])[self._block_of][:, None]
        elif name.startswith("SR_NTID."):
            value = np.full((1, 1), self._sample.block[axis])
        elif name.startswith("SR_NCTAID."):
            value = np.full((1, 1), self._sample.grid[axis])
        elif name == "SR_LANEID":
            value = thread % WARP
        elif name in ("SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK"):
            lane = (thread % WARP).astype(np.uint64)
            own, below = np.uint64(1) << lane, (np.uint64(1) << lane) - np.uint64(1)
            full = np.uint64(0xFFFFFFFF)
            values = {
                "EQ": own,
                "LT": below,
                "LE": below | own,
                "GT": full & ~(below | own),
                "GE": full & ~below,
            }
            value = values[name[3:5]]
        elif name in ("SR_CgaCtaId", "SR_CLOCKLO", "SRZ", "SR_SMEMSZ"):
            value = np.zeros((1, 1), np.int64)
        elif name == "SR_WARPID":
            value = thread // WARP
        else:
            raise i.unknown()
        words = value.astype(np.uint32)
        words = words[:, :1] if uniform else words
        write = i.writer(i.operands[0])
        return lambda active: write(words, active)

    def _clock(self, i: Bound) -> Step:
        """CS2R of nothing, or of a clock, which goes on with the instructions that are carried out."""
        i.only("32")
        name = i.operands[1].text
        if name not in ("SRZ", "SR_CLOCKLO", "SR_GLOBALTIMERLO"):
            raise i.unknown()
        low, high = i.writer(i.operands[0]), i.writer_behind(i.operands[0], 1)
        nothing = np.zeros((1, 1), np.uint32)

        def step(active: Mask) -> None:
            low(nothing if name == "SRZ" else nothing + np.uint32(self.steps), active)
            if "32" not in i.words:
                high(nothing, active)

        return step

    # Where lanes part and meet.

    def _barrier(self, one: SassInstruction, place: int = 0) -> int:
        match = re.match(r"B(\d+)$", one.operand_list[place].text)
        if match is None:
            raise unknown(one)
        return int(match[1])

    def _gather(self, i: Bound) -> Step:
        """BSSY: these lanes wait for each other at the BSYNC of the same number."""
        number = self._barrier(i.instruction)

        def step(active: Mask) -> None:
            if active is None:
                self._members[number] = True
            else:
                warps = active.any(axis=1, keepdims=True)
                self._members[number] = (self._members[number] & ~warps) | active

        return step

    def _break(self, i: Bound) -> Step:
        """BREAK: these lanes are not waited for any more."""
        number = self._barrier(i.instruction, len(i.operands) - 1)
        condition = i.predicate(i.operands[0]) if len(i.operands) > 1 else None

        def step(active: Mask) -> None:
            gone = np.ones(self._shape, bool) if active is None else active
            self._members[number] &= ~(gone if condition is None else gone & condition())
            self._release(number)

        return step

    def _barrier_move(self, i: Bound) -> Step:
        """BMOV: keeps a barrier's lanes in a register, or takes them from there."""
        if i.instruction.operands.startswith("B"):
            number, word = self._barrier(i.instruction), i.word(i.operands[1])
            lane = np.arange(WARP, dtype=np.uint32)

            def load(active: Mask) -> None:
                there = np.ones(self._shape, bool) if active is None else active
                warps = there.any(axis=1, keepdims=True)
                first = there.argmax(axis=1)[:, None]
                words = np.take_along_axis(np.broadcast_to(word(), self._shape), first, axis=1)
                held = (words >> lane) & np.uint32(1) != 0
                self._members[number] = np.where(warps, held, self._members[number])

            return load
        number, write = self._barrier(i.instruction, 1), i.writer(i.operands[0])
        clear = "CLEAR" in i.words

        def store(active: Mask) -> None:
            write(np.broadcast_to(warp.ballot(self._members[number]), self._shape), active)
            if clear:
                there = np.ones(self._shape, bool) if active is None else active
                self._members[number] &= ~there.any(axis=1, keepdims=True)

        return store

    def _barrier_result(self, i: Bound) -> Step:
        """B2R.RESULT: what a barrier made of what lanes brought to it."""
        i.only("RESULT")
        writes = [i.writer(one) for one in i.operands]
        if not i.words or not 1 <= len(writes) <= 2:
            raise i.unknown()

        def step(active: Mask) -> None:
            writes[0](self._made, active)
            for write in writes[1:]:
                write(self._made != 0, active)

        return step

    def _release(self, number: int) -> None:
        """Let those go on whose warp has all lanes at a BSYNC that wait for each other there."""
        meeting, members = self._meetings[number], self._members[number]
        arrived = meeting.all(self._shape)
        missing = (members & self._alive & ~arrived).any(axis=1, keepdims=True)
        for address, lanes in meeting.release(arrived & ~missing):
            self._members[number] &= ~lanes
            self._reach(address, lanes, again=False)

    def _release_warps(self) -> None:
        """The same of WARPSYNC."""
        arrived = self._sync.all(self._shape)
        missing = (self._sync_members & self._alive & ~arrived).any(axis=1, keepdims=True)
        for address, lanes in self._sync.release(arrived & ~missing):
            self._sync_members &= ~lanes
            self._go(address, lanes)

    def _release_blocks(self, number: int, expected: int = 0) -> None:
        """The same of BAR: of blocks all of whose lanes, or as many as are expected, have come."""
        meeting = self._bars[number]
        arrived = meeting.all(self._shape)
        blocks = len(self._sample.blocks)
        come = arrived.reshape(blocks, -1).sum(axis=1)
        wanted = self._alive.reshape(blocks, -1).sum(axis=1)
        if expected:
            wanted = np.minimum(expected, wanted)
        full = np.repeat((come >= wanted) & (come > 0), self._sample.warps)[:, None]
        if self._reduction[number] and full.any():
            brought = (self._brought[number] & arrived).reshape(blocks, -1).sum(axis=1)
            made = {"AND": brought == come, "OR": brought > 0}.get(self._reduction[number], brought)
            counts = np.repeat(made, self._sample.warps)[:, None].astype(np.uint32)
            self._made = np.where(full, counts, self._made)
            self._reduction[number] = ""
        for address, lanes in meeting.release(arrived & full):
            self._reach(address, lanes, again=False)

    def _end(self, one: SassInstruction, number: int, lanes: Lanes, taking: Lanes) -> None:
        """Send the lanes of a block on."""
        following = one.address + BYTES
        base = one.base
        if base in ("BRA", "UBRA", "JMP"):
            self._branch(one, number, lanes, taking)
            return
        # Lanes whose guard is false go on.
        rest = lanes & ~taking
        self._go(following, rest)
        if base in ("EXIT", "KILL"):
            self._leave(taking)
        elif base == "BSYNC":
            barrier = self._barrier(one)
            self._meetings[barrier].wait(following, taking)
            self._release(barrier)
        elif base == "WARPSYNC":
            self._warp_sync(one, number, taking)
        elif base == "BAR":
            self._block_sync(one, number, taking)
        elif base == "CALL":
            self._go(self._code.target(one), taking)
        else:
            self._return(one, number, taking)

    def _leave(self, taking: Lanes) -> None:
        """Let lanes end; nobody waits for them any more."""
        self._alive = self._alive & ~taking
        self._whole = self._whole and not taking.any()
        for other in range(_BARRIERS):
            if self._meetings[other].arrived:
                self._release(other)
            if self._bars[other].arrived:
                self._release_blocks(other)
        if self._sync.arrived:
            self._release_warps()

    def _branch(self, one: SassInstruction, number: int, lanes: Lanes, taking: Lanes) -> None:
        bound = self._bound[number]
        words = one.opcode.split(".")[1:]
        for operand in one.operand_list:
            if operand.kind in (Kind.PREDICATE, Kind.UNIFORM_PREDICATE, Kind.TRUE, Kind.UNIFORM_TRUE):
                taking = taking & bound.predicate(operand)()
            elif operand.kind in (Kind.UNIFORM, Kind.UNIFORM_ZERO):
                # For warps that have not all lanes of a mask together, or have.
                if "DIV" not in words and "CONV" not in words:
                    raise unknown(one)
                apart = warp.ballot(lanes) != bound.word(operand)()
                taking = taking & (apart if "DIV" in words else ~apart)
            elif operand.kind is not Kind.LABEL:
                raise unknown(one)
        if set(words) - {"U", "DIV", "CONV", "ANY", "ALL"}:
            raise unknown(one)
        target = self._code.target(one)
        self._go(one.address + BYTES, lanes & ~taking)
        if taking.any():
            self._reach(target, taking, again=target <= one.address)

    def _warp_sync(self, one: SassInstruction, number: int, taking: Lanes) -> None:
        operand = one.operand_list[-1] if one.operand_list else None
        words = one.opcode.split(".")[1:]
        if words not in ([], ["ALL"]):
            raise unknown(one)
        if operand is None or words:
            wanted = taking
        else:
            word = np.broadcast_to(self._bound[number].word(operand)(), self._shape)
            wanted = np.where(taking, word, np.uint32(0))
            bits = np.bitwise_or.reduce(wanted, axis=1, keepdims=True)
            wanted = (bits >> np.arange(WARP, dtype=np.uint32)) & np.uint32(1) != 0
        self._sync_members |= wanted
        self._sync.wait(one.address + BYTES, taking)
        self._release_warps()

    def _block_sync(self, one: SassInstruction, number: int, taking: Lanes) -> None:
        operands = one.operand_list
        words = set(one.opcode.split(".")[1:])
        how = next((word for word in ("AND", "OR", "POPC") if word in words), "") if "RED" in words else ""
        condition = operands[-1] if how else None
        if condition is not None:
            operands, words = operands[:-1], (words - {"RED", how}) | {"SYNC"}
        numbers = [operand.number for operand in operands]
        if words - {"SYNC", "DEFER_BLOCKING"} or None in numbers or len(numbers) not in (1, 2):
            raise unknown(one)
        barrier = numbers[0] or 0
        if condition is not None:
            self._reduction[barrier] = how
            self._brought[barrier] = np.where(
                taking, self._bound[number].predicate(condition)(), self._brought[barrier]
            )
        self._bars[barrier].wait(one.address + BYTES, taking)
        self._release_blocks(barrier, numbers[1] or 0 if len(numbers) == 2 else 0)

    def _return(self, one: SassInstruction, number: int, taking: Lanes) -> None:
        # The section that it counts from stands behind the register: `RET.REL.NODEC R8 `(kernel)`.
        match = re.match(r"(R\d+) `\(([^)]+)\)$", one.operands)
        if match is None or match[2] != self._code.kernel.name:
            raise unknown(one)
        places = self._bound[number].register(match[1])
        for place in np.unique(places[taking]):
            if int(place) not in self._code.blocks:
                raise unknown(one)
            self._go(int(place), taking & (places == place))

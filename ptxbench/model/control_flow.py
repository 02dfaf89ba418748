"""The control flow of a kernel and of the routines that it calls: blocks, loops, ways."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ptxbench.core.errors import InputError
from ptxbench.model.trips import counted_trips
from ptxbench.sass.program import SassInstruction, SassKernel

_TARGET = re.compile(r"`\(([^)]+)\)")
_JUMPS = frozenset({"BRA", "JMP", "UBRA"})
_ENDS = frozenset({"EXIT", "RET", "KILL"})
_INDIRECT = frozenset({"BRX", "JMX", "BRXU"})
_CALLS = frozenset({"CALL", "UCALL"})
_IN_REGISTER = re.compile(r"U?R\d")


@dataclass(frozen=True)
class NaturalLoop:
    """A loop of the control-flow graph.

    Attributes:
        address: Address of its head, by which the caller names it.
        index: Number of the loop, by address.
        members: Addresses of its instructions.
        exit_address: The instruction that leaves or repeats it, -1 where there are several.
        trips: Passes a thread makes, where the code shows it; None where it does not.
        depth: Loops around it.
    """

    address: int
    index: int
    members: frozenset[int]
    exit_address: int
    trips: int | None
    depth: int


@dataclass(frozen=True)
class Block:
    """Instructions that are executed one after the other.

    Attributes:
        begin: Address of the first.
        instructions: All of them.
        successors: Blocks that may follow; of a branch its target first.
    """

    begin: int
    instructions: tuple[SassInstruction, ...]
    successors: tuple[int, ...]

    @property
    def last(self) -> SassInstruction:
        """What decides where it goes on."""
        return self.instructions[-1]


@dataclass(frozen=True)
class Flow:
    """The control flow of an entry, or of a routine that it calls.

    Attributes:
        name: Of the entry or the routine.
        prefix: What its addresses are named by beside their number: "" where they are in the entry's section.
        blocks: Its blocks by the address of their first instruction.
        dominators: For each block, the blocks that every way to it goes through.
        loops: Its loops, by address.
    """

    name: str
    prefix: str
    blocks: Mapping[int, Block]
    dominators: Mapping[int, set[int]]
    loops: tuple[NaturalLoop, ...]

    @property
    def instructions(self) -> Iterator[SassInstruction]:
        """All instructions, block by block."""
        return (one for block in self.blocks.values() for one in block.instructions)

    @cached_property
    def in_order(self) -> tuple[Block, ...]:
        """The blocks so that each comes behind those it follows, but for the ways back of loops."""
        done: list[int] = []
        seen: set[int] = set()
        todo = [(min(self.blocks), False)]
        while todo:
            begin, finished = todo.pop()
            if finished:
                done.append(begin)
            elif begin not in seen:
                seen.add(begin)
                todo.append((begin, True))
                todo += [(way, False) for way in self.blocks[begin].successors]
        return tuple(self.blocks[begin] for begin in reversed(done))

    def place(self, address: int) -> str:
        """Return the name of an address, such as "0x1a0"."""
        return f"{self.prefix}{address:#x}"

    @cached_property
    def before(self) -> Mapping[int, Sequence[int]]:
        """The blocks that each block may follow."""
        return _predecessors(self.blocks)

    def side(self, branch: int, way: int) -> frozenset[int]:
        """Return the blocks that are reached only if a block goes on to one of its successors."""
        # The way back of a loop that begins there is no other way to it.
        if any(one != branch and way not in self.dominators[one] for one in self.before[way]):
            return frozenset()
        return frozenset(begin for begin, over in self.dominators.items() if way in over)


def leaves_apart(instruction: SassInstruction) -> bool:
    """Return whether a branch is for warps whose lanes are apart, which is a slow path."""
    return instruction.base in _JUMPS and "DIV" in instruction.opcode.split(".")


def called(instruction: SassInstruction) -> str:
    """Return the name of the routine that an instruction calls, "" where it calls none."""
    match = _TARGET.search(instruction.operands) if instruction.base in _CALLS else None
    return match.group(1) if match else ""


def find_flows(kernel: SassKernel, functions: Mapping[str, SassKernel] | None = None) -> tuple[Flow, ...]:
    """Return the control flow of a kernel, and of each routine that it calls by name.

    Args:
        kernel: The kernel.
        functions: What else its file holds, by name: routines may stand there.

    Raises:
        InputError: It calls or jumps to an address that only its run decides.
    """
    flows: dict[str, Flow] = {}
    wanted = [kernel.name]
    while wanted:
        name = wanted.pop(0)
        if name in flows:
            continue
        where, code = _code_of(name, kernel, functions or {})
        for instruction in code:
            _refuse_unknown(where, instruction)
        blocks = _blocks(where, code)
        dominators = _dominators(blocks)
        first = sum(len(flow.loops) for flow in flows.values())
        prefix = "" if where is kernel else f"{name}:"
        loops = _natural_loops(code, blocks, dominators, first)
        flows[name] = Flow(name, prefix, blocks, dominators, loops)
        wanted += [routine for i in code if (routine := called(i))]
    return tuple(flows.values())


def find_loops(
    kernel: SassKernel, functions: Mapping[str, SassKernel] | None = None
) -> tuple[NaturalLoop, ...]:
    """Return the natural loops of a kernel and its routines, those with one head merged, by address.

    Args:
        kernel: The kernel.
        functions: As for `find_flows`.

    Raises:
        InputError: It calls or jumps to an address that only its run decides.
    """
    return tuple(loop for flow in find_flows(kernel, functions) for loop in flow.loops)


def _code_of(
    name: str, kernel: SassKernel, functions: Mapping[str, SassKernel]
) -> tuple[SassKernel, tuple[SassInstruction, ...]]:
    """Return the instructions of an entry or a routine, and the section that they stand in.

    Raises:
        InputError: There is no such routine.
    """
    if name == kernel.name:
        return kernel, entry_code(kernel)
    begin = dict(kernel.labels).get(name)
    if begin is not None:
        ends = [address for label, address in kernel.labels if label.startswith("$") and address > begin]
        return kernel, _own_code(kernel, begin, min(ends, default=None))
    if name not in functions:
        raise InputError(f"{kernel.name} calls {name}, which is not in its file: link it first, or use `ncu`")
    return functions[name], entry_code(functions[name])


def entry_code(kernel: SassKernel) -> tuple[SassInstruction, ...]:
    """Return the kernel's own instructions: no routines, and not the trap and padding behind its end."""
    starts = [address for label, address in kernel.labels if label.startswith("$")]
    return _own_code(kernel, 0, min(starts, default=None))


def _own_code(kernel: SassKernel, begin: int, end: int | None) -> tuple[SassInstruction, ...]:
    # What is guarded by @!PT never takes place: ptxas pads calls of barriers with it.
    code = [
        i
        for i in kernel.instructions
        if begin <= i.address and (end is None or i.address < end) and i.predicate not in ("@!PT", "@!UPT")
    ]
    while code and (code[-1].base == "NOP" or _is_trap(code[-1], kernel)):
        code.pop()
    return tuple(code)


def _is_trap(instruction: SassInstruction, kernel: SassKernel) -> bool:
    return instruction.base in _JUMPS and _target(instruction, dict(kernel.labels)) == instruction.address


def _target(instruction: SassInstruction, labels: Mapping[str, int]) -> int | None:
    match = _TARGET.search(instruction.operands)
    if match:
        return labels.get(match.group(1))
    plain = re.search(r"0x[0-9a-f]+", instruction.operands)
    return int(plain.group(0), 16) if plain else None


def _blocks(kernel: SassKernel, code: Sequence[SassInstruction]) -> dict[int, Block]:
    """Cut the code into basic blocks, by the address of their first instruction."""
    labels = dict(kernel.labels)
    addresses = {i.address for i in code}
    heads = {code[0].address}
    for now, following in pairwise(code):
        if now.base in _JUMPS | _ENDS:
            heads.add(following.address)
    heads |= {
        t for i in code if i.base in _JUMPS and (t := _target(i, labels)) in addresses and t is not None
    }
    cuts = sorted(heads)
    blocks = {}
    for begin, end in zip(cuts, [*cuts[1:], code[-1].address + 1], strict=True):
        inside = tuple(i for i in code if begin <= i.address < end)
        blocks[begin] = Block(begin, inside, _successors(inside[-1], end, labels, addresses))
    return blocks


def _successors(
    last: SassInstruction, following: int, labels: Mapping[str, int], addresses: set[int]
) -> tuple[int, ...]:
    guarded = bool(last.predicate)
    after = (following,) if following in addresses else ()
    if last.base in _JUMPS:
        target = _target(last, labels)
        # A uniform branch carries its guard as an operand, and one for a warp that is apart the lanes.
        may_fall = guarded or bool(re.match(r"!?U?P\d", last.operands)) or leaves_apart(last)
        jump = (target,) if target in addresses and target is not None else ()
        return (*jump, *(after if may_fall else ()))
    if last.base in _ENDS and not guarded:
        return ()
    return after


def _refuse_unknown(kernel: SassKernel, instruction: SassInstruction) -> None:
    # A call of an address in a register names the kernel that makes it, if anything.
    if instruction.base in _CALLS and (_IN_REGISTER.match(instruction.operands) or not called(instruction)):
        what = "calls"
    elif instruction.base in _INDIRECT:
        what = "jumps to"
    else:
        return
    raise InputError(
        f"{kernel.name} {what} at {instruction.address:#x} what only its run decides ({instruction}); give"
        " executed counts with `ncu`"
    )


def _predecessors(blocks: Mapping[int, Block]) -> dict[int, list[int]]:
    """Return, for each block, the blocks that it may follow."""
    before: dict[int, list[int]] = {begin: [] for begin in blocks}
    for block in blocks.values():
        for following in block.successors:
            before[following].append(block.begin)
    return before


def _dominators(blocks: Mapping[int, Block]) -> dict[int, set[int]]:
    """Return, for each block, the blocks that every way to it goes through."""
    order, before = sorted(blocks), _predecessors(blocks)
    dominators = {begin: set(order) for begin in order}
    dominators[order[0]] = {order[0]}
    changed = True
    while changed:
        changed = False
        for begin in order[1:]:
            ways = [dominators[one] for one in before[begin]]
            new = {begin} | (set.intersection(*ways) if ways else set())
            if new != dominators[begin]:
                dominators[begin], changed = new, True
    return dominators


def _natural_loops(
    code: Sequence[SassInstruction],
    blocks: Mapping[int, Block],
    dominators: Mapping[int, set[int]],
    first: int,
) -> tuple[NaturalLoop, ...]:
    before = _predecessors(blocks)
    bodies: dict[int, set[int]] = {}
    tails: dict[int, list[int]] = {}
    for block in blocks.values():
        for head in block.successors:
            if head in dominators[block.begin]:
                bodies.setdefault(head, {head}).update(_body(before, head, block.begin))
                tails.setdefault(head, []).append(block.begin)
    loops = []
    for index, head in enumerate(sorted(bodies), first):
        inside = [i for begin in sorted(bodies[head]) for i in blocks[begin].instructions]
        members = frozenset(i.address for i in inside)
        tail = blocks[tails[head][0]]
        last = tail.last
        single = len(tails[head]) == 1 and last.predicate != ""
        loops.append(
            NaturalLoop(
                address=head,
                index=index,
                members=members,
                exit_address=last.address if single else -1,
                trips=counted_trips(code, inside, tail.instructions) if single else None,
                depth=sum(head in body and other != head for other, body in bodies.items()),
            )
        )
    return tuple(loops)


def _body(before: Mapping[int, Sequence[int]], head: int, tail: int) -> set[int]:
    """Return the blocks from which the tail is reached without passing the head."""
    found, todo = {head}, [tail]
    while todo:
        begin = todo.pop()
        if begin not in found:
            found.add(begin)
            todo += before[begin]
    return found

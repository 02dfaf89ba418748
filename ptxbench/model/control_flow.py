"""How often each instruction of a kernel is executed, from its SASS and the trip counts of its loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ptxbench.core.errors import InputError
from ptxbench.model.trips import counted_trips
from ptxbench.sass.program import SassInstruction, SassKernel

_TARGET = re.compile(r"`\(([^)]+)\)")
_JUMPS = frozenset({"BRA", "JMP", "UBRA"})
_ENDS = frozenset({"EXIT", "RET", "KILL"})
_INDIRECT = frozenset({"BRX", "JMX", "BRXU"})
_CALLS = frozenset({"CALL", "UCALL"})


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
class _Block:
    begin: int
    instructions: tuple[SassInstruction, ...]
    successors: tuple[int, ...]


def find_loops(kernel: SassKernel) -> tuple[NaturalLoop, ...]:
    """Return the natural loops of a kernel, those with one head merged, by address.

    Raises:
        InputError: The kernel calls a routine or jumps to an address that only its run decides.
    """
    code = entry_code(kernel)
    blocks = _blocks(kernel, code)
    return _natural_loops(code, blocks, _dominators(blocks))


def executions(kernel: SassKernel, trips: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return how often one thread executes each opcode.

    An instruction counts as often as the product of the trip counts of the loops around it. Code that a
    forward branch can skip, and what stands under a predicate, count as executed.

    Args:
        kernel: The kernel.
        trips: Trip count by loop: its number ("0") or its head's address ("0x1a0").

    Raises:
        InputError: A loop's trip count is not known, a name fits no loop, or the code calls or jumps
            to what only its run decides.
    """
    loops = find_loops(kernel)
    passes = _passes(kernel, loops, trips)
    counts: dict[str, float] = {}
    for instruction in entry_code(kernel):
        times = 1.0
        for loop in loops:
            if instruction.address in loop.members:
                times *= passes[loop.index]
        counts[instruction.opcode] = counts.get(instruction.opcode, 0.0) + times
    return tuple(sorted(counts.items()))


def entry_code(kernel: SassKernel) -> tuple[SassInstruction, ...]:
    """Return the kernel's own instructions: no routines, and not the trap and padding behind its end."""
    starts = [address for label, address in kernel.labels if label.startswith("$")]
    # What is guarded by @!PT never takes place: ptxas pads calls of barriers with it.
    code = [
        i
        for i in kernel.instructions
        if (not starts or i.address < min(starts)) and i.predicate not in ("@!PT", "@!UPT")
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


def _blocks(kernel: SassKernel, code: Sequence[SassInstruction]) -> dict[int, _Block]:
    """Cut the code into basic blocks, by the address of their first instruction."""
    labels = dict(kernel.labels)
    addresses = {i.address for i in code}
    heads = {code[0].address}
    for now, following in pairwise(code):
        _refuse_calls(kernel, now)
        if now.base in _JUMPS | _ENDS:
            heads.add(following.address)
    heads |= {
        t for i in code if i.base in _JUMPS and (t := _target(i, labels)) in addresses and t is not None
    }
    cuts = sorted(heads)
    blocks = {}
    for begin, end in zip(cuts, [*cuts[1:], code[-1].address + 1], strict=True):
        inside = tuple(i for i in code if begin <= i.address < end)
        blocks[begin] = _Block(begin, inside, _successors(inside[-1], end, labels, addresses))
    return blocks


def _successors(
    last: SassInstruction, following: int, labels: Mapping[str, int], addresses: set[int]
) -> tuple[int, ...]:
    guarded = bool(last.predicate)
    after = (following,) if following in addresses else ()
    if last.base in _JUMPS:
        target = _target(last, labels)
        # A uniform branch carries its guard as an operand.
        may_fall = guarded or bool(re.match(r"!?U?P\d", last.operands))
        jump = (target,) if target in addresses and target is not None else ()
        return (*jump, *(after if may_fall else ()))
    if last.base in _ENDS and not guarded:
        return ()
    return after


def _refuse_calls(kernel: SassKernel, instruction: SassInstruction) -> None:
    if instruction.base in _CALLS:
        raise InputError(
            f"{kernel.name} calls a routine at {instruction.address:#x} ({instruction}); how often it runs,"
            " and whether it calls itself, cannot be read off the code: give executed counts with `ncu`"
        )
    if instruction.base in _INDIRECT:
        raise InputError(
            f"{kernel.name} jumps at {instruction.address:#x} to where only its run decides ({instruction});"
            " give executed counts with `ncu`"
        )


def _dominators(blocks: Mapping[int, _Block]) -> dict[int, set[int]]:
    """Return, for each block, the blocks that every way to it goes through."""
    order = sorted(blocks)
    before: dict[int, list[int]] = {begin: [] for begin in order}
    for block in blocks.values():
        for following in block.successors:
            before[following].append(block.begin)
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
    code: Sequence[SassInstruction], blocks: Mapping[int, _Block], dominators: Mapping[int, set[int]]
) -> tuple[NaturalLoop, ...]:
    bodies: dict[int, set[int]] = {}
    tails: dict[int, list[int]] = {}
    for block in blocks.values():
        for head in block.successors:
            if head in dominators[block.begin]:
                bodies.setdefault(head, {head}).update(_body(blocks, head, block.begin))
                tails.setdefault(head, []).append(block.begin)
    loops = []
    for index, head in enumerate(sorted(bodies)):
        inside = [i for begin in sorted(bodies[head]) for i in blocks[begin].instructions]
        members = frozenset(i.address for i in inside)
        last = blocks[tails[head][0]].instructions[-1]
        single = len(tails[head]) == 1 and last.predicate != ""
        loops.append(
            NaturalLoop(
                address=head,
                index=index,
                members=members,
                exit_address=last.address if single else -1,
                trips=counted_trips(code, inside, last) if single else None,
                depth=sum(head in body and other != head for other, body in bodies.items()),
            )
        )
    return tuple(loops)


def _body(blocks: Mapping[int, _Block], head: int, tail: int) -> set[int]:
    """Return the blocks from which the tail is reached without passing the head."""
    found, todo = {head}, [tail]
    while todo:
        begin = todo.pop()
        if begin not in found:
            found.add(begin)
            todo += [b.begin for b in blocks.values() if begin in b.successors]
    return found


def _passes(kernel: SassKernel, loops: Sequence[NaturalLoop], trips: Mapping[str, float]) -> dict[int, float]:
    """Return each loop's trip count: the caller's, or else what the code shows."""
    given: dict[int, float] = {}
    for name, count in trips.items():
        loop = next((one for one in loops if name in (str(one.index), f"{one.address:#x}")), None)
        if loop is None:
            have = ", ".join(f"{one.index} at {one.address:#x}" for one in loops) or "none"
            raise InputError(f"{kernel.name} has no loop {name!r}; its loops: {have}")
        given[loop.index] = count
    for loop in loops:
        if loop.index not in given:
            if loop.trips is None:
                raise InputError(
                    f"{kernel.name}: how often the loop at {loop.address:#x} runs is not in the code;"
                    f" give it with `trips` {loop.index}=N (passes of one thread each time it is entered)"
                )
            given[loop.index] = loop.trips
    return given

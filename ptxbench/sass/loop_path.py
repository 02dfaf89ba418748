"""Whether every thread comes to the loop, and executes all of it in every pass."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import chain

from ptxbench.core.threads import WARP
from ptxbench.sass.idle_lanes import idle_lanes_leave
from ptxbench.sass.loop import entry_instructions, label_address
from ptxbench.sass.operand import Kind
from ptxbench.sass.program import SassInstruction, SassKernel
from ptxbench.sass.written import written

# What takes a thread to the address that its label names, elsewhere, ends it, or holds it up.
_TO_A_LABEL = frozenset({"BRA", "JMP", "UBRA"})
_CALLS = frozenset({"CALL", "JCAL", "CAL", "PRET"})
_ELSEWHERE = frozenset({"RET", "BRX", "BRXU", "JMX", "JMXU", "RPCMOV", "LONGJMP", "BRK", "CONT", "SYNC"})
_TURNS = _TO_A_LABEL | _CALLS | _ELSEWHERE | {"EXIT", "KILL", "NANOSLEEP", "BREAK", "BSYNC"}
# Routines of ptxas for what cannot be of tensor memory; each ends in a trap.
_GUARDRAIL = "tcgen05_guardrail_trap"
# Where a branch by table may lead, as nvdisasm adds it.
_TABLE = re.compile(r"BRANCH_TARGETS ([^\"]*)")
# A branch that a row declares leaps over less than so many copies.
_MOST_COPIES_OVER = 2
# What a barrier may be told its number and its count of threads by.
_NUMBERS = (Kind.IMMEDIATE, Kind.REGISTER, Kind.UNIFORM, Kind.CONSTANT)
# Filler that ptxas predicates off: it writes to no register.
_FILLER = frozenset({"LDS", "UIADD3", "UIADD3.64"})


def check_path(
    kernel: SassKernel,
    body: tuple[SassInstruction, ...],
    *,
    calls: bool,
    fills_memory: bool,
    has_tensor_memory: bool = False,
    lanes: int = WARP,
) -> str:
    """Return why not every active thread comes straight to the loop and from there to the end, or "".

    Args:
        kernel: The kernel.
        body: Its loop.
        calls: Whether the row declares that the loop calls a routine.
        fills_memory: Whether the family's template calls a routine before the loop.
        has_tensor_memory: Whether the family's template asks for tensor memory before the loop: ptxas then
            asks until it gets it, sleeps in between, and calls traps where what it gets cannot be.
        lanes: Active lanes of each warp; the others leave before the loop.
    """
    begin, end = body[0].address, body[-1].address
    leaving = idle_lanes_leave(kernel, begin, lanes)
    if lanes != WARP and leaving is None:
        return f"not those lanes alone leave before the loop that are above the first {lanes}"
    labels = dict(kernel.labels)
    entry = {instruction.address for instruction in entry_instructions(kernel)}
    called, routines = 0, calls or fills_memory or has_tensor_memory
    for instruction in kernel.instructions:
        address = instruction.address
        if has_tensor_memory and _is_of_allocation(begin, instruction, labels):
            continue
        if instruction.base in _CALLS and address in entry and not begin <= address <= end:
            called += 1
        elif address < begin and instruction is not leaving and _leaves_way_to(begin, instruction, labels):
            return f"{instruction} before the loop: not every thread reaches it"
        elif address > end and _may_return(
            end, instruction, labels, returns=address not in entry and routines
        ):
            return f"{instruction} behind the loop: it may lead back into it"
    if called > fills_memory:
        return "a call outside of the loop"
    return ""


def _is_of_allocation(begin: int, instruction: SassInstruction, labels: Mapping[str, int]) -> bool:
    """Return whether an instruction asks for tensor memory again, or traps where it is not there."""
    if instruction.base in _CALLS:
        return _GUARDRAIL in instruction.operands
    target = label_address(instruction, labels)
    asks_again = instruction.base in _TO_A_LABEL and target is not None and target < begin
    return instruction.address < begin and (asks_again or instruction.base == "NANOSLEEP")


def _leaves_way_to(begin: int, instruction: SassInstruction, labels: Mapping[str, int]) -> bool:
    if not _turns(instruction) or instruction.base == "BSYNC":
        return False
    target = label_address(instruction, labels)
    leads = instruction.base in _TO_A_LABEL or instruction.base not in _TURNS
    return not leads or target is None or not instruction.address < target <= begin


def _may_return(end: int, instruction: SassInstruction, labels: Mapping[str, int], *, returns: bool) -> bool:
    """Return whether an instruction behind the loop may lead into it; a routine returns to its caller."""
    if instruction.base == "RET":
        return not returns
    if instruction.base in _ELSEWHERE:
        return True
    target = label_address(instruction, labels)
    is_known = instruction.base not in _TO_A_LABEL or target is not None
    return not is_known or (target is not None and target <= end)


def check_branches(
    kernel: SassKernel, body: tuple[SassInstruction, ...], declared: Collection[str], length: float
) -> str:
    """Return which branch of the loop, its back edge apart, the row does not declare, or "".

    Args:
        kernel: The kernel.
        body: Its loop.
        declared: Opcodes that the row expects in this loop beyond the loop's own.
        length: Instructions of one copy.
    """
    labels = dict(kernel.labels)
    place: dict[int | None, int] = {instruction.address: at for at, instruction in enumerate(body)}
    for at, instruction in enumerate(body[:-1]):
        if not _turns(instruction):
            continue
        if instruction.opcode not in declared:
            return f"{instruction} in the loop: a branch that the row does not declare"
        for target in _targets(instruction, labels):
            if instruction.base in _CALLS:
                is_near = target is None or target > body[-1].address
            else:
                is_near = 0 < place.get(target, at) - at < _MOST_COPIES_OVER * length
            if not is_near:
                return f"{instruction} in the loop: it does not lead on within its copy"
    return ""


def _turns(instruction: SassInstruction) -> bool:
    return instruction.base in _TURNS or any(o.kind is Kind.LABEL for o in instruction.operand_list)


def _targets(instruction: SassInstruction, labels: Mapping[str, int]) -> list[int | None]:
    """Return where a branch may lead; None is somewhere that is not known."""
    table = _TABLE.search(instruction.operands)
    if table:
        return [labels.get(name.strip()) for name in table.group(1).split(",")]
    if instruction.base in _TURNS - _TO_A_LABEL - _CALLS - _ELSEWHERE:
        return []
    return [label_address(instruction, labels)]


def check_barrier(body: tuple[SassInstruction, ...], declared: Collection[str]) -> str:
    """Return why the loop does not keep a block's warps in step, or "".

    Args:
        body: The loop.
        declared: Opcodes that the row expects in this loop beyond the loop's own.
    """
    barriers = [instruction for instruction in body if instruction.base == "BAR"]
    for barrier in barriers:
        # ptxas puts number and count into one register, and names it twice.
        numbers = {operand.text for operand in barrier.operand_list if operand.kind in _NUMBERS}
        if len(numbers) > 1:
            return f"{barrier} in the loop: it waits for a number of threads, not for the block"
        if not _is_of_block(barrier) and barrier.opcode not in declared:
            return f"{barrier} in the loop: a barrier that the row does not declare"
    if any(map(_is_of_block, barriers)):
        return ""
    return "no barrier in the loop: the warps of a block are not kept in step"


def _is_of_block(barrier: SassInstruction) -> bool:
    kinds = [operand.kind for operand in barrier.operand_list]
    return barrier.opcode.startswith("BAR.SYNC") and not barrier.predicate and kinds == [Kind.IMMEDIATE]


def check_guards(
    body: tuple[SassInstruction, ...],
    copies: Collection[str],
    deciding: Collection[str],
    *,
    guarded: bool,
    single: bool,
) -> str:
    """Return which instruction of the loop need not be executed by every thread in every pass, or "".

    A guard is the instruction's own where a copy becomes several instructions and one of them, in the loop,
    says whether another is executed (a division's rounding step).

    Args:
        body: The loop.
        copies: The opcodes that copies become.
        deciding: The opcodes that a pass has besides; what one of them decides, the catalogue declares.
        guarded: Whether the row puts a guard before each copy.
        single: Whether a copy is one machine instruction.
    """
    back = len(body) - 1
    ends = {_writer(body, back, name) for name in _conditions(body[-1])}
    for at, instruction in enumerate(body[:-1]):
        guard = instruction.predicate.lstrip("@!")
        if not guard:
            continue
        if guard in ("PT", "UPT"):
            if not _is_filler(instruction):
                return f"{instruction}: its guard holds always or never"
            continue
        writer = _writer(body, at, guard)
        is_copy = instruction.opcode in copies
        alone = writer is None or (single and is_copy and body[writer].opcode not in deciding)
        if writer in ends or (alone and not (is_copy and guarded)):
            return f"{instruction}: not every thread executes it in every pass"
    return ""


def _conditions(branch: SassInstruction) -> tuple[str, ...]:
    """Return the predicates that a branch is taken by."""
    named = (o.name for o in branch.operand_list if o.kind is Kind.UNIFORM_PREDICATE)
    return tuple(filter(None, (branch.predicate.lstrip("@!"), *named)))


def _writer(body: tuple[SassInstruction, ...], at: int, predicate: str) -> int | None:
    """Return which instruction of the loop wrote a predicate last, in this pass or in the one before."""
    for index in chain(range(at - 1, -1, -1), range(len(body) - 1, at, -1)):
        if predicate in written(body[index]):
            return index
    return None


def _is_filler(instruction: SassInstruction) -> bool:
    operands = instruction.operand_list
    return instruction.opcode in _FILLER and bool(operands) and operands[0].lost

"""Whether every thread comes to the loop, and executes all of it in every pass."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from ptxbench.sass.loop import entry_instructions, label_address
from ptxbench.sass.operand import Kind
from ptxbench.sass.program import SassInstruction, SassKernel

# What takes a thread elsewhere, ends it, or holds it up.
_CALLS = frozenset({"CALL", "JCAL", "CAL", "PRET"})
_TURNS = _CALLS | {"EXIT", "RET", "KILL", "NANOSLEEP", "BRA", "BRX", "JMP", "JMX", "UBRA", "BRXU", "JMXU"}
# Filler that ptxas predicates off: it writes to no register.
_FILLER = frozenset({"LDS", "UIADD3", "UIADD3.64"})


def check_path(kernel: SassKernel, body: tuple[SassInstruction, ...], *, fills_memory: bool) -> str:
    """Return why not every thread comes straight to the loop and from there to the end, or "".

    Args:
        kernel: The kernel.
        body: Its loop.
        fills_memory: Whether the family's template calls a routine before the loop.
    """
    begin, end = body[0].address, body[-1].address
    labels = dict(kernel.labels)
    calls = 0
    for instruction in entry_instructions(kernel):
        if instruction.base in _CALLS and not begin <= instruction.address <= end:
            calls += 1
        elif instruction.base in _TURNS and instruction.address < begin:
            target = label_address(instruction, labels)
            if target is None or not instruction.address < target <= begin:
                return f"{instruction} before the loop: not every thread reaches it"
    if calls > fills_memory:
        return "a call outside of the loop"
    return ""


def check_barrier(body: tuple[SassInstruction, ...]) -> str:
    """Return why the loop does not keep a block's warps in step, or ""."""
    barriers = [i for i in body if i.opcode.startswith("BAR.SYNC") and not i.predicate]
    return "" if barriers else "no barrier in the loop: the warps of a block are not kept in step"


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
        elif instruction.opcode in copies and guarded:
            continue
        else:
            writer = _writer(body, at, guard)
            alone = single and instruction.opcode in copies
            if writer is None or writer in ends or (alone and body[writer].opcode not in deciding):
                return f"{instruction}: not every thread executes it in every pass"
    return ""


def _conditions(branch: SassInstruction) -> tuple[str, ...]:
    """Return the predicates that a branch is taken by."""
    named = tuple(o.name for o in branch.operand_list if o.kind is Kind.UNIFORM_PREDICATE)
    return (branch.predicate.lstrip("@!"), *named) if branch.predicate else named


def _writer(body: tuple[SassInstruction, ...], at: int, predicate: str) -> int | None:
    """Return which instruction of the loop wrote a predicate last, in this pass or in the one before."""
    for index in chain(range(at - 1, -1, -1), range(len(body) - 1, at, -1)):
        if any(o.name == predicate and not o.negative for o in body[index].operand_list[:2]):
            return index
    return None


def _is_filler(instruction: SassInstruction) -> bool:
    operands = instruction.operand_list
    return instruction.opcode in _FILLER and bool(operands) and operands[0].lost

"""Find the one loop of a kernel by its back edge."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptxbench.sass.program import Loop, SassInstruction, SassKernel

_BRANCHES = frozenset({"BRA", "JMP", "UBRA"})
_CLOCK = "SR_CLOCKLO"
_TARGET = re.compile(r"`\(([^)]+)\)")


class LoopError(Exception):
    """The kernel has no loop, or more than one; the text says which."""


def find_loop(kernel: SassKernel) -> Loop:
    """Return the body of the kernel's only loop.

    A back edge is a branch to an earlier address; the trap after EXIT (a branch to itself) and the
    routines that ptxas appends behind the kernel do not count. Nor do loops before the first reading of the
    clock and behind the last one, between which the measured loop is: ptxas asks for tensor memory in one.

    Raises:
        LoopError: There is no back edge, or there are several.
    """
    entry = entry_instructions(kernel)
    labels = dict(kernel.labels)
    edges = []
    for instruction in entry:
        target = _branch_target(instruction, labels)
        if target is not None and target < instruction.address:
            edges.append((target, instruction.address))
    if not edges:
        raise LoopError("no loop: the assembler removed it")
    if len(edges) > 1:
        clocks = [i.address for i in entry if _CLOCK in i.operands]
        edges = [one for one in edges if clocks and clocks[0] < one[0] and one[1] < clocks[-1]] or edges
    if len(edges) > 1:
        raise LoopError(f"{len(edges)} back edges where one loop was expected")
    begin, end = edges[0]
    body = tuple(i for i in entry if begin <= i.address <= end)
    return Loop(_without_far_exit(body, labels))


def _without_far_exit(
    body: tuple[SassInstruction, ...], labels: dict[str, int]
) -> tuple[SassInstruction, ...]:
    """Drop the guarded call with which ptxas leaves a long loop before sm_90.

    Such a loop ends in "@!P CALL behind_the_loop; BRA begin" where a short one has "@P BRA begin": the
    call is half of the back edge, and is not taken in any pass but the last.
    """
    if len(body) < 2 or body[-1].predicate or body[-2].base != "CALL" or not body[-2].predicate:
        return body
    exit_address = label_address(body[-2], labels)
    if exit_address is None or exit_address <= body[-1].address:
        return body
    return (*body[:-2], body[-1])


def entry_instructions(kernel: SassKernel) -> tuple[SassInstruction, ...]:
    """Return a kernel's instructions without the routines that follow the entry, such as a division's."""
    starts = [address for label, address in kernel.labels if label.startswith("$")]
    return tuple(i for i in kernel.instructions if not starts or i.address < min(starts))


def _branch_target(instruction: SassInstruction, labels: dict[str, int]) -> int | None:
    return label_address(instruction, labels) if instruction.base in _BRANCHES else None


def label_address(instruction: SassInstruction, labels: Mapping[str, int]) -> int | None:
    """Return the address that the instruction's label stands at, or None where it names none."""
    match = _TARGET.search(instruction.operands)
    return labels.get(match.group(1)) if match else None

"""A kernel's machine code as the machine runs it: blocks of instructions, and what ends each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ptxbench.core.errors import InputError
from ptxbench.sass.operand import Kind
from ptxbench.sass.program import SassInstruction, SassKernel

_LABEL = re.compile(r"`\(([^)]+)\)")
# What ends a block: it sends lanes elsewhere, or lets them wait.
ENDS = frozenset({"BRA", "UBRA", "JMP", "EXIT", "BSYNC", "CALL", "RET", "WARPSYNC", "BAR", "KILL"})
BYTES = 16


@dataclass(frozen=True)
class CodeBlock:
    """Instructions that follow each other, by their number in the code.

    Attributes:
        first: Number of the first.
        end: Number behind the last.
    """

    first: int
    end: int


@dataclass(frozen=True)
class Code:
    """The instructions of a kernel's section, its routines included.

    Attributes:
        kernel: As the listing has it.
    """

    kernel: SassKernel

    @property
    def instructions(self) -> tuple[SassInstruction, ...]:
        """All of them."""
        return self.kernel.instructions

    @cached_property
    def labels(self) -> Mapping[str, int]:
        """Addresses by label."""
        return dict(self.kernel.labels)

    @cached_property
    def routines_from(self) -> int:
        """Where routines begin, behind the kernel's own code."""
        starts = [at for label, at in self.kernel.labels if label.startswith("$")]
        return min(starts, default=1 << 62)

    @cached_property
    def number_at(self) -> Mapping[int, int]:
        """Number of each instruction by its address."""
        return {one.address: number for number, one in enumerate(self.instructions)}

    def target(self, instruction: SassInstruction) -> int:
        """Return where a branch or a call goes.

        Raises:
            InputError: Only its run decides, or it is not in this section.
        """
        match = _LABEL.search(instruction.operands)
        at = self.labels.get(match[1]) if match else None
        if at is None:
            raise InputError(
                f"{self.kernel.name} goes at {instruction.address:#x} where the emulator cannot follow"
                f" ({instruction}); count it with `ncu`"
            )
        return at

    @cached_property
    def blocks(self) -> Mapping[int, CodeBlock]:
        """Blocks by the address of their first instruction."""
        heads = {self.instructions[0].address} | {at for _, at in self.kernel.labels}
        heads |= {one.address + BYTES for one in self.instructions if one.base in ENDS}
        numbers = sorted(self.number_at[at] for at in heads if at in self.number_at)
        ends = [*numbers[1:], len(self.instructions)]
        return {
            self.instructions[first].address: CodeBlock(first, end)
            for first, end in zip(numbers, ends, strict=True)
        }

    @cached_property
    def loops(self) -> Mapping[int, int]:
        """Loops by the address of their head: the address of the last branch back to it."""
        found: dict[int, int] = {}
        for one in self.instructions:
            if one.base in ("BRA", "UBRA") and (match := _LABEL.search(one.operands)):
                head = self.labels.get(match[1], 1 << 62)
                # A branch to itself is the trap behind the end.
                if head < one.address and one.predicate not in ("@!PT", "@!UPT"):
                    found[head] = max(found.get(head, 0), one.address)
        return found

    @cached_property
    def priority(self) -> Mapping[int, tuple[int, int, int]]:
        """What of the blocks that lanes are ready for runs first.

        Ways to a BSYNC come first, since the hardware does not join lanes before they wait there, each group
        by itself. Then come routines, then inner loops, then what has a lower address: so warps whose loops
        take unlike passes meet again behind them.
        """
        found = {}
        for begin in self.blocks:
            depth = sum(head <= begin <= end for head, end in self.loops.items())
            routine = begin >= self.routines_from
            # The nearest to the BSYNC first, so that groups do not join on their way there.
            found[begin] = (0, 0, -begin) if self._waits(begin) else (1 if routine else 2, -depth, begin)
        return found

    def _waits(self, begin: int) -> bool:
        """Return whether a block leads to a BSYNC without a branch."""
        seen: set[int] = set()
        while begin in self.blocks and begin not in seen:
            seen.add(begin)
            block = self.blocks[begin]
            last = self.instructions[block.end - 1]
            if last.base == "BSYNC":
                return True
            if last.base not in ENDS:
                begin = last.address + BYTES
            elif last.base == "BRA" and not last.predicate and last.operand_list[0].kind is Kind.LABEL:
                begin = self.target(last)
            else:
                return False
        return False

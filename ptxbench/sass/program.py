"""SASS as data: instructions, kernels, the loop."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ptxbench.sass.operand import Operand, parse_operands

# A general register, such as R12 of "-|R12|" or "desc[UR4][R12.64+0x8]"; UR4 is none.
_REGISTER = re.compile(r"(?<![\w$.])R(\d+)\b")


@dataclass(frozen=True)
class SassInstruction:
    """One machine instruction as nvdisasm prints it.

    Attributes:
        address: Byte offset in the kernel.
        predicate: Guard such as "@P0" or "@!UP1", or "".
        opcode: Mnemonic with modifiers, such as "IMAD.WIDE.U32".
        operands: Everything after the mnemonic.
    """

    address: int
    predicate: str
    opcode: str
    operands: str

    @cached_property
    def base(self) -> str:
        """The mnemonic without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def operand_list(self) -> tuple[Operand, ...]:
        """The operands one by one, destinations first."""
        return parse_operands(self.operands)

    def __str__(self) -> str:
        return f"{self.predicate + ' ' if self.predicate else ''}{self.opcode} {self.operands}".rstrip()


@dataclass(frozen=True)
class Loop:
    """The body of a kernel's one loop, from the branch's target to the branch.

    Attributes:
        instructions: In address order, the back edge last.
    """

    instructions: tuple[SassInstruction, ...]

    @property
    def counts(self) -> Counter[str]:
        """How often each opcode (with modifiers) stands in the loop."""
        return Counter(i.opcode for i in self.instructions)


@dataclass(frozen=True)
class SassKernel:
    """One entry of a cubin.

    Attributes:
        name: Entry name.
        instructions: In address order.
        labels: Label name and the address it stands at.
    """

    name: str
    instructions: tuple[SassInstruction, ...]
    labels: tuple[tuple[str, int], ...]

    @cached_property
    def registers(self) -> int:
        """General registers that the code names (highest index plus one)."""
        named = (_REGISTER.findall(instruction.operands) for instruction in self.instructions)
        return max((int(number) for numbers in named for number in numbers), default=-1) + 1

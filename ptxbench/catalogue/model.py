"""A catalogue row: one PTX instruction as ptxbench can measure it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ptxbench.gpu.protocol import OptLevel
from ptxbench.sass.program import counts_text


class Form(StrEnum):
    """How the copies of an instruction depend on each other."""

    LATENCY = "latency"  # one chain: each copy waits for the one before it
    THROUGHPUT = "throughput"  # several chains side by side, to fill the pipe


class Unit(StrEnum):
    """What executes one instruction, and so what its energy is counted for."""

    THREAD = "thread"
    WARP = "warp"


@dataclass(frozen=True)
class Expectation:
    """The SASS that one copy of the instruction becomes at one level.

    Attributes:
        opt_level: Assembler level.
        counts: Opcode with modifiers, and how many of it one copy gives, in catalogue order;
            "A|B" counts both as one, since the assembler may pick either.
        loop_moves: Register moves that one pass of the loop has besides, whatever N.
        tolerances: For some entries of `counts`, by how much the mean of a copy may differ from the
            expected count, because ptxas shares that work between neighbouring copies.
    """

    opt_level: OptLevel
    counts: tuple[tuple[str, float], ...]
    loop_moves: int
    tolerances: tuple[tuple[str, float], ...] = ()

    def tolerance_of(self, opcodes: str) -> float:
        """Return by how much the count of an entry of `counts` may differ; 0 is exact."""
        return dict(self.tolerances).get(opcodes, 0.0)

    @property
    def text(self) -> str:
        """Such as "FFMA" or "LOP3.LUT*2 POPC"."""
        return counts_text(self.counts)


@dataclass(frozen=True)
class Instruction:
    """One row of the catalogue.

    Attributes:
        name: Unique name, the PTX opcode with its types.
        opcode: What is printed into the PTX text.
        category: The PTX ISA's category of instructions.
        family: Template that renders it (ptx_templates/<family>.ptx.j2).
        type: PTX register type of the result.
        operands: Roles of the operands in order: x (the chain), y (the result), a, b, c (loaded).
        values: Generator of the operand values (ptxbench.ptx.operands).
        alive: How the chain keeps its values alive, in words.
        companions: Multiply-adds that follow each copy to keep its values alive; the overhead loop has
            them too.
        copies: N, copies of the instruction in the loop body.
        chains: Independent chains of the throughput form.
        unit: What executes one instruction.
        min_target: Lowest compute capability times ten.
        sass: Expected SASS, one entry a level.
        note: What is surprising about its SASS, in words, or "".
    """

    name: str
    opcode: str
    category: str
    family: str
    type: str
    operands: tuple[str, ...]
    values: str
    alive: str
    companions: int
    copies: int
    chains: int
    unit: Unit
    min_target: int
    sass: tuple[Expectation, ...]
    note: str

    def expected(self, opt_level: OptLevel) -> Expectation:
        """Return the SASS that one copy becomes at `opt_level`."""
        return next(e for e in self.sass if e.opt_level == opt_level)

    def forms(self, opt_level: OptLevel) -> tuple[Form, ...]:
        """Return the forms that differ at a level, the one that fills the pipes last.

        At O0 ptxas waits for every result, so that chains side by side bring nothing.
        """
        if opt_level is OptLevel.O0 or self.chains == 1:
            return (Form.LATENCY,)
        return (Form.LATENCY, Form.THROUGHPUT)

    def chains_of(self, form: Form) -> int:
        """Return how many chains a form has."""
        return self.chains if form is Form.THROUGHPUT else 1

    def exists_on(self, capability: int) -> bool:
        """Return whether GPUs of a compute capability (times ten) have this instruction."""
        return capability >= self.min_target

"""Under which condition an instruction is measured: the axes, from the command line to a trial's id."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import product

# The two protocols whose columns reports know; `ptxbench.experiment.protocols` lists every protocol.
ARAFA = "arafa"
DYNAMIC = "dynamic"


class OptLevel(StrEnum):
    """Optimization level of the PTX assembler (CU_JIT_OPTIMIZATION_LEVEL, ptxas -O)."""

    O0 = "O0"
    O3 = "O3"

    @property
    def number(self) -> int:
        """The level as the assembler takes it."""
        return int(self.value[1:])


class Pattern(StrEnum):
    """What the operands are."""

    RANDOM = "random"
    ZEROS = "zeros"


class Form(StrEnum):
    """How the copies of an instruction depend on each other."""

    LATENCY = "latency"  # one chain: each copy waits for the one before it
    THROUGHPUT = "throughput"  # several chains side by side, to fill the pipe


@dataclass(frozen=True)
class Condition:
    """One value of each axis.

    Attributes:
        opt_level: Optimization level of the assembler.
        protocol: Name of the measuring protocol.
        pattern: Operand pattern.
        form: Form of the kernels; instruction, protocol and optimization level decide it, so no key names it.
    """

    opt_level: OptLevel
    protocol: str
    pattern: Pattern
    form: Form = Form.LATENCY

    @property
    def key(self) -> str:
        """The part of a trial's id that names the condition, such as "O3/dynamic/random"."""
        return f"{self.opt_level}/{self.protocol}/{self.pattern}"

    def __str__(self) -> str:
        """Return the condition for a reader, such as "-O3 dynamic random"."""
        return f"-{self.opt_level} {self.protocol} {self.pattern}"


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The values of each axis that a run goes through: it measures under every combination of them.

    Attributes:
        opt_levels: Optimization levels of the assembler.
        protocols: Names of the measuring protocols.
        patterns: Operand patterns.
    """

    opt_levels: tuple[OptLevel, ...] = ()
    protocols: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()

    def combinations(self) -> tuple[Condition, ...]:
        """Return every combination, the last axis changing fastest."""
        return tuple(
            Condition(OptLevel(opt_level), protocol, Pattern(pattern))
            for opt_level, protocol, pattern in product(self.opt_levels, self.protocols, self.patterns)
        )

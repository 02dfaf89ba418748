"""Under which condition an instruction is measured."""

from __future__ import annotations

from enum import StrEnum

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

"""Under which condition an instruction is measured."""

from __future__ import annotations

from enum import StrEnum


class OptLevel(StrEnum):
    """Optimization level of the PTX assembler (CU_JIT_OPTIMIZATION_LEVEL, ptxas -O)."""

    O0 = "O0"
    O3 = "O3"

    @property
    def number(self) -> int:
        """The level as the assembler takes it."""
        return int(self.value[1:])

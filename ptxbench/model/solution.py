"""What the joint solve gives: energies of opcodes, how well they are determined, and the rows beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from ptxbench.catalogue.model import Unit
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.storage.schema import TableRow

# Adjacent instructions change what an opcode costs (operand reuse, banks): the model itself is not better
# than this.
MODEL_ERROR = 0.01
# An opcode whose standard error is over this part of its energy was not measured by itself; chosen.
SURE = 0.25


@dataclass(frozen=True)
class SolvedOpcode:
    """What one opcode costs one thread on one operand pattern, pJ.

    Attributes:
        opcode: With modifiers.
        pattern: Operand pattern.
        energy_pj: Energy by the joint solve alone; NaN where the kernels do not tell this opcode from others.
        error_pj: Standard error of it; NaN there too.
        together_with: Opcodes that the solve cannot separate from it.
        kernels: How many kernels execute it.
        estimate_pj: Energy for use in estimates, where undetermined opcodes are drawn to the median of their
            class; NaN on patterns that estimates do not use.
        estimate_error_pj: Standard error of that.
        identifiable: Whether the kernels determine it.
    """

    opcode: str
    pattern: str
    energy_pj: float
    error_pj: float
    together_with: tuple[str, ...]
    kernels: int
    estimate_pj: float = math.nan
    estimate_error_pj: float = math.nan
    identifiable: bool = True

    def __post_init__(self) -> None:
        # Files of before do not have it.
        object.__setattr__(self, "identifiable", not math.isnan(self.error_pj))


@dataclass(frozen=True)
class PatternFit:
    """How well one pattern's system is solved.

    Attributes:
        pattern: Operand pattern.
        kernels: Equations.
        opcodes: Unknowns.
        rank: Rank of the counts.
        condition: Ratio of the largest to the smallest singular value above zero, rows weighted and
            columns scaled to one.
        reduced_chi2: Sum of squared weighted residuals over degrees of freedom; NaN where there are none.
        median_residual: Median of |residual| / energy.
        worst_residual: Largest of it.
        worst_kernel: The kernel that has it.
    """

    pattern: str
    kernels: int
    opcodes: int
    rank: int
    condition: float
    reduced_chi2: float
    median_residual: float
    worst_residual: float
    worst_kernel: str


@dataclass(frozen=True)
class Comparison:
    """The two answers for one row of the table, pJ a thread.

    Attributes:
        instruction: Catalogue name.
        opt_level: Optimization level of the assembler.
        pattern: Operand pattern.
        direct_pj: The row's difference of target and overhead loop.
        direct_error_pj: Standard error of it.
        joint_pj: What the opcodes of one copy cost by the joint solve.
        joint_error_pj: Standard error of it.
    """

    instruction: str
    opt_level: str
    pattern: str
    direct_pj: float
    direct_error_pj: float
    joint_pj: float
    joint_error_pj: float

    @classmethod
    def of_row(cls, row: TableRow, joint_pj: float, joint_error_pj: float) -> Self:
        """Set the result of the joint solve beside a row of the dynamic protocol.

        Args:
            row: The row.
            joint_pj: What the opcodes of one copy cost a thread.
            joint_error_pj: Standard error of it.
        """
        threads = Unit(row.unit).threads
        return cls(
            instruction=row.instruction,
            opt_level=row.opt_level,
            pattern=row.operands,
            direct_pj=row.dynamic_pj / threads,
            direct_error_pj=row.dynamic_ci95_pj / COVERAGE_FACTOR / threads,
            joint_pj=joint_pj,
            joint_error_pj=joint_error_pj,
        )

    @property
    def disagree(self) -> bool:
        """Whether they differ by more than 1.96 standard errors of the difference and the model's own."""
        errors_pj = (self.direct_error_pj, self.joint_error_pj, MODEL_ERROR * abs(self.direct_pj))
        return abs(self.direct_pj - self.joint_pj) > COVERAGE_FACTOR * math.hypot(*errors_pj)


@dataclass(frozen=True)
class JointSolution:
    """Energies of every opcode of a run.

    Attributes:
        fits: One a pattern.
        opcodes: By pattern, then dearest first, those without an energy last.
        compared: Rows of the table whose every opcode is among them.
    """

    fits: tuple[PatternFit, ...]
    opcodes: tuple[SolvedOpcode, ...]
    compared: tuple[Comparison, ...]

    @property
    def disagreements(self) -> tuple[Comparison, ...]:
        """The rows whose two answers differ beyond their errors."""
        return tuple(one for one in self.compared if one.disagree)

"""A unit of measuring with what it takes to run it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.analysis.subject import Subject
from ptxbench.core.cubin import Cubin
from ptxbench.experiment.trial import Work
from ptxbench.experiment.trial_record import TrialPlan
from ptxbench.storage.schema import Role


@dataclass(frozen=True)
class LoadedUnit:
    """A unit with what it takes to run it.

    Attributes:
        unit: What is measured.
        cubin: Its kernels.
        operands: Input buffer, uint8, shape (bytes,).
    """

    unit: Subject
    cubin: Cubin
    operands: npt.NDArray[np.uint8]

    def work(self, role: Role, grid: int, block: int, name: str = "") -> Work:
        """Return one of the unit's kernels as uncalibrated work.

        Args:
            role: Which kernel.
            grid: Blocks.
            block: Threads a block.
            name: Under which name it is measured, where that is not the unit's own.
        """
        unit = self.unit
        copies = unit.instruction.copies
        plan = TrialPlan(
            instruction=unit.instruction.name,
            opt_level=unit.opt_level,
            protocol=unit.protocol,
            pattern=unit.pattern,
            role=role,
            copies=2 * copies if role in (Role.TARGET_2N, Role.OVERHEAD_2N) else copies,
            unit=name or unit.name,
        )
        return Work(plan, self.cubin, grid, block, self.operands, unit.instruction.scratch * grid * block)

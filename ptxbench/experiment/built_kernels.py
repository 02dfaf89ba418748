"""A subject with its kernels assembled and its operands drawn: ready to be measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.analysis.subject import Subject
from ptxbench.core.cubin import Cubin
from ptxbench.experiment.kernel import Kernel
from ptxbench.experiment.numeric_check import ExpectedModule
from ptxbench.storage.schema import Role


@dataclass(frozen=True)
class BuiltKernels:
    """A subject that is ready to be measured.

    Attributes:
        subject: What is measured.
        cubin: Its kernels.
        operands: Input buffer, uint8, shape (bytes,).
        expected: What its kernels must compute; None where the GPU or the reference cannot tell.
    """

    subject: Subject
    cubin: Cubin
    operands: npt.NDArray[np.uint8]
    expected: ExpectedModule | None = None

    def kernel(self, role: Role, grid: int, block: int, name: str = "") -> Kernel:
        """Return one of the subject's kernels; its loop count is not calibrated.

        Args:
            role: Which kernel.
            grid: Blocks.
            block: Threads a block.
            name: Under which name it is measured, where that is not the subject's own.
        """
        instruction = self.subject.instruction
        copies = instruction.copies
        return Kernel(
            subject=name or self.subject.name,
            instruction=instruction.name,
            condition=self.subject.condition,
            role=role,
            copies=2 * copies if role in (Role.TARGET_2N, Role.OVERHEAD_2N) else copies,
            cubin=self.cubin,
            grid=grid,
            block=block,
            operands=self.operands,
            scratch_bytes=instruction.scratch * grid * block,
        )

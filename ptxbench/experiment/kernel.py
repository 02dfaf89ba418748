"""One kernel of a subject, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ptxbench.core.condition import Condition
from ptxbench.core.cubin import Cubin
from ptxbench.devices.base import Launch
from ptxbench.storage.schema import Role

MAX_ITERATIONS = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel, and how it is launched.

    Attributes:
        subject: Name of what the kernel measures, the beginning of its trials' ids: a subject, an overhead
            loop that several subjects share, or the sleeping kernel.
        instruction: Catalogue name, or "static".
        condition: Under which condition it runs.
        role: Which kernel of the subject it is.
        copies: Copies of the instruction in the loop body.
        cubin: Module that holds the kernel.
        grid: Blocks.
        block: Threads a block.
        operands: Input buffer, uint8, shape (bytes,).
        scratch_bytes: Memory that the instruction itself works on.
        iterations: Loop count; before calibration a first guess, or 0.
    """

    subject: str
    instruction: str
    condition: Condition
    role: Role
    copies: int
    cubin: Cubin
    grid: int
    block: int
    operands: npt.NDArray[np.uint8]
    scratch_bytes: int
    iterations: int = 0

    def trial_id(self, repeat: int) -> str:
        """Return the id of one repeat of this kernel."""
        return f"{self.subject}/{self.role}/{repeat}"

    def lasting(self, window_s: float, per_pass_s: float) -> Kernel:
        """Return the kernel with the loop count that fills `window_s` where a pass takes `per_pass_s`."""
        return replace(self, iterations=max(1, min(round(window_s / per_pass_s), MAX_ITERATIONS)))

    def launch(self, repeat: int) -> Launch:
        """Return the launch of one repeat."""
        return Launch(
            trial_id=self.trial_id(repeat),
            cubin=self.cubin,
            kernel=self.role,
            grid=self.grid,
            block=self.block,
            iterations=self.iterations,
            operands=(self.operands,),
            pattern=self.condition.pattern,
            lanes=self.condition.lanes,
            scratch_bytes=self.scratch_bytes,
        )

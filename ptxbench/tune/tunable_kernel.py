"""What is tuned: the border between the search and a kernel, be it ptxbench's GEMM or a user's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from ptxbench.catalogue.occupancy import BlockNeeds
from ptxbench.core.cubin import Cubin
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.devices.base import Gpu, Launch
from ptxbench.sass.resources import Resources
from ptxbench.tune.check import Correct
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.estimate import Work
from ptxbench.tune.kernel import Refused
from ptxbench.tune.variant import Problem, Variant

Point = Variant | Configuration


class Built(Protocol):
    """A variant, assembled."""

    @property
    def variant(self) -> Point:
        """Its parameters."""
        ...

    @property
    def cubin(self) -> Cubin:
        """Its machine code."""
        ...

    @property
    def resources(self) -> Resources:
        """Registers and stack."""
        ...

    @property
    def needs(self) -> BlockNeeds:
        """What a block takes of an SM."""
        ...


@dataclass(frozen=True)
class Prediction:
    """What the code of a variant tells without a run.

    Attributes:
        work: What a launch does; None where the code does not tell.
        modelled_s: Time of a launch, NaN where it is not known.
        flops: Floating-point operations of a launch, NaN where they are not known.
    """

    work: Work | None
    modelled_s: float = math.nan
    flops: float = math.nan


class TunableKernel(Protocol):
    """A kernel with variants, and what its results must be."""

    @property
    def problem(self) -> Problem | KernelProblem:
        """What the variants compute."""
        ...

    def build(self, variant: Any, target: str) -> Built | Refused:
        """Make the machine code of one of its variants.

        Raises:
            ToolError: A compiler, ptxas or nvdisasm is missing.
        """
        ...

    def source_key(self, variant: Any, target: str) -> str:
        """Return a hash of the files and flags that the machine code of a variant follows from.

        "" where it follows from the problem and the assembler alone.

        Raises:
            ToolError: A compiler is missing.
        """
        ...

    def predict(self, kernel: Any, info: GpuInfo) -> Prediction:
        """Return what the code of a kernel that it built tells."""
        ...

    def check(self, gpu: Gpu, kernel: Any) -> tuple[Correct, str]:
        """Run a kernel and compare; return whether it is right, and a sentence where it is not.

        Raises:
            LaunchError: The kernel did not run.
            GpuError: The GPU stopped answering.
        """
        ...

    def launch(self, kernel: Any) -> Launch:
        """Return the launch that is timed and measured."""
        ...

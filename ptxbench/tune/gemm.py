"""ptxbench's own GEMM kernels as something to tune."""

from __future__ import annotations

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.devices.base import Bytes, Gpu, Launch
from ptxbench.tune.check import Checker, Correct
from ptxbench.tune.estimate import modelled_clock_mhz, modelled_time_s, work_of
from ptxbench.tune.kernel import Kernel, Refused, build_kernel, operand_matrices
from ptxbench.tune.tunable_kernel import Prediction
from ptxbench.tune.variant import Problem, Variant


class Gemm:
    """The variants of one product C = A B.

    Args:
        problem: Its sizes and type.
        seed: Of the operands.
        pattern: Operand pattern of A and B.
    """

    def __init__(self, problem: Problem, seed: int = 0, pattern: str = "random") -> None:
        self.problem = problem
        self._seed = seed
        self._pattern = pattern
        self._checker = Checker(seed)
        self._inputs: tuple[Bytes, ...] | None = None

    def build(self, variant: Variant, target: str) -> Kernel | Refused:
        """Render, assemble and take apart one variant; see `build_kernel`."""
        return build_kernel(variant, target, variant.form(self.problem))

    def source_key(self, _variant: Variant, _target: str) -> str:
        """Return "": the templates are ptxbench's own."""
        return ""

    def predict(self, kernel: Kernel, info: GpuInfo) -> Prediction:
        """Return work by the tiles, and the time by a model of the GEMM."""
        clock_mhz = modelled_clock_mhz(info)
        time_s = modelled_time_s(kernel, self.problem, info.sm_count, clock_mhz)
        return Prediction(work_of(kernel, self.problem), time_s, float(self.problem.flops))

    def check(self, gpu: Gpu, kernel: Kernel) -> tuple[Correct, str]:
        """Compare the product of a small problem with numpy's; see `Checker`."""
        return self._checker.check(gpu, kernel)

    def launch(self, kernel: Kernel) -> Launch:
        """Return the launch that computes the problem."""
        if self._inputs is None:
            self._inputs = operand_matrices(self.problem, self._seed, self._pattern)
        return kernel.launch(self.problem, self._inputs, self._pattern)

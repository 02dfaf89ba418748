"""Is a kernel's product right? Compared with numpy on a small problem, before anything is timed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ptxbench.devices.base import Bytes, Gpu
from ptxbench.tune.kernel import Kernel, operand_matrices
from ptxbench.tune.variant import DType, Problem, Variant

_KINDS = {DType.F32: np.float32, DType.F64: np.float64, DType.F16: np.float16}
_RESULTS = {DType.F32: np.float32, DType.F64: np.float64, DType.F16: np.float32}
# A product of k terms may be off by k roundings; a tensor core truncates, which counts twice.
_ROUNDINGS = 2.0
# Blocks each way, so that a block's place in the grid counts, and stripes beyond those that fill the buffers.
_BLOCKS = 2
_MORE_STRIPES = 3

Floats = npt.NDArray[np.float64]


class Correct(StrEnum):
    """What is known of a kernel's results."""

    YES = "yes"
    NO = "no"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, eq=False)
class _Case:
    """A small problem, its inputs, and what is right.

    Attributes:
        problem: Its sizes.
        inputs: A and B.
        exact: A B in float64, shape (m, n).
        allowed: How far off each element may be, shape (m, n).
    """

    problem: Problem
    inputs: tuple[Bytes, Bytes]
    exact: Floats
    allowed: Floats


@dataclass
class Checker:
    """Checks kernels; the small problems are kept, as many variants share one.

    Attributes:
        seed: Of the operands.
    """

    seed: int
    _cases: dict[Problem, _Case] = field(default_factory=dict)

    def check(self, gpu: Gpu, kernel: Kernel) -> tuple[Correct, str]:
        """Run a kernel on a small problem and compare.

        Returns:
            Whether it is right, and a sentence where it is not.

        Raises:
            LaunchError: The kernel did not run.
            GpuError: The GPU stopped answering.
        """
        case = self._case(kernel.variant)
        output = gpu.compute(kernel.launch(case.problem, case.inputs))
        if output is None:
            return Correct.UNCHECKED, ""
        result = output.view(_RESULTS[case.problem.dtype]).reshape(case.exact.shape).astype(np.float64)
        off = np.abs(result - case.exact)
        wrong = ~(off <= case.allowed)  # NaN, too
        if not wrong.any():
            return Correct.YES, ""
        row, column = (int(index[0]) for index in np.nonzero(wrong))
        return Correct.NO, (
            f"{int(wrong.sum())} of {wrong.size} results are wrong, first C[{row}, {column}] = "
            f"{result[row, column]:.6g} where {case.exact[row, column]:.6g} is right"
        )

    def _case(self, variant: Variant) -> _Case:
        problem = small_problem(variant)
        if problem not in self._cases:
            self._cases[problem] = _make_case(problem, self.seed)
        return self._cases[problem]


def small_problem(variant: Variant) -> Problem:
    """Return the problem that a variant is checked on."""
    stripes = variant.buffers + _MORE_STRIPES
    return Problem(variant.dtype, _BLOCKS * variant.blk_m, _BLOCKS * variant.blk_n, stripes * variant.blk_k)


def _make_case(problem: Problem, seed: int) -> _Case:
    inputs = operand_matrices(problem, seed)
    kind = _KINDS[problem.dtype]
    a, b = (data.view(kind).astype(np.float64) for data in inputs)
    a, b = a.reshape(problem.m, problem.k), b.reshape(problem.k, problem.n)
    # |fl(AB) - AB| <= k u |A| |B|, u half an epsilon (Higham, Accuracy and Stability, Eq. 3.13).
    epsilon = 2.0**-52 if problem.dtype is DType.F64 else 2.0**-23
    return _Case(problem, inputs, a @ b, _ROUNDINGS * problem.k * epsilon * (np.abs(a) @ np.abs(b)))

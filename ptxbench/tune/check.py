"""Is a kernel's product right? Compared with numpy on a small problem, before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.devices.base import Bytes, Gpu
from ptxbench.tune.arrays import Right, fault
from ptxbench.tune.kernel import KINDS, RESULTS, Kernel, operand_matrices
from ptxbench.tune.variant import PLAIN, Form, Op, Problem, Variant

# A product of k terms may be off by k roundings; a tensor core truncates, which counts twice.
_ROUNDINGS = 2.0
# Blocks each way, so that a block's place in the grid counts, and stripes beyond those that fill the buffers.
_BLOCKS = 2
_MORE_STRIPES = 3

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.complex128]


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
        inputs: A, B and, for an update, C.
        right: What is right, shape (m, n).
    """

    problem: Problem
    inputs: tuple[Bytes, ...]
    right: Right


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
        case = self._case(small_problem(kernel.variant, kernel.form))
        output = gpu.compute(kernel.launch(case.problem, case.inputs))
        if output is None:
            return Correct.UNCHECKED, ""
        result = output.view(RESULTS[case.problem.dtype]).reshape(case.right.exact.shape)
        why = fault("C", result, case.right)
        return (Correct.NO, why) if why else (Correct.YES, "")

    def _case(self, problem: Problem) -> _Case:
        if problem not in self._cases:
            self._cases[problem] = _make_case(problem, self.seed)
        return self._cases[problem]


def small_problem(variant: Variant, form: Form = PLAIN) -> Problem:
    """Return the problem that a variant is checked on: where the form has edges, the last tiles lack some."""
    v = variant
    sizes = (
        (_BLOCKS * v.blk_m, v.blk_m, form.edge_m),
        (_BLOCKS * v.blk_n, v.blk_n, form.edge_n),
        ((v.buffers + _MORE_STRIPES) * v.blk_k, v.blk_k, form.edge_k),
    )
    m, n, k = (size - _lacking(tile, v.vector) if edge else size for size, tile, edge in sizes)
    return Problem(v.dtype, m, n, k, form.op_a, form.op_b, form.beta)


def _lacking(tile: int, vector: int) -> int:
    """Return about a third of a tile, in whole reads."""
    return max(1, tile // vector // 3) * vector


def product_of(problem: Problem, inputs: tuple[Bytes, ...], rows: Sequence[int] | None = None) -> Numbers:
    """Return op(A) op(B) + beta C in float64 or complex128, shape (m, n), or some of its rows."""
    some = slice(None) if rows is None else list(rows)
    a, b = _matrices(problem, inputs)
    exact = a[some] @ b
    if problem.beta:
        exact = exact + problem.beta * _source(problem, inputs)[some]
    return exact  # type: ignore[no-any-return]


def _matrices(problem: Problem, inputs: tuple[Bytes, ...]) -> list[Any]:
    """Return op(A) and op(B) in float64 or complex128."""
    kind = np.complex128 if problem.dtype.complex else np.float64
    found = []
    for data, shape, op in zip(inputs, problem.shapes, (problem.op_a, problem.op_b), strict=False):
        matrix = data.view(KINDS[problem.dtype]).astype(kind).reshape(shape)
        matrix = matrix if op is Op.N else matrix.T
        found.append(matrix.conj() if op is Op.C else matrix)
    return found


def _source(problem: Problem, inputs: tuple[Bytes, ...]) -> Any:
    kind = np.complex128 if problem.dtype.complex else np.float64
    return inputs[2].view(RESULTS[problem.dtype]).astype(kind).reshape(problem.m, problem.n)


def _make_case(problem: Problem, seed: int) -> _Case:
    inputs = operand_matrices(problem, seed)
    a, b = _matrices(problem, inputs)
    # |fl(AB) - AB| <= k u |A| |B|, u half an epsilon (Higham, Accuracy and Stability, Eq. 3.13); a complex
    # product has two terms, and the update is one more.
    epsilon = 2.0**-52 if problem.dtype.result == "f64" else 2.0**-23
    size = np.abs(a) @ np.abs(b)
    if problem.beta:
        size = size + abs(problem.beta) * np.abs(_source(problem, inputs))
    terms = problem.k * problem.dtype.parts
    right = Right(product_of(problem, inputs), _ROUNDINGS * terms * epsilon * size)
    return _Case(problem, inputs, right)

"""What the GEMM templates compute, on small tiles, without a GPU."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from tune.lockstep import Block

from ptxbench.tune.check import product_of
from ptxbench.tune.filters import shape_faults
from ptxbench.tune.kernel import RESULTS, operand_matrices, render_variant
from ptxbench.tune.variant import DType, Op, Problem, Variant

F32, F64, F16, C64, C128 = DType.F32, DType.F64, DType.F16, DType.C64, DType.C128

SMALL = [
    Variant(F32, 8, 8, 32, 32, 8, 2, 8, 4, 2, 4, 1),
    Variant(F32, 8, 8, 32, 32, 8, 4, 16, 2, 2, 4, 2),
    Variant(F32, 8, 8, 32, 32, 16, 8, 32, 1, 1, 0, 1),
    Variant(F32, 16, 8, 64, 32, 8, 2, 16, 2, 1, 4, 1),
    Variant(F64, 8, 8, 32, 32, 8, 4, 16, 2, 2, 2, 1),
    Variant(F64, 8, 16, 32, 64, 4, 4, 32, 1, 2, 0, 1),
    Variant(F64, 8, 8, 32, 64, 8, 4, 8, 2, 1, 2, 1),
    Variant(F16, 16, 8, 64, 64, 32, 4, 8, 8, 3, 8, 1),
    Variant(F16, 8, 8, 64, 64, 16, 2, 8, 8, 2, 8, 1),
    Variant(F16, 16, 4, 64, 32, 16, 2, 4, 8, 4, 0, 1),
    Variant(C64, 8, 8, 32, 32, 8, 4, 8, 2, 2, 2, 1),
    Variant(C128, 8, 8, 16, 16, 4, 4, 16, 1, 1, 1, 1, read_a=0, interleaved=1),
    Variant(F64, 16, 8, 64, 32, 16, 8, 16, 2, 3, 4, 1, mma_k=16, core="mma"),
    Variant(F64, 8, 8, 32, 32, 8, 4, 16, 2, 2, 4, 1, mma_k=4, core="mma"),
    Variant(F64, 8, 4, 32, 32, 8, 2, 4, 2, 2, 4, 1, mma_k=8, core="mma"),
    Variant(F16, 32, 4, 64, 64, 64, 8, 8, 8, 3, 0, 1, core="wgmma"),
    Variant(F16, 64, 4, 128, 128, 64, 8, 8, 8, 4, 0, 1, core="wgmma"),
]
# What needs other code: each operand stored either way, an update of C, tiles that do not divide.
PLAIN_F32, ONE_BUFFER, TENSOR, COMPLEX, DOUBLE = SMALL[0], SMALL[2], SMALL[7], SMALL[10], SMALL[12]
FORMS = [
    *((v, op_a, op_b, 0.0, 0) for v in (PLAIN_F32, TENSOR, DOUBLE) for op_a, op_b in ("nt", "tn", "tt")),
    *((COMPLEX, op_a, op_b, 0.0, 0) for op_a, op_b in ("nc", "cn", "cc", "ct")),
    *((v, op_a, op_b, -0.5, 8) for v in (PLAIN_F32, COMPLEX, TENSOR, DOUBLE) for op_a, op_b in ("nn", "tt")),
    (SMALL[15], "n", "n", 0.5, 24),
    (ONE_BUFFER, "n", "n", 1.5, 5),
    (SMALL[11], "n", "n", 2.0, 3),
]


def fitting(variant: Variant, op_a: str, op_b: str) -> Variant:
    """The variant with threads that divide its stripes as they are stored."""
    lanes = itertools.product((1, 2, 4, 8, 16, 32), repeat=2)
    tried = (replace(variant, a_k=a_k, b_n=b_n) for a_k, b_n in lanes)
    return next(v for v in tried if not list(shape_faults(v, Op(op_a), Op(op_b))))


def problem_of(
    variant: Variant, op_a: str = "n", op_b: str = "n", beta: float = 0, cut: int = 0, trips: int = 5
) -> Problem:
    """2 x 2 blocks, of which the last lack `cut` rows, columns and k."""
    sizes = 2 * variant.blk_m - cut, 2 * variant.blk_n - cut, trips * variant.blk_k - cut
    return Problem(variant.dtype, *sizes, Op(op_a), Op(op_b), beta)


def product(
    variant: Variant, ptx: str | None = None, problem: Problem | None = None, target: str = "sm_90a"
) -> tuple[np.ndarray, np.ndarray]:
    """C as the kernel's block at (1, 1) of 2 x 2 leaves it, and as numpy has it."""
    problem = problem or problem_of(variant)
    operands = operand_matrices(problem, seed=3)
    c = np.full(problem.m * problem.n * problem.dtype.result_bytes, 0xFF, np.uint8)
    form = variant.form(problem)
    text = ptx or render_variant(variant, target, form)
    block = Block(text, variant.threads, variant.shared_bytes(form), (1, 1))
    memory = dict(zip(("p_a", "p_b", "p_source"), operands, strict=False)) | {"p_c": c}
    block.run(memory, {"p_m": problem.m, "p_n": problem.n, "p_k": problem.k})
    return c.view(RESULTS[variant.dtype]).reshape(problem.m, problem.n), product_of(problem, operands)


@pytest.mark.parametrize("variant", SMALL, ids=lambda v: v.name)
def test_the_variants_of_these_tests_are_kernels(variant: Variant) -> None:
    assert list(shape_faults(variant)) == []


def require_right(variant: Variant, result: np.ndarray, exact: np.ndarray) -> None:
    rows, columns = variant.blk_m, variant.blk_n
    tolerance = 1e-13 if exact.dtype.itemsize == result.dtype.itemsize else 1e-5
    np.testing.assert_allclose(result[rows:, columns:], exact[rows:, columns:], atol=20 * tolerance)
    assert np.isnan(result[:rows]).all()
    assert np.isnan(result[:, :columns]).all()


@pytest.mark.parametrize("variant", SMALL, ids=lambda v: v.name)
def test_a_block_computes_its_tile_and_nothing_else(variant: Variant) -> None:
    require_right(variant, *product(variant))


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f[0].dtype}-{''.join(f[1:3])}-{f[3]:g}-{f[4]}")
def test_every_form_of_the_product(form: tuple) -> None:
    variant, *rest = form
    variant = fitting(variant, *rest[:2])
    require_right(variant, *product(variant, problem=problem_of(variant, *rest)))


def test_an_edge_of_k_alone_and_of_one_side_alone() -> None:
    v = PLAIN_F32
    for m, n, k in ((2, 2, 4.5), (1.25, 2, 4), (2, 1.25, 4)):
        problem = Problem(F32, int(m * v.blk_m), int(n * v.blk_n), int(k * v.blk_k))
        require_right(v, *product(v, problem=problem))


def test_doubles_on_the_tensor_cores_of_an_older_gpu() -> None:
    v = SMALL[13]
    assert "m8n8k4" in render_variant(v, "sm_80")
    require_right(v, *product(v, target="sm_80"))


@pytest.mark.parametrize("variant", [SMALL[0], SMALL[2], SMALL[7]], ids=lambda v: v.name)
def test_every_barrier_is_needed(variant: Variant) -> None:
    text = render_variant(variant, "sm_90a")
    barriers = list(re.finditer(r"\n +bar\.sync .*", text))
    assert barriers
    for barrier in barriers:
        without = text[: barrier.start()] + text[barrier.end() :]
        with pytest.raises(AssertionError, match=r"barrier|before it was written"):
            product(variant, without)


def test_copies_are_waited_for_before_the_barrier() -> None:
    text = render_variant(SMALL[7], "sm_90a")
    wait, barrier = (
        next(line for line in text.splitlines() if what in line) for what in ("wait_group", "bar.sync")
    )
    swapped = text.replace(wait, "WAIT").replace(barrier, wait).replace("WAIT", barrier)
    with pytest.raises(AssertionError, match=r"what another wrote since the last barrier"):
        product(SMALL[7], swapped)


def test_copies_must_be_waited_for() -> None:
    text = render_variant(SMALL[7], "sm_90a")
    assert "cp.async.wait_group 1;" in text
    with pytest.raises(AssertionError, match="before it was written"):
        product(SMALL[7], text.replace("cp.async.wait_group 1;", "cp.async.wait_group 2;"))

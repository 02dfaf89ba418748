"""What the GEMM templates compute, on small tiles, without a GPU."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tune.lockstep import Block

from ptxbench.tune.filters import shape_faults
from ptxbench.tune.kernel import operand_matrices, render_variant
from ptxbench.tune.variant import DType, Problem, Variant

F32, F64, F16 = DType.F32, DType.F64, DType.F16
KINDS = {F32: np.float32, F64: np.float64, F16: np.float16}

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
]


def product(variant: Variant, ptx: str | None = None, trips: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """C as the kernel's block at (1, 1) of 2 x 2 leaves it, and as numpy has it."""
    problem = Problem(variant.dtype, 2 * variant.blk_m, 2 * variant.blk_n, trips * variant.blk_k)
    a, b = operand_matrices(problem, seed=3)
    c = np.full(problem.m * problem.n * problem.dtype.result_bytes, 0xFF, np.uint8)
    text = ptx or render_variant(variant, "sm_90a")
    block = Block(text, variant.threads, variant.shared_bytes, (1, 1))
    block.run({"p_a": a, "p_b": b, "p_c": c}, {"p_m": problem.m, "p_n": problem.n, "p_k": problem.k})
    kind = KINDS[variant.dtype]
    exact = a.view(kind).reshape(problem.m, -1).astype(float) @ b.view(kind).reshape(problem.k, -1).astype(
        float
    )
    result = c.view(np.float64 if variant.dtype is F64 else np.float32).reshape(problem.m, problem.n)
    return result, exact


@pytest.mark.parametrize("variant", SMALL, ids=lambda v: v.name)
def test_the_variants_of_these_tests_are_kernels(variant: Variant) -> None:
    assert list(shape_faults(variant)) == []


@pytest.mark.parametrize("variant", SMALL, ids=lambda v: v.name)
def test_a_block_computes_its_tile_and_nothing_else(variant: Variant) -> None:
    result, exact = product(variant)
    rows, columns = variant.blk_m, variant.blk_n
    tolerance = 1e-13 if variant.dtype is F64 else 1e-5
    np.testing.assert_allclose(result[rows:, columns:], exact[rows:, columns:], atol=20 * tolerance)
    assert np.isnan(result[:rows]).all()
    assert np.isnan(result[:, :columns]).all()


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

"""The search space, its filters, and how many blocks an SM holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.core.errors import InputError
from ptxbench.tune.filters import least_registers, rejection
from ptxbench.tune.occupancy import (
    BlockNeeds,
    blocks_per_sm,
    limit_by_device,
    limit_by_registers,
    limit_by_shared,
    limits_of,
    occupancy,
)
from ptxbench.tune.space import load_axes, search_space
from ptxbench.tune.variant import Core, DType, Problem, Variant

H200 = limits_of("sm_90a")
SQUARE = {dtype: Problem(dtype, 4096, 4096, 4096) for dtype in DType}


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_space_is_large_and_every_variant_fits(dtype: DType, target: str) -> None:
    space = search_space(SQUARE[dtype], target)
    assert len(space.variants) >= 200
    assert len({v.name for v in space.variants}) == len(space.variants)
    limits = limits_of(target)
    for v in space.variants[:: max(1, len(space.variants) // 500)]:
        needs = BlockNeeds(v.threads, least_registers(v), v.shared_bytes())
        assert v.threads % 32 == 0
        assert blocks_per_sm(needs, limits) >= v.min_blocks
        assert 4096 % v.blk_m == 4096 % v.blk_n == 4096 % v.blk_k == 0
        assert v.tile_m * v.dim_m == v.blk_m
        assert v.tile_n * v.dim_n == v.blk_n
        assert v.a_m * v.a_k == v.b_k * v.b_n == v.threads


def test_tensor_kernels_are_not_for_turing() -> None:
    with pytest.raises(InputError, match=r"neither mma.m16n8k16 nor cp.async"):
        search_space(SQUARE[DType.F16], "sm_75")


def test_sizes_that_no_tile_divides_have_guarded_variants() -> None:
    odd = Problem(DType.F32, 1000, 1003, 1001)
    variants = search_space(odd, "sm_90a").variants
    assert len(variants) >= 200
    # Rows of an odd length are read one by one.
    assert {v.vector for v in variants} == {1}
    assert all(v.form(odd).edges for v in variants)


def test_rows_that_no_copy_divides_are_refused_with_the_cure() -> None:
    with pytest.raises(InputError, match=r"no whole reads of 8.*multiples of 8"):
        search_space(Problem(DType.F16, 1000, 1000, 1001), "sm_90a")


def test_the_space_of_beast_has_the_best_kernel_of_the_paper() -> None:
    # Table II: 16 x 16 threads, 64 x 96 x 16, reads of 64 x 4 and 16 x 16; m and n change places.
    beast = load_axes(DType.F64, "beast")
    space = search_space(SQUARE[DType.F64], "sm_90a", beast)
    best = space.find("f64-16x16-96x64x16-a16-b64-v1-s1-p0-r1-i1")
    assert isinstance(best, Variant)
    assert best.form(SQUARE[DType.F64]).edge_m
    for v in space.variants[::997]:
        assert isinstance(v, Variant)
        assert v.blk_m * v.blk_n >= 4 * 8 * (v.blk_m + v.blk_n)
        assert 65536 // (2 * v.blk_m * v.blk_n) * v.threads >= 512
        assert min(228 * 1024 // (v.shared_bytes() + 1024), 32) * v.threads >= 512


def test_doubles_on_the_tensor_cores_need_what_the_target_has() -> None:
    axes = load_axes(DType.F64, core=Core.MMA)
    small = Problem(DType.F64, 1024, 1024, 1024)
    assert {v.mma_k for v in search_space(small, "sm_80", axes).variants} == {4}
    assert {v.mma_k for v in search_space(small, "sm_90a", axes).variants} == {4, 16}
    with pytest.raises(InputError, match=r"no table \[f32-mma\]"):
        load_axes(DType.F32, core=Core.MMA)


GOOD = Variant(DType.F32, 16, 16, 128, 128, 8, 2, 32, 4, 2, 4, 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dim_m": 64, "dim_n": 32, "blk_m": 256}, "2048 threads"),
        ({"a_k": 4}, "stripe of A"),
        ({"b_n": 64}, "stripe of B"),
        ({"pad": 2}, "padding of 2"),
        ({"blk_m": 256, "blk_n": 256}, "results a thread"),
        ({"min_blocks": 8}, "registers where"),
        ({"blk_k": 12}, "stripe of"),
    ],
)
def test_a_rejected_variant_says_why(change: dict[str, int], why: str) -> None:
    bounds = load_axes(DType.F32).bounds
    assert rejection(GOOD, SQUARE[DType.F32], "sm_90a", bounds) == ""
    values = {name: getattr(GOOD, name) for name in GOOD.__dataclass_fields__}
    assert why in rejection(Variant(**(values | change)), SQUARE[DType.F32], "sm_90a", bounds)


def test_too_few_stripes_for_the_buffers() -> None:
    bounds = load_axes(DType.F32).bounds
    assert "do not fill 2 buffers" in rejection(GOOD, Problem(DType.F32, 128, 128, 8), "sm_90a", bounds)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[f32]\ndim_m = 8", "dim_m must be a list"),
        ("[f32]\nblocks = [1]", "unknown parameter blocks"),
        ("[f64]", "no table"),
        ("[f32", "cannot be read"),
        ("[f32]\ndim_m = [true]", "True is no whole number"),
    ],
)
def test_a_space_that_does_not_fit_is_named(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=rf"mine\.toml.*{what}"):
        load_axes(DType.F32, file)


def test_occupancy_of_a_textbook_block() -> None:
    # 256 threads of 128 registers: 65536 / (128 x 256) = 2 blocks of 8 warps, of 64.
    needs = BlockNeeds(threads=256, registers=128, shared_bytes=16640)
    assert limit_by_device(needs, H200) == 8
    assert limit_by_shared(needs, H200) == 13
    assert limit_by_registers(needs) == 2
    assert occupancy(needs, H200) == 0.25


def test_registers_are_given_by_the_unit() -> None:
    # 33 registers a thread cost a warp 1280, not 1056: 51 warps, 6 blocks of 8.
    assert limit_by_registers(BlockNeeds(256, 33, 0)) == 6


def test_a_block_with_more_than_its_share_of_shared_memory_does_not_fit() -> None:
    assert limit_by_shared(BlockNeeds(128, 32, 227 * 1024), H200) == 1
    assert limit_by_shared(BlockNeeds(128, 32, 227 * 1024 + 1), H200) == 0


@given(
    warps=st.integers(1, 32),
    registers=st.integers(1, 255),
    shared=st.integers(0, 300_000),
    more=st.integers(0, 64),
)
def test_who_takes_more_never_fits_more_often(warps: int, registers: int, shared: int, more: int) -> None:
    some = blocks_per_sm(BlockNeeds(32 * warps, registers, shared), H200)
    assert 0 <= some <= H200.max_blocks
    assert some * warps <= H200.max_warps
    assert blocks_per_sm(BlockNeeds(32 * warps, registers + more, shared + 1024 * more), H200) <= some

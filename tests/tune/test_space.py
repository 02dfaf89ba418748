"""The search space, its filters, and how many blocks an SM holds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import (
    BlockNeeds,
    blocks_per_sm,
    limit_by_device,
    limit_by_registers,
    limit_by_shared,
    occupancy,
)
from ptxbench.core.errors import InputError
from ptxbench.tune.expression import Value
from ptxbench.tune.filters import least_registers, rejection
from ptxbench.tune.space import Space, load_axes, search_space
from ptxbench.tune.spec import Combinations
from ptxbench.tune.variant import Core, DType, Op, Problem, Variant

H200 = sm_facts("sm_90a")
SQUARE = {dtype: Problem(dtype, 4096, 4096, 4096) for dtype in DType}


@cache
def square_space(dtype: DType, target: str) -> Space:
    return search_space(SQUARE[dtype], target)


def test_the_page_has_the_sizes_of_the_spaces() -> None:
    text = " ".join((Path(__file__).parents[2] / "docs" / "tuning.md").read_text().split())
    sizes = [len(square_space(dtype, "sm_90a").variants) for dtype in DType]
    f32, f64, f16, c64, c128 = (f"{size:,}" for size in sizes)
    assert f"{f32} variants of f32, {f64} of f64, {f16} of f16, {c64} of c64 and {c128} of c128" in text
    doubles = load_axes(DType.F64, core=Core.MMA)
    tensor = len(search_space(SQUARE[DType.F64], "sm_90a", doubles).variants)
    assert f"Of f64 on the tensor cores there are {tensor:,}." in text


@pytest.mark.parametrize(
    ("dtype", "target"),
    [*((dtype, "sm_90a") for dtype in DType), (DType.F32, "sm_80"), (DType.F16, "sm_80")],
)
def test_the_space_is_large_and_every_variant_fits(dtype: DType, target: str) -> None:
    space = square_space(dtype, target)
    assert len(space.variants) >= 200
    assert len({v.name for v in space.variants}) == len(space.variants)
    limits = sm_facts(target)
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
    odd, bounds = Problem(DType.F16, 1000, 1000, 1001), load_axes(DType.F16).bounds
    tensor = Variant(DType.F16, 16, 16, 128, 128, 32, 4, 16, 8, 4, 8, 1)
    assert "no whole reads of 8" in rejection(tensor, odd, "sm_90a", bounds)


def test_the_space_of_beast_has_the_best_kernel_of_the_paper() -> None:
    # Table II: 16 x 16 threads, 64 x 96 x 16, reads of 64 x 4 and 16 x 16; m and n change places.
    best = Variant(DType.F64, 16, 16, 96, 64, 16, 16, 64, 1, 1, 0, 1, interleaved=1)
    axes = load_axes(DType.F64, "beast")
    assert isinstance(axes.values, Combinations)
    values: dict[str, Value] = {**axes.values.sizes}
    for axis in axes.values.axes:
        value = getattr(best, axis.name)
        assert value in axis.of(values)
        values[axis.name] = value
    for name, derived in axes.values.derived:
        values[name] = derived.value(values)
    assert all(one.value(values) for one in axes.values.filters)
    assert rejection(best, SQUARE[DType.F64], "sm_90a", axes.bounds) == ""
    assert best.form(SQUARE[DType.F64]).edge_m
    # Less than four multiply-adds a byte, and under 512 threads by registers or by shared memory.
    for change, few in (({"blk_m": 32}, "multiply-adds"), ({"blk_k": 96}, "256 threads on an SM")):
        assert few in rejection(replace(best, **change), SQUARE[DType.F64], "sm_90a", axes.bounds)


def test_doubles_on_the_tensor_cores_need_what_the_target_has() -> None:
    axes = load_axes(DType.F64, core=Core.MMA)
    small = Problem(DType.F64, 1024, 1024, 1024)
    assert {v.mma_k for v in search_space(small, "sm_80", axes).variants} == {4}
    assert {v.mma_k for v in search_space(small, "sm_90a", axes).variants} == {4, 16}
    with pytest.raises(InputError, match=r"no table \[f32-mma\]"):
        load_axes(DType.F32, core=Core.MMA)


@pytest.mark.parametrize(
    ("dtype", "core", "ops"),
    [(DType.F32, Core.SIMT, "nn"), (DType.F64, Core.MMA, "tn"), (DType.F16, Core.WGMMA, "nn")],
)
def test_numpy_leaves_out_no_variant_that_the_filters_keep(dtype: DType, core: Core, ops: str) -> None:
    axes, (op_a, op_b) = load_axes(dtype, core=core), map(Op, ops)
    problem = replace(SQUARE[dtype], op_a=op_a, op_b=op_b)
    values = [one[:: max(1, len(one) - 2)] for one in axes.values]  # type: ignore[union-attr]
    named = "" if core is Core.usual(dtype) else str(core)
    every = [Variant(dtype, *one, named) for one in product(*values)]  # type: ignore[call-arg]
    kept = [v for v in every if not rejection(v, problem, "sm_90a", axes.bounds)]
    assert 0 < len(kept) < len(every)
    thinned = replace(axes, values=tuple(values))
    assert list(search_space(problem, "sm_90a", thinned).variants) == kept


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


RANGES = """
[f32]
filters = ["dim_m * dim_n <= 256"]
[f32.axes]
dim_m = { from = 8, to = 16, factor = 2 }
dim_n = [8]
blk_m = { from = "4 * dim_m", to = 64, step = "4 * dim_m" }
blk_n = [32]
blk_k = [8]
a_k = [2]
b_n = [8]
vector = [4]
buffers = [1]
pad = [4]
min_blocks = [1]
[f32.bounds]
min_occupancy = 0
min_fma_per_byte = 0
min_tile = 1
max_tile = 255
max_aspect = 64
max_unrolled = 4096
"""


def space_of(tmp_path: Path, text: str) -> Space:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return search_space(SQUARE[DType.F32], "sm_90a", load_axes(DType.F32, file))


def test_axes_may_be_ranges_that_hang_together(tmp_path: Path) -> None:
    found = {(v.dim_m, v.blk_m) for v in space_of(tmp_path, RANGES).variants}
    assert found == {(8, 32), (8, 64)}


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("vector = [4]", "vector = []", "axis vector: is empty"),
        ("vector = [4]", "", "has no axis vector"),
        ("vector = [4]", "vectors = [4]", "unknown parameter vectors"),
        ("vector = [4]", "vector = [0]", "vector: 0 is no whole number from 1"),
        ("vector = [4]", "vector = [1.5]", "vector: 1.5 is no whole number"),
        ("vector = [4]", "vector = ['four']", "vector: 'four' is no whole number"),
        ("<= 256", "<= width", "unknown name width"),
        ("dim_m * dim_n <= 256", "__import__('os')", "may call only"),
        ("dim_m * dim_n <= 256", "dim_m < 0", "no variant computes"),
        ('from = "4 * dim_m"', 'from = "().__class__"', "only arithmetic"),
        ("to = 64", "to = 99999999", "over"),
        ("min_tile = 1", "min_tile = -1", "not negative"),
        ("min_tile = 1", "", "must give"),
    ],
)
def test_a_space_of_ranges_that_does_not_fit_is_one_line(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in RANGES
    with pytest.raises(InputError) as refused:
        space_of(tmp_path, RANGES.replace(old, new))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_warpgroups_are_for_hopper_alone() -> None:
    axes = load_axes(DType.F16, core=Core.WGMMA)
    assert len(search_space(SQUARE[DType.F16], "sm_90a", axes).variants) >= 30
    with pytest.raises(InputError, match="sm_90a alone"):
        search_space(SQUARE[DType.F16], "sm_100a", axes)
    with pytest.raises(InputError, match="not transposed"):
        search_space(replace(SQUARE[DType.F16], op_b=Op.T), "sm_90a", axes)


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

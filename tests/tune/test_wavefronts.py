"""Bank conflicts by addresses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptxbench.tune.variant import DType, Variant
from ptxbench.tune.wavefronts import core_wavefronts, line_requests, shared_cycles, wavefronts


@pytest.mark.parametrize(
    ("stride", "size", "expected"),
    [
        (4, 4, 1),  # neighbours
        (0, 4, 1),  # all the same word
        (8, 4, 2),  # every other bank
        (128, 4, 32),  # one bank
        (132, 4, 1),  # one word of padding a row
        (16, 16, 4),  # 512 bytes at 128 a cycle
        (8, 8, 2),
    ],
)
def test_wavefronts_of_a_stride(stride: int, size: int, expected: int) -> None:
    assert wavefronts([stride * lane for lane in range(32)], size) == expected


VARIANTS = pytest.mark.parametrize(
    "variant",
    [
        Variant(DType.F32, 16, 16, 128, 128, 8, 2, 32, 4, 2, 4, 1),
        Variant(DType.F64, 16, 16, 64, 64, 16, 8, 32, 2, 2, 2, 1),
        Variant(DType.F16, 16, 16, 128, 128, 32, 4, 16, 8, 4, 8, 1),
    ],
    ids=lambda v: v.name,
)


@VARIANTS
def test_padding_saves_time(variant: Variant) -> None:
    assert shared_cycles(variant) < shared_cycles(replace(variant, pad=0))


def test_a_warp_of_the_tensor_kernel_reads_without_conflicts() -> None:
    # 8 ldmatrix of A and 4 of B a trip, four wavefronts each, and 4 copies of 512 bytes.
    v = Variant(DType.F16, 16, 16, 128, 128, 32, 4, 16, 8, 4, 8, 1)
    assert shared_cycles(v) == (8 + 4) * 4 + 4 * 4


def test_the_tensor_cores_read_a_once_and_b_for_each_64_rows_of_it() -> None:
    # 128 rows of A, and twice 256 columns of B, of 64 halves each, at 128 bytes a wavefront.
    assert core_wavefronts(Variant(DType.F16, 64, 4, 128, 256, 64, 8, 8, 8, 4, 0, 1, core="wgmma")) == 640
    assert core_wavefronts(Variant(DType.F16, 16, 16, 128, 128, 32, 4, 16, 8, 4, 8, 1)) == 0


@VARIANTS
def test_each_warp_asks_for_the_lines_that_its_lanes_name(variant: Variant) -> None:
    v, threads, pitch = variant, variant.dim_m * variant.dim_n, 1 << 20
    asked = 0
    # Each instruction reads `vector` elements of a row a thread, `across` threads side by side.
    for rows, columns, across in ((v.blk_m, v.blk_k, v.a_k), (v.blk_k, v.blk_n, v.b_n)):
        for row in range(0, rows, threads // across):
            for column in range(0, columns, across * v.vector):
                at = [
                    (row + t // across) * pitch + (column + t % across * v.vector) * v.dtype.bytes
                    for t in range(threads)
                ]
                ends = [n + v.vector * v.dtype.bytes - 1 for n in at]
                asked += sum(
                    len({byte // 128 for byte in (*at[w : w + 32], *ends[w : w + 32])})
                    for w in range(0, threads, 32)
                )
    assert line_requests(v) == asked

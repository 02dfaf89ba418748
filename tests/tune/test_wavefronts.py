"""Bank conflicts by addresses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptxbench.tune.variant import DType, Variant
from ptxbench.tune.wavefronts import shared_cycles, wavefronts


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


@pytest.mark.parametrize(
    "variant",
    [
        Variant(DType.F32, 16, 16, 128, 128, 8, 2, 32, 4, 2, 4, 1),
        Variant(DType.F64, 16, 16, 64, 64, 16, 8, 32, 2, 2, 2, 1),
        Variant(DType.F16, 16, 16, 128, 128, 32, 4, 16, 8, 4, 8, 1),
    ],
    ids=lambda v: v.name,
)
def test_padding_saves_time(variant: Variant) -> None:
    assert shared_cycles(variant) < shared_cycles(replace(variant, pad=0))


def test_a_warp_of_the_tensor_kernel_reads_without_conflicts() -> None:
    # 8 ldmatrix of A and 4 of B a trip, four wavefronts each, and 4 copies of 512 bytes.
    v = Variant(DType.F16, 16, 16, 128, 128, 32, 4, 16, 8, 4, 8, 1)
    assert shared_cycles(v) == (8 + 4) * 4 + 4 * 4

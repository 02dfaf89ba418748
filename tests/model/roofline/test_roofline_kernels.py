"""Flops and bytes of any kernel, and its energy by Eqs. 4 and 10."""

import math

from ptxbench.model.roofline.kernels import roofline_work
from ptxbench.model.work import KernelWork, Level


def test_flops_are_counted_by_kind_and_integers_are_none():
    opcodes = (
        ("FFMA.FTZ", 10.0), ("FADD", 4.0), ("MUFU.RSQ", 1.0), ("IMAD", 99.0), ("DFMA", 3.0), ("HFMA2", 2.0),
        ("HMMA.16816.F32", 32.0), ("HGMMA.64x128x16.F32.BF16", 128.0), ("DMMA.16x8x8", 32.0),
        ("IMMA.16832.S8.S8", 32.0), ("HMMA.1688.F32.TF32", 32.0),
    )  # fmt: skip
    assert roofline_work(KernelWork("k", opcodes)).flops == {
        "f32": 10 * 2 + 4 + 1,
        "f64": 6,
        "f16x2": 8,
        "mma-f16": 2 * 16 * 8 * 16,
        "mma-bf16": 2 * 64 * 128 * 16,
        "mma-f64": 2 * 16 * 8 * 8,
        "mma-tf32": 2 * 16 * 8 * 8,
    }


def test_a_byte_is_counted_at_the_level_that_it_comes_from():
    moved = ((Level.L1, 1000.0), (Level.CROSSBAR, 300.0), (Level.DRAM, 100.0), (Level.SHARED, 50.0))
    work = roofline_work(KernelWork("k", (("FFMA", 100.0),), moved))
    assert work.bytes_moved == {"dram": 100, "l2": 200, "l1": 700, "shared": 50}
    assert work.intensity == 2


def test_without_bytes_the_intensity_has_no_end():
    assert roofline_work(KernelWork("k", (("FFMA", 1.0),))).intensity == math.inf

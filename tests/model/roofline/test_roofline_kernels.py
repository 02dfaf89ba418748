"""Flops and bytes of any kernel, and its energy by Eqs. 4 and 10."""

import math

import pytest

from ptxbench.model.roofline.kernels import RooflineWork, roofline_energy_j, roofline_work
from ptxbench.model.work import KernelWork, Level

ENERGIES = {"f32": 7e-12, "dram": 100e-12, "l2": 30e-12, "shared": 5e-12}


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


def test_energy_by_eq_4_and_with_caches_by_eq_10():
    work = RooflineWork({"f32": 1e12}, {"dram": 1e10, "l2": 1e11, "shared": 1e11})
    assert roofline_energy_j(work, ENERGIES, 100, 0.1) == pytest.approx(7 + 1 + 10)
    with_caches = roofline_energy_j(work, ENERGIES, 100, 0.1, ("dram", "l2", "shared"))
    assert with_caches == pytest.approx(7 + 1 + 3 + 0.5 + 10)


def test_a_kind_without_an_energy_gives_no_number():
    work = RooflineWork({"f32": 1.0, "f64": 1.0}, {})
    assert math.isnan(roofline_energy_j(work, ENERGIES, 100, 1.0))
    few = RooflineWork({"f32": 1e12, "f16x2": 1e9}, {})
    assert roofline_energy_j(few, ENERGIES, 100, 0.1) == pytest.approx(17)
    assert roofline_work(KernelWork("k", (("FFMA", 1.0),))).intensity == math.inf

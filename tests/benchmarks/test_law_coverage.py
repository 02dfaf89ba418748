"""The benchmark of intervals: its GPUs have what they say, and few draws already show what holds."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from ptxbench.model.roofline.third_power import ThirdPower

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("law_coverage")
    sys.modules.pop("law_coverage", None)


def test_a_voltage_has_its_best_clock_at_the_ridge_or_above_and_a_flat_one_none(module):
    cases = {case.name: case for case in module.voltage_cases()}
    assert cases["of the A100"].best_mhz == pytest.approx(1020, abs=10)
    assert cases["quadratic, to 1410 MHz"].best_mhz > 1040
    assert cases["flat"].best_mhz == 1410
    name, ridge, clock, none = module.ridge_row(cases["flat"], 1)
    assert (name, ridge, none) == ("flat", "-", "100.0%")
    assert clock.startswith("100.0%")


def test_eq_4_alone_misses_the_byte_of_a_gpu_whose_dram_draws_power_at_work(module):
    plain, chosen = module.roofline_rows(ThirdPower.AWAKE, 6)
    assert plain[:2] == (ThirdPower.AWAKE, "Eq. 4")
    byte = [float(row[3].rstrip("%")) for row in (plain, chosen)]
    assert byte[0] < 60 < 80 < byte[1]
    assert chosen[-1] == "100.0%"


def test_kernels_of_a_made_up_gpu_cost_what_it_says(module):
    gpu = module.MadeUpGpu(7e-12, 90e-12, 130.0, ThirdPower.AWAKE, 30.0)
    points = list(module.kernels(gpu, np.random.default_rng(0)))
    first = points[0]
    truth_j = first.flops * 7e-12 + 1e12 * 90e-12 + first.time_s * 130
    truth_j += first.time_s * 30 * ThirdPower.AWAKE.share(first.bandwidth_share)
    assert first.energy_j == pytest.approx(truth_j, rel=0.02)
    assert {point.sms_share for point in points} == {1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0}

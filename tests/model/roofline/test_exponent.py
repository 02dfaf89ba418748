"""The exponent of the clock from kernels at the power limit: found, held by its interval, and tested."""

import numpy as np
import pytest
from model.roofline.test_fit import points

from ptxbench.model.roofline.exponent import SlowedKernel, fit_exponent
from ptxbench.model.roofline.fit import fit_roofline

RATIOS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6)


def slowed(energy_of, off=(0.0,) * 8):
    """Kernels of 1e13 flops of f32 beside DRAM and constant power, as test_fit's machine has them."""
    return [
        SlowedKernel(
            ratio,
            (72.0 * energy_of(ratio) + 130e-12 * 1e11 + 131 * 0.2 / ratio) * (1 + one),
            {"f32": 1e13},
            {"dram": 1e11, "constant": 0.2 / ratio},
        )
        for ratio, one in zip(RATIOS, off, strict=True)
    ]


def test_a_power_law_is_found_and_is_no_misfit():
    off = 0.002 * np.random.default_rng(1).normal(size=len(RATIOS))
    found = fit_exponent(fit_roofline(points()), slowed(lambda ratio: ratio**2.3, off))
    assert found.value.value == pytest.approx(2.3, abs=0.05)
    assert (found.kernels, found.lowest_ratio) == (8, pytest.approx(0.6))
    assert found.misfit > 0.01


def test_a_voltage_that_stays_below_a_clock_is_no_power_law():
    off = 0.002 * np.random.default_rng(1).normal(size=len(RATIOS))
    found = fit_exponent(fit_roofline(points()), slowed(lambda ratio: max(ratio, 0.75) ** 2.3, off))
    assert found.misfit < 0.01


def test_its_interval_holds_the_truth_as_often_as_it_says():
    held = []
    for seed in range(100):
        off = 0.01 * np.random.default_rng(1000 + seed).normal(size=len(RATIOS))
        found = fit_exponent(fit_roofline(points(0.01, seed)), slowed(lambda ratio: ratio**2.3, off))
        held.append(abs(found.value.value - 2.3) <= found.value.uncertainty)
    assert 0.92 <= np.mean(held) <= 1


def test_two_kernels_tell_none():
    kernels = slowed(lambda ratio: ratio**2.3)
    assert fit_exponent(fit_roofline(points()), kernels[:2]) is None

"""Eqs. 11 and 12: what is left of a pointer chase's energy, over its bytes."""

import numpy as np
import pytest
from model.roofline.test_fit import points

from ptxbench.core.estimate import Estimate
from ptxbench.model.roofline.chase import Chase, chased_byte
from ptxbench.model.roofline.fit import fit_roofline


def chases(byte_j, l2_byte_j=0.0, l2_bytes=0.0, off=(0.0,) * 5):
    return [
        Chase(1e12, (131 * 0.5 * n + 1e12 * byte_j + l2_bytes * l2_byte_j) * (1 + one), 0.01,
              {"constant": 0.5 * n}, l2_bytes)
        for n, one in enumerate(off, 1)
    ]  # fmt: skip


def test_what_constant_power_and_l2_do_not_take_is_of_the_bytes():
    fit = fit_roofline(points())
    assert chased_byte(fit, chases(30e-12)).value == pytest.approx(30e-12, rel=1e-6)
    own = chases(5e-12, 30e-12, 2e11)
    assert chased_byte(fit, own, Estimate(30e-12, 0.0)).value == pytest.approx(5e-12, rel=1e-6)
    # An L2 that is not known better than this is felt by a fifth of it.
    assert chased_byte(fit, own, Estimate(30e-12, 1e-12)).uncertainty == pytest.approx(0.2e-12, rel=0.3)


def test_its_interval_holds_the_truth_as_often_as_it_says():
    held = []
    for seed in range(100):
        off = 0.004 * np.random.default_rng(10_000 + seed).normal(size=5)
        found = chased_byte(fit_roofline(points(0.01, seed)), chases(30e-12, off=off))
        held.append(abs(found.value - 30e-12) <= found.uncertainty)
    assert 0.93 <= np.mean(held) <= 1

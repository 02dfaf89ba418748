import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ptxbench.measure.statistics import Estimate, estimate


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).filter(lambda v: np.std(v) > 1e-6))
def test_interval_is_students(values):
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    found = estimate(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx((low + high) / 2, rel=1e-6, abs=1e-6)
    assert found.ci95 == pytest.approx((high - low) / 2, rel=1e-6)


@pytest.mark.parametrize("n", [2, 4])
def test_19_of_20_intervals_hold_the_truth(n):
    draws = np.random.default_rng(5).normal(12.4, 0.3, (4000, n))
    found = [estimate(draw) for draw in draws]
    held = np.mean([abs(e.mean - 12.4) <= e.ci95 for e in found])
    assert held == pytest.approx(0.95, abs=0.012)


def test_too_few_values_have_no_interval():
    assert (estimate([]).n, estimate([3.0]).n) == (0, 1)
    assert estimate([3.0]).mean == 3.0
    assert all(math.isnan(x) for x in (estimate([]).mean, estimate([]).ci95, estimate([3.0]).ci95))
    assert not estimate([]).precise(1.0)
    assert not estimate([3.0]).precise(1.0)


def test_precision_is_a_fraction_of_the_size_of_the_mean():
    assert Estimate(-10.0, 0.05, 3).precise(0.005)
    assert not Estimate(-10.0, 0.051, 3).precise(0.005)
    assert not Estimate(0.0, 0.01, 3).precise(0.5)

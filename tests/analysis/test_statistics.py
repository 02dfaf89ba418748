import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ptxbench.analysis.statistics import Uncertainty, combined, error_of_series, estimate


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


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1.0, 0.3), (0.1, 1.0)])
def test_a_difference_of_few_values_each_is_held_19_times_of_20(sizes):
    """Three values of one and five of the other: Welch's interval is known to be a little short of it."""
    rng = np.random.default_rng(11)
    held = []
    for _ in range(4000):
        a, b = (estimate(rng.normal(0, size, n)) for size, n in zip(sizes, (3, 5), strict=True))
        held.append(abs(a.mean - b.mean) <= combined((a.uncertainty, b.uncertainty)).ci95)
    assert 0.925 <= np.mean(held) <= 0.96


part = st.builds(Uncertainty, st.floats(1e-3, 1e3), st.floats(1, 100))


@given(st.lists(part, min_size=1, max_size=4))
def test_together_parts_are_known_no_worse_than_the_least_and_no_better_than_all(parts):
    both = combined(parts)
    assert both.standard_error == pytest.approx(math.hypot(*(p.standard_error for p in parts)))
    assert min(p.degrees for p in parts) <= both.degrees * (1 + 1e-9)
    assert both.degrees <= sum(p.degrees for p in parts) * (1 + 1e-9)


def test_what_is_known_exactly_or_not_at_all():
    exact = combined((Uncertainty(3.0), Uncertainty(4.0), Uncertainty(0.0, 1)))
    assert (exact.standard_error, exact.degrees) == (5.0, math.inf)
    assert exact.ci95 == pytest.approx(1.96 * 5, rel=1e-4)
    assert combined((Uncertainty(0.0, 2), Uncertainty(0.0))).ci95 == 0.0
    assert math.isnan(combined((Uncertainty(1.0, 2), Uncertainty(math.nan))).ci95)


@pytest.mark.parametrize(("stays", "independent"), [(1, 400), (25, 60), (100, 60)])
def test_a_mean_of_values_that_stay_is_known_as_well_as_its_independent_ones_allow(stays, independent):
    random = np.random.default_rng(3)
    runs = [np.repeat(random.normal(size=independent), stays) for _ in range(200)]
    said = np.mean([error_of_series(run) for run in runs])
    assert said == pytest.approx(np.std([run.mean() for run in runs]), rel=0.15)


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=60))
def test_the_error_of_a_series_is_never_under_that_of_independent_values(values):
    series = np.array(values)
    assert error_of_series(series) >= series.std() / math.sqrt(len(series)) - 1e-12

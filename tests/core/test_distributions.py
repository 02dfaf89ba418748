"""Against SciPy, which is only in installations that need more of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from ptxbench.core.distributions import f_tail, polygamma, rank_correlation, student_quantile

FREEDOM = st.floats(0.5, 1e6)


@given(FREEDOM, st.sampled_from([0.6, 0.95, 0.975, 0.995]))
def test_the_quantile_of_t(degrees, probability):
    expected = special.stdtrit(degrees, probability)
    assert student_quantile(degrees, probability) == pytest.approx(expected, rel=1e-9)


def test_the_quantile_of_t_at_its_ends():
    assert student_quantile(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-12)
    assert student_quantile(math.inf) == pytest.approx(1.959963984540054, rel=1e-12)
    assert student_quantile(1e52) == student_quantile(math.inf)
    assert math.isnan(student_quantile(0))
    assert math.isnan(student_quantile(math.nan))


@given(st.integers(1, 200), st.floats(0.5, 1e4), st.floats(0, 1e6))
def test_the_tail_of_f(above, below, ratio):
    expected = special.fdtrc(above, below, ratio)
    assert f_tail(above, below, ratio) == pytest.approx(expected, rel=1e-8, abs=1e-14)


def test_the_tail_of_f_at_its_ends():
    assert f_tail(2, 5, 0) == 1
    assert f_tail(1, 2, 5e-324) == 1
    assert f_tail(2, 5, math.inf) == 0
    assert math.isnan(f_tail(2, 5, math.nan))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_polygamma_functions(order):
    x = np.array([0.01, 0.5, 1, 1.5, 2, 3, 7, 12, 30, 1e3, 1e6])
    np.testing.assert_allclose(polygamma(order, x), special.polygamma(order, x), rtol=1e-12)


def test_equal_values_share_a_rank():
    rng = np.random.default_rng(1)
    left = rng.integers(0, 9, 40)
    right = left + rng.integers(0, 9, 40)
    assert rank_correlation(left, right) == pytest.approx(stats.spearmanr(left, right).statistic, abs=1e-12)

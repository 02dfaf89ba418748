import numpy as np
import pytest

from ptxbench.measure.scatter import NO_PRIOR, fit_prior, moderated
from ptxbench.measure.statistics import estimate

UNITS, ROUNDS, RUNS = 40, 3, 60


def intervals(spread, seed):
    """Error and half-width of every unit's mean, with and without the other units' scatter."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(RUNS):
        sigma = np.exp(rng.normal(0, spread, UNITS))
        values = rng.normal(0, sigma[:, None], (UNITS, ROUNDS))
        prior = fit_prior(values.var(axis=1, ddof=1), [ROUNDS - 1] * UNITS)
        found += [(moderated(v, prior), estimate(v)) for v in values]
    return [np.array([(e.mean, e.ci95) for e in estimates]).T for estimates in zip(*found, strict=True)]


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
def test_intervals_hold_the_truth_as_often_as_they_say_and_are_narrower(spread):
    (mean, ci95), (_, student) = intervals(spread, 1)
    assert 0.93 <= np.mean(abs(mean) <= ci95) <= 0.97
    assert np.median(ci95) < np.median(student)
    if spread == 0.0:
        assert np.median(ci95) < 0.65 * np.median(student)


def test_units_that_scatter_unlike_each_other_lend_each_other_less():
    rng = np.random.default_rng(2)
    like, unlike = (
        fit_prior(
            rng.normal(0, np.exp(rng.normal(0, spread, 500))[:, None], (500, 4)).var(axis=1, ddof=1),
            [3] * 500,
        )
        for spread in (0.1, 1.0)
    )
    assert like.degrees > 10 > unlike.degrees > 0
    assert like.variance == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("variances", [[1.0] * 7, [0.0] * 20, []])
def test_too_few_units_or_none_that_scatter_say_nothing(variances):
    assert fit_prior(variances, [2] * len(variances)) == NO_PRIOR


def test_without_a_prior_it_is_students_interval():
    assert moderated([1.0, 2.0, 4.0], NO_PRIOR).ci95 == pytest.approx(estimate([1.0, 2.0, 4.0]).ci95)

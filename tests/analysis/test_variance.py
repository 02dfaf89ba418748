import numpy as np
import pytest

from ptxbench.analysis.statistics import estimate, weighted
from ptxbench.analysis.variance import NO_PRIOR, Scatter, fit_prior, moderated

UNITS, ROUNDS, RUNS = 40, 3, 60


def scatter_of(values, power_w=None):
    """What rows of values, shape (units, rounds), say of their scatter; fractions are of 1 unless told."""
    units, rounds = values.shape
    power_w = np.ones(units) if power_w is None else power_w
    variances = values.var(axis=1, ddof=1) / power_w**2
    return [Scatter(v, rounds - 1, w) for v, w in zip(variances, power_w, strict=True)]


def intervals(spread, seed):
    """Error and half-width of every unit's mean, with and without the other units' scatter."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(RUNS):
        sigma = np.exp(rng.normal(0, spread, UNITS))
        values = rng.normal(0, sigma[:, None], (UNITS, ROUNDS))
        prior = fit_prior(scatter_of(values))
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
        fit_prior(scatter_of(rng.normal(0, np.exp(rng.normal(0, spread, 500))[:, None], (500, 4))))
        for spread in (0.1, 1.0)
    )
    assert like.degrees > 10 > unlike.degrees > 0
    assert like.variance == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_intervals_hold_the_truth_at_every_power_whether_the_scatter_goes_with_it_or_not(exponent):
    """A sensor's noise is the same at every power; a change of the power itself is in proportion to it."""
    rng = np.random.default_rng(3)
    power_w = np.exp(rng.uniform(np.log(130), np.log(650), UNITS))
    held = []
    for _ in range(4 * RUNS):
        values = rng.normal(0, 0.3 * (power_w[:, None] / 300) ** exponent, (UNITS, ROUNDS))
        prior = fit_prior(scatter_of(values, power_w))
        estimates = [moderated(v, prior, w, w) for v, w in zip(values, power_w, strict=True)]
        held.append([abs(e.mean) <= e.ci95 for e in estimates])
    by_power = np.array(held)[:, np.argsort(power_w)].reshape(4 * RUNS, 4, UNITS // 4).mean(axis=(0, 2))
    assert by_power.min() >= 0.93
    assert by_power.max() <= 0.97


def test_a_trend_that_no_noise_has_is_not_followed():
    """Loops that scatter more the more power they draw, far beyond proportion, tell of those loops only."""
    rng = np.random.default_rng(4)
    power_w = np.linspace(150, 250, UNITS)
    values = rng.normal(0, (power_w[:, None] / 200) ** 5, (UNITS, ROUNDS))
    prior = fit_prior(scatter_of(values, power_w))
    assert prior.at(150.0) == prior.at(250.0) == prior.variance


@pytest.mark.parametrize("variances", [[1.0] * 7, [0.0] * 20, []])
def test_too_few_units_or_none_that_scatter_say_nothing(variances):
    assert fit_prior([Scatter(variance, 2, 100.0) for variance in variances]) == NO_PRIOR


def test_without_a_prior_it_is_students_interval():
    assert moderated([1.0, 2.0, 4.0], NO_PRIOR).ci95 == pytest.approx(estimate([1.0, 2.0, 4.0]).ci95)


def test_values_that_are_known_less_well_count_less_and_intervals_stay_true():
    rng = np.random.default_rng(5)
    held, narrower = [], []
    for _ in range(RUNS):
        sigma = rng.choice([1.0, 1.0, 3.0], (UNITS, ROUNDS))
        values = rng.normal(0, sigma)
        weights = sigma**-2.0
        own = [Scatter(weighted(v, w)[1], ROUNDS - 1, 1.0) for v, w in zip(values, weights, strict=True)]
        prior, alike = fit_prior(own), fit_prior(scatter_of(values))
        estimates = [moderated(v, prior, weights=tuple(w)) for v, w in zip(values, weights, strict=True)]
        held += [abs(e.mean) <= e.ci95 for e in estimates]
        narrower.append(
            np.mean([e.ci95 for e in estimates]) / np.mean([moderated(v, alike).ci95 for v in values])
        )
    assert 0.93 <= np.mean(held) <= 0.97
    assert np.mean(narrower) < 0.8

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.measuring import trial

from ptxbench.measure.static import StaticPower, fit_static
from ptxbench.status import Status
from ptxbench.store.schema import Role


def asleep(temperature_c, power_w, **change):
    return trial(Role.STATIC, temperature_c=temperature_c, steady_power_w=power_w, **change)


def test_a_line_through_sleeping_trials():
    temperature_c = np.linspace(35, 60, 6)
    fit = fit_static([asleep(t, 125.5 + 0.35 * (t - 40)) for t in temperature_c])
    for t in (30.0, 40.0, 65.0):
        assert fit.at(t) == pytest.approx(125.5 + 0.35 * (t - 40))
        assert fit.error_at(t) == pytest.approx(0, abs=1e-6)


def test_its_error_is_that_of_the_noise_and_grows_with_the_distance():
    rng = np.random.default_rng(1)
    temperature_c = np.linspace(35, 60, 12)
    fits = [
        fit_static([asleep(t, 120 + 0.3 * t + rng.normal(0, 1.0)) for t in temperature_c]) for _ in range(300)
    ]
    for t in (47.5, 60.0):
        scatter = np.std([fit.at(t) for fit in fits])
        assert np.mean([fit.error_at(t) for fit in fits]) == pytest.approx(scatter, rel=0.15)
    assert fits[0].error_at(60.0) > 1.3 * fits[0].error_at(47.5)


@pytest.mark.parametrize("temperature_c", [(40.0, 41.0, 40.0), (40.0, 60.0), (math.nan,) * 3])
def test_one_temperature_or_two_trials_or_no_thermometer_give_a_constant(temperature_c):
    fit = fit_static([asleep(t, 120.0 + n) for n, t in enumerate(temperature_c)])
    n = len(temperature_c)
    assert fit.slope_w_per_c == 0
    for t in (20.0, 90.0, math.nan):
        assert fit.at(t) == pytest.approx(120 + (n - 1) / 2)
        assert fit.error_at(t) == pytest.approx(np.std(range(n), ddof=1) / math.sqrt(n))


def test_its_error_is_known_with_the_degrees_of_freedom_that_the_fit_leaves():
    assert fit_static([asleep(t, t) for t in (40.0, 45.0, 50.0, 55.0)]).degrees == 2
    assert fit_static([asleep(40.0, w) for w in (119.0, 120.0, 121.0)]).degrees == 2


@pytest.mark.parametrize("range_c", [0.0, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_whole_degrees_are_in_the_error_whether_the_scatter_shows_them_or_not(range_c, n):
    """Rounds somewhere within `range_c` degrees; static power is taken at what the thermometer reads."""
    line = StaticPower(120.0, 45.0, 0.5, 0.0, 0.0)
    rng = np.random.default_rng(6)
    squares, told = [], []
    for _ in range(3000):
        true_c = rng.uniform(40, 50) + rng.uniform(0, range_c, n)
        read_c = np.round(true_c)
        off_w = line.slope_w_per_c * (true_c - read_c)
        squares.append(off_w.mean() ** 2)
        told.append(off_w.var(ddof=1) / n + line.reading_error(read_c.tolist()).standard_error ** 2)
    # Rounds within a degree that read alike are taken to be off alike: too much, never too little.
    assert np.mean(squares) <= 1.05 * np.mean(told)
    if range_c == 0:
        assert np.mean(squares) == pytest.approx(np.mean(told), rel=0.05)


def test_a_line_without_a_slope_and_a_gpu_without_a_thermometer_have_no_error_of_reading():
    assert StaticPower(120.0, 45.0, 0.0, 0.0, 0.0).reading_error([45.0, 45.0]).ci95 == 0
    assert StaticPower(120.0, math.nan, 0.0, 1.0, 0.0).reading_error([math.nan, math.nan]).ci95 == 0


def test_without_a_sleeping_trial_nothing_is_known():
    others = [
        trial(Role.TARGET),
        asleep(40.0, 999.0, repeat=-1),
        asleep(40.0, 999.0, status=Status.SENSOR_STALE),
    ]
    assert math.isnan(fit_static(others).at(40.0))
    assert math.isnan(fit_static(others).error_at(40.0))
    one = [*others, asleep(40.0, 120.0)]
    assert fit_static(one).at(40.0) == 120.0
    assert math.isnan(fit_static(one).error_at(40.0))
    assert fit_static([replace(others[0], role=Role.STATIC), *one]).at(40.0) == 120.0

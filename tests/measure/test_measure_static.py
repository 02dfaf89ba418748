import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.measuring import trial

from ptxbench.measure.static import fit_static
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

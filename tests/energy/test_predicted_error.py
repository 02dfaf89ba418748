"""What is predicted of a method, against formulas worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor

from ptxbench.energy.predicted_error import LoadShape, methods_for, predict, readings
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import Shape

IDLE_W, LOAD_W = 120.0, 480.0
Q = 1 - IDLE_W / LOAD_W
POLL_S = 0.001


def even(length_s, before_s=1.5, after_s=1.5):
    return LoadShape(np.array([0.0]), np.array([length_s]), np.array([LOAD_W]), IDLE_W, before_s, after_s)


def younger(age_s, what):
    """Share of a running mean's weight that is younger than an age."""
    return np.clip(age_s / what.averaging_s, 0, 1)


SENSORS = [
    sensor(refresh_s=0.1, averaging_s=1.0, lag_s=0.02),
    sensor(refresh_s=0.1, averaging_s=0.025, lag_s=0.004),
    sensor(refresh_s=0.02, averaging_s=0.1),
]


@pytest.mark.parametrize("what", SENSORS, ids=["slow", "part", "fast"])
@pytest.mark.parametrize("length_s", [0.05, 0.4, 3.0])
def test_even_power_follows_the_closed_form(what, length_s):
    found = predict(what, even(length_s), POLL_S)
    age_s = what.refresh_s * (np.arange(1000) + 0.5) / 1000
    papi = -Q * np.mean(1 - younger(length_s - what.lag_s - age_s, what))
    assert found["papi"].bias == pytest.approx(papi, abs=0.02)
    time_s = length_s * (np.arange(500) + 0.5) / 500
    mtsm = -Q * np.mean(1 - younger(time_s[:, None] - what.lag_s - age_s, what))
    assert found["mtsm"].bias == pytest.approx(mtsm, abs=0.015)
    assert found["papi"].answered == 1.0


def test_sma_sees_the_idle_time_around_the_kernel():
    found = predict(SENSORS[1], even(0.5, before_s=1.0, after_s=1.0), POLL_S)
    assert found["sma"].bias == pytest.approx(-Q * (1 - 0.5 / 2.5), abs=0.01)
    # Without any around it, SMA is MTSM at another pace.
    alone = predict(SENSORS[2], even(3.0, before_s=0.0, after_s=0.0), POLL_S)
    assert alone["sma"].bias == pytest.approx(alone["mtsm"].bias, abs=0.01)


@pytest.mark.parametrize("what", SENSORS, ids=["slow", "part", "fast"])
def test_corrected_has_no_bias_and_the_spread_of_what_it_cannot_see(what):
    found = predict(what, even(0.45), POLL_S)["corrected"]
    assert found.bias == pytest.approx(0, abs=0.003)
    # Only the sensor that sees a quarter of the time depends on its phase.
    assert (found.spread > 0.02) == (what is SENSORS[1])


def test_low_pass_reads_less_than_the_running_mean_of_equal_age_late_in_the_kernel():
    mean = sensor(refresh_s=0.02, averaging_s=0.2)
    low_pass = replace(mean, shape=Shape.EXPONENTIAL)
    at_end = predict(low_pass, even(0.3), POLL_S)["papi"].bias
    assert predict(mean, even(0.3), POLL_S)["papi"].bias == pytest.approx(0, abs=0.001)
    assert at_end == pytest.approx(-Q * np.mean(np.exp(-(0.3 - np.linspace(0, 0.02, 50)) / 0.1)), abs=0.003)


def test_stretches_of_unlike_power_add_up():
    load = LoadShape(
        np.array([0.0, 0.2, 0.6]), np.array([0.2, 0.4, 0.8]), np.array([200.0, 400.0, 300.0]), 100.0, 2.0, 2.0
    )
    assert load.energy_j == pytest.approx(0.2 * (200 + 400 + 300) + 0.2 * 100)
    found = predict(sensor(refresh_s=0.02, averaging_s=0.02, source=SourceName.SAMPLES), load, POLL_S)
    assert found["corrected"].bias == pytest.approx(0, abs=0.001)
    assert found["papi"].bias == pytest.approx(300 * 0.8 / load.energy_j - 1, abs=0.001)


def test_counter_is_predicted_too():
    what = sensor(refresh_s=0.1, source=SourceName.COUNTER)
    found = predict(what, even(0.35), POLL_S)
    assert set(found) == {"corrected", "counter", "difference"}
    assert found["counter"].bias == pytest.approx(0, abs=0.001)
    too_short = predict(what, even(0.05), POLL_S)
    assert too_short["counter"].answered == 0
    assert np.isnan(too_short["counter"].bias)
    assert too_short["corrected"].bias == pytest.approx(0, abs=0.02)


def test_readings_of_samples_bring_stamps_and_others_hold_their_value():
    stamped = readings(sensor(refresh_s=0.02, source=SourceName.SAMPLES), even(0.1), POLL_S, 0.5)
    assert np.all(np.diff(stamped.stamp_ns) == 20_000_000)
    held = readings(sensor(refresh_s=0.1), even(0.3), POLL_S, 0.5)
    assert np.all(held.stamp_ns == -1)
    changes = np.flatnonzero(np.diff(held.value)) + 1
    assert np.diff(held.end_ns[changes]) / 1e9 == pytest.approx(0.3, abs=2 * POLL_S)
    own = {"sma", "papi", "mtsm", "capacitance", "corrected"}
    assert set(methods_for(SourceName.USAGE)) == own | {"collector", "median"}

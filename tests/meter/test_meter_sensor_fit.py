from dataclasses import replace

import numpy as np
import pytest
from simulated_session import Hidden, Session

from ptxbench.meter.cross import cross_validate, split_in_halves, view_bound
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.response import Shape, respond
from ptxbench.sensors.characterize.sensor_fit import fit_sensor
from ptxbench.sensors.refresh import hypotheses
from ptxbench.sensors.signal import PowerSignal


def fit(hidden, **session):
    """Fit the sensor of a session whose clocks are one."""
    one = Session(replace(hidden, clock_offset_s=0.0, drift_ppm=0.0), **session)
    capture, series = one.capture(), one.series()
    signal = PowerSignal((capture.time_ns - one.epoch_ns) / 1e9, capture.power_w)
    return fit_sensor(SourceName.USAGE, signal, (series.time_ns - one.epoch_ns) / 1e9, series.value)


@pytest.mark.parametrize(
    ("hidden", "shape", "width_s"),
    [
        (Hidden(), Shape.BOXCAR, None),
        (Hidden(averaging_s=0.1, gain=1.05, offset_w=-21.0), Shape.BOXCAR, 0.1),
        (Hidden(averaging_s=0.1, refresh_s=0.1), Shape.BOXCAR, 0.1),
        (Hidden(averaging_s=1.0, refresh_s=0.1, lag_s=0.05), Shape.BOXCAR, 1.0),
        (Hidden(averaging_s=0.025, refresh_s=0.1, lag_s=0.06), Shape.BOXCAR, 0.025),
        (Hidden(refresh_s=0.02, lag_s=0.04), Shape.BOXCAR, None),
        (Hidden(time_constant_s=0.054, refresh_s=0.015, lag_s=0.03), Shape.EXPONENTIAL, 0.054),
    ],
)
def test_hidden_sensor_is_recovered_within_1_percent(hidden, shape, width_s):
    found = fit(hidden, meter_noise_w=1.0, sensor_noise_w=0.02, call_s=0.0097)
    assert found.shape is shape
    assert found.gain.value == pytest.approx(hidden.gain, rel=0.01)
    assert found.offset_w.value == pytest.approx(hidden.offset_w, rel=0.01)
    assert found.lag_s.value == pytest.approx(hidden.lag_s, rel=0.01)
    if width_s is not None:
        assert found.width_s.value == pytest.approx(width_s, rel=0.03)
    assert found.refresh_s == pytest.approx(hidden.refresh_s, rel=0.001)
    assert found.explained > 0.99


def test_calls_in_step_with_the_refresh_are_dated_by_the_first():
    found = fit(Hidden(averaging_s=0.1, refresh_s=0.1), call_s=0.01, sensor_noise_w=0.0, meter_noise_w=0.0)
    assert found.lag_s.value == pytest.approx(0.080, rel=0.01)


def test_uncertainties_hold_the_truth_nineteen_times_in_twenty():
    inside = 0
    for seed in range(12):
        found = fit(Hidden(averaging_s=0.1), kernels=6, seed=seed, sensor_noise_w=2.0)
        inside += abs(found.gain.value - 0.94) <= found.gain.uncertainty
        inside += abs(found.offset_w.value - 7.5) <= found.offset_w.uncertainty
    assert 19 <= inside <= 24
    assert 0.0005 < found.gain.uncertainty < 0.01


def test_readings_that_never_change_or_are_few_give_no_fit():
    signal = PowerSignal(np.arange(100) / 10, np.linspace(50, 100, 100))
    assert fit_sensor(SourceName.USAGE, signal, np.arange(50) / 10, np.full(50, 80.0)) is None
    assert fit_sensor(SourceName.USAGE, signal, np.arange(5) / 10, np.arange(5.0)) is None


def test_boxcar_and_low_pass_of_a_step():
    time_s = np.arange(0, 2, 1e-3)
    signal = PowerSignal(time_s, np.where(time_s < 1.0, 100.0, 300.0))
    at_s = np.array([0.9, 1.05, 1.1, 1.5])
    assert respond(signal, Shape.BOXCAR, 0.1)(at_s) == pytest.approx([100, 200, 300, 300], abs=2)
    low_pass = 300 - 200 * np.exp(-np.maximum(at_s - 1.0, 0) / 0.1)
    assert respond(signal, Shape.EXPONENTIAL, 0.1)(at_s) == pytest.approx([100, *low_pass[1:]], abs=2)


def test_refresh_grid_is_found_though_calls_are_out_of_step():
    rng = np.random.default_rng(0)
    read_s = np.cumsum(rng.uniform(0.006, 0.009, 2000))
    number = np.floor((read_s - 0.033) / 0.1)
    held = hypotheses(read_s, rng.normal(size=10_000)[number.astype(int)])
    assert held[1].refresh_s == pytest.approx(0.1, rel=1e-4)
    error_s = held[1].made_s - (0.033 + 0.1 * number)
    assert np.median(np.abs(error_s)) < 1e-3
    assert len(held[1].fresh().made_s) == len(np.unique(number))


def test_part_time_view_has_a_bound_and_a_full_view_has_none():
    part = fit(
        Hidden(averaging_s=0.025, refresh_s=0.1), shortest_s=0.05, longest_s=0.055, gap_s=0.05, kernels=60
    )
    assert part.seen_fraction == pytest.approx(0.25, abs=0.02)
    session = Session(shortest_s=0.05, longest_s=0.055, gap_s=0.05, kernels=60)
    capture = session.capture()
    signal = PowerSignal((capture.time_ns - capture.time_ns[0]) / 1e9, capture.power_w)
    spans_s = session.windows_s()
    halves_s = [np.array([[0.0, 4.0]]), np.array([[4.0, 8.0]])]
    bound = view_bound(signal, part, spans_s, halves_s)
    assert bound.window_pct > 30
    assert 0.5 < bound.half_pct < 30
    full = view_bound(
        signal, replace(part, width_s=replace(part.width_s, value=2e-3), refresh_s=2e-3), spans_s, halves_s
    )
    assert full.window_pct < 2
    assert full.half_pct < 0.1


def test_each_half_is_predicted_from_the_other():
    session = Session(Hidden(offset_w=0.0, clock_offset_s=0.0, drift_ppm=0.0), meter_noise_w=0.0)
    capture, series = session.capture(), session.series()
    signal = PowerSignal((capture.time_ns - session.epoch_ns) / 1e9, capture.power_w)
    read_s = (series.time_ns - session.epoch_ns) / 1e9
    whole = fit_sensor(SourceName.USAGE, signal, read_s, series.value)
    windows_s = session.windows_s()
    cut_s = split_in_halves(signal, whole, windows_s, np.array([[0.0, session.end_s()]])).cut_s
    # In the second half the sensor reads a tenth less: each half is wrong about the other by that.
    changed = replace(whole, value_w=np.where(whole.made_s - whole.delay_s < cut_s, 1.0, 0.9) * whole.value_w)
    halves = split_in_halves(signal, changed, windows_s, np.array([[0.0, session.end_s()]]))
    first, second = cross_validate(signal, changed, halves)
    assert (first.fitted_on, first.fit.gain.value) == ("first", pytest.approx(0.94, rel=0.01))
    assert first.energy_pct == pytest.approx(-10, abs=0.3)
    assert (second.fitted_on, second.fit.gain.value) == ("second", pytest.approx(0.846, rel=0.01))
    assert second.energy_pct == pytest.approx(100 / 9, abs=0.3)
    assert (first.windows_pct, second.windows_pct) == (pytest.approx(-10, abs=1), pytest.approx(11.1, abs=1))

"""Figures of a source that a test writes down: its answer to windows of load, read by polling."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor, series, window

from ptxbench.experiment.sensor_study import square_wave
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.load_signal import load_signal
from ptxbench.sensors.characterize.probe import probe, steady_window_s
from ptxbench.sensors.characterize.response import respond
from ptxbench.sensors.description import Shape
from ptxbench.sensors.trace import Trace

IDLE_W, STEP_W = 120.0, 400.0


def recorded_windows():
    at_s, windows = 5.0, []
    for pulse in square_wave():
        windows.append(window(at_s, at_s + pulse.on_s))
        at_s += pulse.on_s + pulse.off_s
    return windows, at_s + 1.5


WINDOWS, END_S = recorded_windows()
EMPTY = Trace(3_500_000_000, round(END_S * 1e9), ())
LOAD = load_signal(WINDOWS, EMPTY)


def trace(*all_series):
    return replace(EMPTY, series=all_series)


def answer(made_s, shape=Shape.BOXCAR, width_s=0.016, lag_s=0.004, noise_w=0.5, quantum=1e-3):
    """What a source that made its values at `made_s` (host time) says."""
    true_w = IDLE_W + STEP_W * respond(LOAD, shape, width_s)(np.asarray(made_s) - 3.5 - lag_s)
    noisy_w = true_w + noise_w * np.random.default_rng(1).standard_normal(len(true_w))
    return np.round(np.round(noisy_w / quantum) * quantum, 3)


def polled(refresh_s=0.1, source=SourceName.INSTANT, call_s=0.0, **model):
    read_s = np.arange(3.5, END_S, 0.0037)
    made_s = np.floor((read_s - 0.0123) / refresh_s) * refresh_s + 0.0123
    tick_s, which = np.unique(made_s, return_inverse=True)
    return series(read_s, answer(tick_s, **model)[which], source, call_s=call_s)


def stamped(period_s=0.02, jitter_s=0.0, **model):
    stamp_s = np.arange(3.51, END_S - 0.1, period_s)
    stamp_s = stamp_s + jitter_s * np.sin(np.arange(len(stamp_s)))
    return series(stamp_s + 0.005, answer(stamp_s, **model), SourceName.SAMPLES, stamp_s)


def only(one_series, **documented):
    known = replace(sensor(source=one_series.source, **documented), origin="documented")
    (found,) = probe(trace(one_series), WINDOWS, [known], waited_s=4.0)
    return found


def test_a_low_pass_is_told_from_a_running_mean():
    found = only(stamped(shape=Shape.EXPONENTIAL, width_s=0.0138, lag_s=0.003))
    assert found.sensor.shape is Shape.EXPONENTIAL
    # A low-pass is given as the running mean of equal mean age.
    assert found.sensor.averaging_s == pytest.approx(2 * 0.0138, rel=0.05)
    assert found.sensor.lag_s == pytest.approx(0.003, abs=5e-4)
    # It is settled to a thousandth after 6.9 time constants.
    assert found.sensor.memory_s == pytest.approx(6.9 * 0.0138, rel=0.06)
    assert only(stamped(width_s=0.0276)).sensor.shape is Shape.BOXCAR


def test_uncertainties_hold_the_truth_and_shrink_with_the_noise():
    quiet, loud = only(stamped(noise_w=0.5)), only(stamped(noise_w=5.0))
    for found in (quiet, loud):
        assert abs(found.averaging_s.value - 0.016) < 1.5 * found.averaging_s.uncertainty + 1e-4
        assert abs(found.step_w.value - STEP_W) < 1.5 * found.step_w.uncertainty
        assert abs(found.idle_w.value - IDLE_W) < 1.5 * found.idle_w.uncertainty
    assert loud.averaging_s.uncertainty > 3 * quiet.averaging_s.uncertainty
    assert quiet.noise_w == pytest.approx(0.5, rel=0.15)
    assert loud.noise_w == pytest.approx(5.0, rel=0.15)


def test_refresh_of_uneven_stamps_is_their_mean():
    found = only(stamped(jitter_s=0.002))
    assert found.sensor.refresh_s == pytest.approx(0.02, rel=0.01)


def test_polling_finds_refresh_and_quantum_and_counts_stale_reads():
    found = only(polled(refresh_s=0.1, width_s=0.025, quantum=0.1))
    assert found.sensor.refresh_s == pytest.approx(0.1, rel=1e-3)
    assert found.refresh_s.uncertainty < 1e-3
    assert found.sensor.averaging_s == pytest.approx(0.025, rel=0.05)
    assert found.sensor.quantum == pytest.approx(0.1, rel=0.01)
    assert found.cost.stale_share == pytest.approx(1 - 0.0037 / 0.1, abs=0.003)
    assert found.sensor.origin == "measured"
    assert "25%" in found.note


def test_cost_of_a_call_and_failed_reads():
    readings = polled(call_s=0.0004)
    begin_ns = readings.begin_ns.copy()
    begin_ns[100] -= 3_000_000
    code = readings.code.copy()
    code[::50] = 999
    value = np.where(code == 0, readings.value, math.nan)
    found = only(replace(readings, begin_ns=begin_ns, code=code, value=value))
    assert found.cost.median_s == pytest.approx(0.0004)
    assert found.cost.worst_s == pytest.approx(0.0034)
    assert found.cost.failed == math.ceil(len(readings) / 50)
    assert found.sensor.refresh_s == pytest.approx(0.1, rel=2e-3)


def test_counter_that_sums_every_watt_and_one_that_sums_samples_of_a_quarter():
    tick_s = np.arange(3.51, END_S, 0.1)
    for width_s, note in ((0.1, ""), (0.025, "only 25% of the time")):
        energy_j = 7000 + np.cumsum(0.1 * answer(tick_s, width_s=width_s, noise_w=0.1))
        read_s = np.arange(3.52, END_S, 0.0037)
        held_j = energy_j[np.searchsorted(tick_s, read_s, side="right") - 1]
        found = only(series(read_s, np.round(held_j, 3), SourceName.COUNTER))
        assert found.averaging_s.value == pytest.approx(width_s, rel=0.05)
        assert found.sensor.averaging_s == 0
        assert found.sensor.lag_s == pytest.approx(0.004, abs=1e-3)
        assert found.note.endswith(note)
        assert bool(found.note) == bool(note)


def test_a_point_sensor_has_no_averaging():
    found = only(polled(width_s=2e-4))
    assert found.sensor.averaging_s == 0
    assert "point" in found.note


def test_a_source_that_does_not_follow_the_load_keeps_what_is_documented():
    noise_w = 100 + np.random.default_rng(2).standard_normal(2000)
    for value in (np.full(2000, 43.0), noise_w):
        readings = series(3.6 + 0.015 * np.arange(2000), value, SourceName.INSTANT)
        found = only(readings, refresh_s=0.1, averaging_s=0.3)
        assert (found.sensor.averaging_s, found.sensor.origin) == (0.3, "documented")
        assert math.isnan(found.needed_s)
        assert found.note.endswith("the documented figures stand")


def test_the_documented_regulation_of_the_gpu_is_kept():
    still = series(3.6 + 0.015 * np.arange(2000), np.full(2000, 43.0), SourceName.INSTANT)
    for readings, origin in ((stamped(), "measured"), (still, "documented")):
        documented = replace(
            sensor(source=readings.source), origin="documented", regulation_s=0.2, excursion=0.01
        )
        (found,) = probe(trace(readings), WINDOWS, [documented], waited_s=4.0)
        kept = found.sensor.regulation_s, found.sensor.excursion
        assert (found.sensor.origin, *kept) == (origin, 0.2, 0.01)


def test_buffer_is_what_the_first_call_gave():
    readings = stamped()
    first = readings.stamp_ns < 5_000_000_000
    begin_ns = np.where(first, 5_000_000_000, readings.begin_ns)
    found = only(replace(readings, begin_ns=begin_ns, end_ns=np.where(first, 5_000_300_000, readings.end_ns)))
    assert found.buffer.readings == first.sum()
    assert found.buffer.span_s == pytest.approx(0.02 * (first.sum() - 1))
    assert found.buffer.waited_s == 4.0
    assert found.cost.calls == len(readings) - first.sum() + 1


def test_best_source_first_and_memory_last():
    sources = (
        replace(polled(width_s=0.01, noise_w=0.1), source=SourceName.MEMORY),
        polled(width_s=1.0, source=SourceName.USAGE),
        stamped(),
        series(np.arange(3.6, 30, 0.01), np.full(2640, 5.0), SourceName.AVERAGE),
    )
    documented = [sensor(source=s.source) for s in sources]
    found = probe(trace(*sources), WINDOWS, documented, waited_s=4.0)
    assert [one.sensor.source for one in found] == ["samples", "usage", "average", "memory"]
    # A source of which nothing is known beforehand is left out.
    assert len(probe(trace(*sources[:3]), WINDOWS, documented[:2], waited_s=4.0)) == 2


def test_needed_window_is_settling_plus_independent_readings():
    mean = sensor(refresh_s=0.1, averaging_s=1.0, lag_s=0.02)
    # 4 W of noise in 200 W: (0.02 / 0.005)^2 = 16 means that do not overlap.
    assert steady_window_s(mean, 4.0, 200.0, 0.002) == pytest.approx(1.12 + 16.0)
    assert steady_window_s(mean, 0.0, 200.0, 0.002) == pytest.approx(1.12 + 0.1)
    counter = sensor(refresh_s=0.1, source=SourceName.COUNTER)
    assert steady_window_s(counter, 0.0, 200.0, 0.006) == pytest.approx(
        0.1 + 0.006 * math.sqrt(2 / 12) / 0.005
    )
    assert steady_window_s(counter, 0.0, 200.0, 1e-4) == pytest.approx(0.2)


def test_load_is_one_in_the_windows_and_idle_before():
    assert LOAD.time_s[0] == pytest.approx(-3.0, abs=1e-3)
    on_s = sum(w.elapsed_s for w in WINDOWS)
    span_s = np.array([[LOAD.time_s[0], LOAD.time_s[-1]]])
    assert LOAD.total_j(span_s) == pytest.approx(on_s, rel=1e-6)
    middle_s = (WINDOWS[3].start_ns + WINDOWS[3].end_ns) / 2e9 - 3.5
    assert np.interp(middle_s, LOAD.time_s, LOAD.power_w) == pytest.approx(1.0)

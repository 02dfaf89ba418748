"""Faults of clocks, loggers and meters that leave a narrow fit: each is refused, or said."""

import re
from dataclasses import replace

import numpy as np
import pytest
from simulated_session import Hidden, Session

from ptxbench.core.errors import InputError
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.host import HostLog
from ptxbench.meter.line import find_clock_step
from ptxbench.meter.plausibility import frozen_share, spike_notes
from ptxbench.meter.validation import validate
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Series

pytestmark = pytest.mark.hostile

SESSION = Session(Hidden(averaging_s=0.1, refresh_s=0.1), kernels=16)
CAPTURE, LOG = SESSION.capture(), SESSION.log()


def moved_windows(shift_s: float) -> HostLog:
    shift_ns = round(1e9 * shift_s)

    def moved(trial):
        window = trial.window
        later = replace(window, start_ns=window.start_ns + shift_ns, end_ns=window.end_ns + shift_ns)
        return replace(trial, window=later)

    return replace(LOG, trials=tuple(map(moved, LOG.trials)))


def stepped(step_s: float, share: float = 0.5) -> MeterCapture:
    """The capture of a clock that steps; rows that would go back in time are lost, as in a file."""
    first = int(share * len(CAPTURE))
    time_ns = CAPTURE.time_ns.copy()
    time_ns[first:] += round(1e9 * step_s)
    keep = np.ones(len(time_ns), dtype=bool)
    keep[first:] = time_ns[first:] > time_ns[first - 1]
    return replace(CAPTURE, time_ns=time_ns[keep], power_w=CAPTURE.power_w[keep])


def with_values(change) -> HostLog:
    def changed(series: Series) -> Series:
        return replace(series, value=change(series.value.copy()))

    series = tuple(map(changed, LOG.series))
    trials = tuple(
        replace(
            trial,
            trace=replace(trial.trace, series=series),
            recording=replace(trial.recording, series=series),
        )
        for trial in LOG.trials
    )
    return replace(LOG, series=series, trials=trials)


def hold(begin: float, end: float):
    def change(value: np.ndarray) -> np.ndarray:
        first, last = int(begin * len(value)), int(end * len(value))
        value[first:last] = value[first]
        return value

    return change


def with_spikes(watts: float, share: float = 0.003) -> MeterCapture:
    power_w = CAPTURE.power_w.copy()
    rows = np.random.default_rng(0).choice(len(power_w), int(share * len(power_w)), replace=False)
    power_w[rows] += watts
    return replace(CAPTURE, power_w=power_w)


@pytest.mark.parametrize("shift_s", [2.0, 0.5, -2.0])
def test_windows_of_another_time_than_the_readings_are_refused(shift_s):
    with pytest.raises(InputError, match=r"no sensor('s lag is| has).*not stamped by one clock"):
        validate(CAPTURE, moved_windows(shift_s))


def test_lag_longer_than_that_of_any_known_sensor_is_said():
    result = validate(CAPTURE, moved_windows(-0.5))
    assert any("a lag of 580 ms is longer than that of any sensor known" in note for note in result.notes)


@pytest.mark.parametrize(("step_s", "share"), [(0.5, 0.25), (0.5, 0.8), (-0.3, 0.75), (0.015, 0.5)])
def test_clock_that_steps_inside_the_capture_is_refused(step_s, share):
    with pytest.raises(
        InputError, match=re.escape(f"of the host steps by {1e3 * step_s:+.0f} ms near window")
    ):
        validate(stepped(step_s, share), LOG)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_small_step_of_a_clock_is_said(share):
    notes = validate(stepped(0.005, share), LOG).notes
    assert any("steps by 5.0" in note or "steps by 4.9" in note for note in notes)
    if share == 0.5:
        assert any("halves of the capture give offsets" in note for note in notes)


def test_edges_without_a_step_show_none_and_one_of_5_ms_is_measured():
    rng = np.random.default_rng(0)
    time_s = np.arange(60.0)
    is_start = np.arange(60) % 2 == 0
    late_s = 0.3 + 40e-6 * time_s + np.where(is_start, 2e-3, 0) + rng.normal(0, 2e-4, 60)
    assert find_clock_step(time_s, late_s, is_start, 2e-4) is None
    found = find_clock_step(time_s, late_s - 5e-3 * (time_s >= 23), is_start, 2e-4)
    assert found is not None
    assert abs(found.size_s.value + 5e-3) < found.size_s.uncertainty < 5e-4
    assert found.after_s == 23


def test_one_wrong_edge_is_no_step_of_the_clock():
    time_s = np.arange(40.0)
    late_s = np.random.default_rng(1).normal(0, 1e-4, 40)
    late_s[11] += 8e-3
    assert find_clock_step(time_s, late_s, time_s % 2 == 0, 2e-4) is None


@pytest.mark.parametrize("watts", [1500.0, 300.0, -200.0])
def test_spikes_of_the_meter_are_counted_and_said(watts):
    (note,) = spike_notes(with_spikes(watts))
    count = int(0.003 * len(CAPTURE))
    assert note.startswith(f"{count} of {len(CAPTURE)} rows") or note.startswith(f"{count + 1} of")
    assert watts != 1500.0 or any("stand alone" in one for one in validate(with_spikes(watts), LOG).notes)


@pytest.mark.parametrize("part", [(0.4, 0.9), (0.0, 0.5)])
def test_log_that_is_frozen_for_half_its_length_is_refused(part):
    with pytest.raises(InputError, match=r"one value for 50% of the log.* the log was frozen"):
        validate(CAPTURE, with_values(hold(*part)))


def test_source_that_is_frozen_is_left_out_where_another_is_not():
    from ptxbench.sensors.base import SourceName

    other = replace(LOG.series[0], source=SourceName.INSTANT)
    frozen = with_values(hold(0.4, 0.9))
    result = validate(CAPTURE, replace(frozen, series=(*frozen.series, other)))
    assert [source.fit.source for source in result.sources] == [SourceName.INSTANT]
    assert any(note.startswith("usage gave one value") and "left out" in note for note in result.notes)


def test_meter_that_is_frozen_is_refused_or_its_windows_left_out():
    def frozen(begin: float, end: float) -> MeterCapture:
        return replace(CAPTURE, power_w=hold(begin, end)(CAPTURE.power_w.copy()))

    with pytest.raises(InputError, match="the meter shows one value through the edges of"):
        validate(frozen(0.4, 0.9), LOG)
    result = validate(frozen(0.5, 0.58), LOG)
    assert len(result.trials) < 16
    assert any("one value through the edges of" in note for note in result.notes)


def test_idle_hours_and_long_kernels_of_a_coarse_sensor_are_not_frozen():
    time_s = np.arange(0.0, 60.0, 1e-2)
    power_w = np.where((time_s > 20) & (time_s < 40), 300.0, 60.0)
    assert frozen_share(PowerSignal(time_s, power_w), time_s, np.round(power_w)) == 0.0


def test_halves_of_unlike_gain_are_said():
    def worse(value: np.ndarray) -> np.ndarray:
        value[len(value) // 2 :] *= 0.9
        return value

    notes = validate(CAPTURE, with_values(worse)).notes
    assert any("usage gains of 0.9" in note and "do not allow" in note for note in notes)


def test_a_sound_capture_raises_no_doubt():
    assert validate(CAPTURE, LOG).notes == ()

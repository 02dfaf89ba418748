"""The energy counter beside the source that power is taken from."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.measuring import asked, measured
from fakes.power import sensor, series, window

from ptxbench.core.status import Status
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.profiles import H200
from ptxbench.energy.counter_check import counter_disagreement
from ptxbench.energy.steady import steady_power_w
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Trace
from ptxbench.storage.run_folder import RunFolder

SAMPLES = sensor(refresh_s=0.02, averaging_s=0.016, lag_s=0.004, source=SourceName.SAMPLES)
WINDOW = window(1.0, 2.0)


def trace(counter_w, samples_w=500.0, poll_s=0.002, refresh_s=0.1, noise_w=1.0):
    """A kernel at even power, as two sources see it that are polled alike."""
    stamp_s = np.arange(0.01, 2.5, 0.02)
    noise = np.random.default_rng(3).standard_normal(len(stamp_s)) * noise_w
    samples = series(stamp_s + 0.003, samples_w + noise, SourceName.SAMPLES, stamp_s=stamp_s)
    read_s = np.arange(0.0, 2.5, poll_s)
    made_s = np.floor((read_s - 0.037) / refresh_s) * refresh_s + 0.037
    counter = series(read_s, np.round(1e6 + counter_w * made_s, 3), SourceName.COUNTER, call_s=poll_s / 2)
    return Trace(0, 2_500_000_000, (samples, counter))


def said(recording, what=SAMPLES):
    power = steady_power_w(recording.of(what.source), WINDOW, what)
    assert power.status is Status.OK
    return counter_disagreement(power, recording, WINDOW, what)


def test_two_sources_that_agree_are_not_remarked_on():
    assert said(trace(500.0)) == ""
    assert said(trace(501.0)) == ""


@pytest.mark.parametrize("counter_w", [480.0, 520.0])
def test_a_difference_beyond_both_errors_is_said_with_what_they_allow(counter_w):
    text = said(trace(counter_w))
    assert "samples gives" in text
    assert f"{100 * (counter_w / 500 - 1):+.1f}%" in text
    assert "where their errors allow 1." in text


def test_not_knowing_when_an_edge_came_is_part_of_the_error():
    assert said(trace(515.0, poll_s=0.002)) != ""
    assert said(trace(515.0, poll_s=0.09)) == ""


def test_scatter_of_the_source_is_part_of_the_error():
    assert said(trace(515.0, noise_w=1.0)) != ""
    assert said(trace(515.0, noise_w=90.0)) == ""


def test_nothing_is_said_where_the_counter_cannot_tell():
    recording = trace(900.0)
    assert said(replace(recording, series=recording.series[:1])) == ""
    assert said(trace(900.0, refresh_s=0.8)) == ""  # fewer than two edges in the window
    counter = sensor(source=SourceName.COUNTER)
    assert said(recording, counter) == ""


def with_counter(gain):
    sensors = tuple(replace(s, gain=gain) if s.source is SourceName.COUNTER else s for s in H200.sensors[:2])
    return replace(H200, sensors=sensors)


@pytest.mark.parametrize(("gain", "remarked"), [(1.0, False), (1.12, True)])
def test_a_table_row_says_that_its_sources_disagree(tmp_path, gain, remarked):
    # Long enough for steps of the counter in every trial.
    what = asked("fma.rn.f32", min_repeats=4, max_repeats=4, window_s=0.6)
    (row,) = measured(SimulatedGpu(with_counter(gain)), tmp_path / "run", what)
    assert row.status is Status.OK
    assert ("trials: samples gives" in row.reason) is remarked
    assert ("the counter" in row.reason) is remarked
    with RunFolder.open(tmp_path / "run") as run:
        assert any("the counter" in r.reason for r in run.records()) is remarked


def test_a_counter_that_contradicts_its_source_leaves_no_number(tmp_path):
    what = asked("fma.rn.f32", min_repeats=2, max_repeats=2, window_s=0.6)
    (row,) = measured(SimulatedGpu(with_counter(1.3)), tmp_path / "run", what)
    assert row.status is Status.SENSOR_IMPLAUSIBLE
    assert "W and the energy counter" in row.reason

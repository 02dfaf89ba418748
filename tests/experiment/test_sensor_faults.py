"""A sensor whose readings succeed and are wrong: no row is valid with a wrong number."""

from dataclasses import replace

import pytest
from fakes.distorters import distorted, frozen_values, future_stamps, spikes
from fakes.faults import FaultyGpu
from fakes.measuring import asked, measured

from ptxbench.core.status import Status
from ptxbench.devices.simulated.profiles import H200, SLOW_SENSOR
from ptxbench.sensors.base import SourceName

pytestmark = pytest.mark.hostile

WHAT = asked("fma.rn.f32", min_repeats=3, max_repeats=3)
# Without the energy counter, which would contradict most of these faults by itself.
SAMPLES = replace(H200, sensors=tuple(s for s in H200.sensors if s.source is SourceName.SAMPLES))


def row_of(path, fault, profile=SAMPLES, what=WHAT):
    (row,) = measured(FaultyGpu(profile, fault), path, what)
    return row


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return row_of(tmp_path_factory.mktemp("clean") / "run", lambda _, readings: readings)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (distorted(lambda w: min(w, 400.0)), "gave 400 W"),
        (distorted(lambda w: -w), "are not between 0 and 910 W"),
        (distorted(lambda w: 1000 * w), "are not between 0 and 910 W"),
        (frozen_values(310.0), "gave 310 W"),
        (frozen_values(0.0), "are not between 0 and 910 W"),
        (future_stamps(0.05), "ms after the call that returned it"),
    ],
    ids=["saturated", "negative", "a thousand times", "frozen", "frozen at zero", "future stamps"],
)
def test_a_sensor_that_cannot_be_right_gives_a_reason_and_no_number(tmp_path, fault, words):
    row = row_of(tmp_path / "run", fault)
    assert row.status is Status.SENSOR_IMPLAUSIBLE
    assert row.dynamic_pj != row.dynamic_pj
    assert words in row.reason


def test_a_polled_sensor_at_the_end_of_its_range_is_found_too(tmp_path):
    row = row_of(tmp_path / "run", distorted(lambda w: min(w, 400.0)), SLOW_SENSOR)
    assert row.status in (Status.SENSOR_IMPLAUSIBLE, Status.SENSOR_STALE)
    assert "usage gave" in row.reason


@pytest.mark.parametrize(("every", "factor"), [(100, 3.0), (100, -1.0), (100, 1000.0)])
def test_a_few_wrong_readings_are_set_aside(tmp_path, clean, every, factor):
    row = row_of(tmp_path / "run", spikes(every, factor))
    assert row.status is Status.OK
    assert abs(row.dynamic_pj - clean.dynamic_pj) < clean.dynamic_ci95_pj + row.dynamic_ci95_pj
    assert row.dynamic_ci95_pj < 3 * clean.dynamic_ci95_pj


def test_every_second_reading_too_high_is_no_number(tmp_path):
    assert row_of(tmp_path / "run", spikes(2, 1.6)).status is Status.SENSOR_IMPLAUSIBLE


def test_a_counter_beyond_the_power_limit_is_no_number(tmp_path):
    profile = replace(H200, sensors=tuple(s for s in H200.sensors if s.source is SourceName.COUNTER))

    def thousandfold(moment, readings):
        if moment.source is not SourceName.COUNTER:
            return readings
        return tuple(replace(r, value=1000 * r.value) for r in readings)

    row = row_of(tmp_path / "run", thousandfold, profile)
    assert row.status is Status.SENSOR_IMPLAUSIBLE
    assert "and the GPU's limit is 700 W" in row.reason


def test_a_sensor_that_is_flat_for_a_long_kernel_is_found_in_one_trial(tmp_path):
    what = asked("fma.rn.f32", min_repeats=2, max_repeats=2, window_s=0.6)
    row = row_of(tmp_path / "run", distorted(lambda w: min(w, 400.0)), what=what)
    assert row.status is Status.SENSOR_IMPLAUSIBLE
    assert "times over" in row.reason


def test_a_sensor_of_whole_watts_is_believed(tmp_path, clean):
    row = row_of(tmp_path / "run", distorted(round))
    assert row.status is Status.OK
    assert row.dynamic_pj == pytest.approx(clean.dynamic_pj, rel=0.02)

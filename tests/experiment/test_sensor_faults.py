"""A sensor or clock that is wrong without an error: no row is valid with a wrong number."""

from dataclasses import replace

import pytest
from fakes.distorters import distorted, frozen_values, frozen_while, future_stamps, spikes
from fakes.faults import FaultyGpu, SlowClockGpu
from fakes.measuring import asked, measured

from ptxbench.core.condition import ARAFA
from ptxbench.core.status import Status
from ptxbench.devices.simulated.load import H200, find_profile
from ptxbench.sensors.base import SourceName

SLOW_SENSOR = find_profile("slow-sensor")

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
        (distorted(lambda w: min(w, 400.0)), "of a value that stands still"),
        (distorted(lambda w: -w), "zero or negative"),
        (distorted(lambda w: 1000 * w), "above what the board can draw (limit 700 W)"),
        (frozen_values(310.0), "of a value that stands still"),
        (frozen_values(0.0), "zero or negative"),
        (future_stamps(0.05), "stamped after they were read"),
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
    assert "of a value that stands still" in row.reason


@pytest.mark.parametrize(("every", "factor"), [(100, 3.0), (100, -1.0), (100, 1000.0)])
def test_a_few_wrong_readings_are_set_aside(tmp_path, clean, every, factor):
    row = row_of(tmp_path / "run", spikes(every, factor))
    assert row.status is Status.OK
    assert abs(row.dynamic_pj - clean.dynamic_pj) < clean.dynamic_ci95_pj + row.dynamic_ci95_pj
    assert row.dynamic_ci95_pj < 3 * clean.dynamic_ci95_pj


def of(role, *repeats):
    return lambda moment: role in moment.trial_id and moment.trial_id.rsplit("/", 1)[1] in repeats


@pytest.mark.parametrize("stands", [of("/target/", "1"), of("/overhead/", "1"), of("static/", "1")])
def test_a_sensor_that_stands_still_for_one_trial_costs_that_trial(tmp_path, clean, stands):
    what = asked("fma.rn.f32", min_repeats=5, max_repeats=5)
    row = row_of(tmp_path / "run", frozen_while(stands), what=what)
    assert row.status is Status.OK
    assert abs(row.dynamic_pj - clean.dynamic_pj) < clean.dynamic_ci95_pj + row.dynamic_ci95_pj
    assert row.dynamic_ci95_pj < 0.05 * row.dynamic_pj


@pytest.mark.parametrize(
    ("role", "status"),
    [
        ("/target/", Status.SENSOR_IMPLAUSIBLE),
        ("/overhead/", Status.SENSOR_IMPLAUSIBLE),
        ("static/", Status.BELOW_RESOLUTION),
    ],
)
def test_a_sensor_that_stands_still_for_all_trials_of_a_kernel_gives_no_number(tmp_path, role, status):
    row = row_of(tmp_path / "run", frozen_while(of(role, "0", "1", "2")))
    assert row.status is status
    assert row.dynamic_pj != row.dynamic_pj


def test_a_sensor_at_the_end_of_its_range_for_one_row_leaves_the_others_as_they_are(tmp_path, clean):
    what = asked("fma.rn.f32", "fma.rn.f64", min_repeats=3, max_repeats=3)
    fma, dfma = measured(FaultyGpu(SAMPLES, distorted(lambda w: min(w, 550.0))), tmp_path / "run", what)
    assert dfma.status is Status.SENSOR_IMPLAUSIBLE
    assert fma.status is Status.OK
    assert abs(fma.dynamic_pj - clean.dynamic_pj) < clean.dynamic_ci95_pj + fma.dynamic_ci95_pj


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
    assert "of a value that stands still" in row.reason


def test_a_sensor_of_whole_watts_is_believed(tmp_path, clean):
    row = row_of(tmp_path / "run", distorted(round))
    assert row.status is Status.OK
    assert row.dynamic_pj == pytest.approx(clean.dynamic_pj, rel=0.02)


# One step of the clock: 99.2% of 1980 MHz.
STEP_DOWN_MHZ = 1965
# A small energy beside its overhead loop, one at the same rate, one that takes longer.
AT_TWO_CLOCKS = ("shl.b32", "add.u32", "sin.approx.f32")


def every_second():
    launched = 0

    def slow(_):
        nonlocal launched
        launched += 1
        return launched % 2 == 0

    return slow


def odd_repeats(trial_id):
    return trial_id.rsplit("/", 1)[1] in ("1", "3")


def targets(trial_id):
    return "/target" in trial_id


@pytest.fixture(scope="module")
def at_full_clock(tmp_path_factory):
    what = asked(*AT_TWO_CLOCKS, min_repeats=4, max_repeats=4)
    rows = measured(FaultyGpu(SAMPLES), tmp_path_factory.mktemp("full") / "run", what)
    return {row.instruction: row for row in rows}


@pytest.mark.parametrize("slow", [every_second(), odd_repeats, targets], ids=lambda f: f.__name__)
def test_launches_at_two_clocks_close_together_give_no_wrong_number(tmp_path, at_full_clock, slow):
    what = asked(*AT_TWO_CLOCKS, min_repeats=4, max_repeats=4)
    rows = measured(SlowClockGpu(slow, STEP_DOWN_MHZ, SAMPLES), tmp_path / "run", what)
    for row in rows:
        true = at_full_clock[row.instruction]
        if row.status is Status.CLOCK_DRIFT:
            assert f"{STEP_DOWN_MHZ} MHz" in row.reason
            continue
        assert row.status is Status.OK
        assert "MHz" in row.reason
        # At the lower clock the voltage is lower, too: that is the energy then, not an error.
        voltage = (0.5 + 0.5 * row.clock_mhz / 1980) ** 2
        off_pj = abs(row.dynamic_pj - true.dynamic_pj * voltage)
        assert off_pj < row.dynamic_ci95_pj + true.dynamic_ci95_pj


def test_a_trial_of_arafa_at_another_clock_is_left_out(tmp_path):
    what = asked("fma.rn.f32", protocols=(ARAFA,), min_repeats=4, max_repeats=4)
    (row,) = measured(SlowClockGpu(odd_repeats, STEP_DOWN_MHZ), tmp_path / "run", what)
    assert row.status is Status.OK
    assert row.repeats == 2
    assert "the SM clock was 1965 MHz" in row.reason

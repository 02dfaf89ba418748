"""Until when a kernel runs: clock and power settle at the power limit, or that is said."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.beside import SAMPLES, recorded

from ptxbench.core.status import Status
from ptxbench.energy import settled as settled_module
from ptxbench.energy.gate.lateness import Shift
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.settled_run import BoardLimits, launches_in, low_clock_note, run_until_settled
from ptxbench.sensors.kernel_run import POWER_CAP, KernelRun, Telemetry
from ptxbench.sensors.trace import KernelWindow, Trace

BOARD = BoardLimits(set_w=700.0, max_w=700.0)
IDLE_W, BEGINS_S = 120.0, 0.5
THERMAL = 0x20
LAUNCH_S = 1e-3


class Board:
    """A board whose power and launch times follow the time since a kernel began.

    Attributes:
        asked_s: How long it was to run, each time.
    """

    def __init__(self, power_w, launch_s=lambda t: LAUNCH_S + 0 * t, reasons=0, others=0, wrong=None):
        self._power_w, self._launch_s, self._wrong = power_w, launch_s, wrong
        self._reasons, self._others = reasons, others
        self.asked_s = []

    def attempt(self, length_s):
        self.asked_s.append(length_s)
        end_s = BEGINS_S + length_s

        def power_w(t):
            return np.where((t >= BEGINS_S) & (t < end_s), self._power_w(t - BEGINS_S), IDLE_W)

        source, counter = recorded(power_w, end_s + 0.1, poll_s=0.01)
        if self._wrong is not None:
            source = replace(source, value=self._wrong(source.value))
        # Readings behind the end of the window come after the recording.
        source, counter = (one.select(one.end_ns < end_s * 1e9) for one in (source, counter))
        middles_s = length_s * (np.arange(16) + 0.5) / 16
        times_s = tuple(float(t) for t in self._launch_s(middles_s))
        window = KernelWindow(round(BEGINS_S * 1e9), round(end_s * 1e9), length_s, launch_times_s=times_s)
        state = Telemetry(50.0, 1980.0, 3201.0, 0, self._others)
        trace = Trace(0, window.end_ns, (source, counter))
        run = KernelRun(window, trace, state, state, self._reasons)
        return run, round(length_s / LAUNCH_S)


def ringing(settles_s=1.5, low=0.72):
    """As an H100 at 700 W: over the limit, under it, and then at it."""

    def power_w(t):
        late = np.where(t < settles_s, 760.0, 700.0)
        return np.where(t < 0.75, 780.0, np.where(t < 1.0, low * 700.0, late))

    return power_w


def settled(board, window_s=0.4, limits=BOARD):
    _, found = run_until_settled(board.attempt, window_s, SourceCheck(SAMPLES, (SAMPLES,)), limits)
    return found


def test_below_the_limit_one_short_window_is_enough_and_tells_what_it_told():
    board = Board(lambda t: 400.0 + 0 * t)
    found = settled(board)
    assert (board.asked_s, found.unsettled, found.slowed) == ([0.4], "", False)
    assert found.power.power_w == pytest.approx(400, rel=0.005)
    assert found.launch_s == pytest.approx(LAUNCH_S)


def test_at_the_limit_a_longer_window_is_run_and_its_later_half_counts():
    board = Board(ringing(), lambda t: np.where(t < 1.5, 0.9, 1.1) * LAUNCH_S, POWER_CAP)
    found = settled(board)
    assert (board.asked_s, found.unsettled, found.slowed) == ([0.4, 4.0], "", True)
    assert found.power.power_w == pytest.approx(700, rel=0.003)
    assert found.launch_s == pytest.approx(1.1 * LAUNCH_S)
    assert found.note == "slowed down by SwPowerCap"


def test_a_window_that_the_user_made_long_is_not_run_again():
    board = Board(ringing(), reasons=POWER_CAP)
    assert settled(board, 5.0).unsettled == ""
    assert board.asked_s == [5.0]


def test_what_has_not_settled_in_four_seconds_runs_for_eight():
    board = Board(ringing(settles_s=3.2), reasons=POWER_CAP)
    assert settled(board).power.power_w == pytest.approx(700, rel=0.003)
    assert board.asked_s == [0.4, 4.0, 8.0]


@pytest.mark.parametrize(
    ("power_w", "launch_s", "words"),
    [
        (lambda t: 700 - 8 * t, lambda t: LAUNCH_S + 0 * t, "the power still changed by -"),
        (
            lambda t: 700 + 0 * t,
            lambda t: LAUNCH_S * (1 + 0.02 * t),
            "the time of a launch still changed by +",
        ),
        (lambda t: 690 + 150 * np.sign(np.sin(3 * t)), lambda t: LAUNCH_S + 0 * t, "the power"),
    ],
    ids=["power", "time", "up and down"],
)
def test_what_never_settles_is_said_after_a_bounded_time(power_w, launch_s, words):
    board = Board(power_w, launch_s, POWER_CAP)
    found = settled(board)
    assert words in found.unsettled
    assert board.asked_s == [0.4, 4.0, 8.0]


def test_power_over_the_limit_without_a_word_of_the_driver_is_not_believed_to_last():
    held = Board(lambda t: np.where(t < 1.0, 735.0, 690.0))
    assert settled(held).power.power_w == pytest.approx(690, rel=0.003)
    assert "above the limit of 700 W" in settled(Board(lambda t: 735.0 + 0 * t)).unsettled
    # A lower limit that the user set counts, not the highest.
    low = Board(lambda t: 400.0 + 0 * t)
    assert "above the limit of 300 W" in settled(low, limits=BoardLimits(300.0, 700.0)).unsettled


def test_power_that_changes_below_the_limit_is_waited_for_as_well():
    board = Board(lambda t: np.where(t < 0.3, 300.0, 400.0))
    found = settled(board)
    assert board.asked_s == [0.4, 4.0]
    assert found.power.power_w == pytest.approx(400, rel=0.003)
    # A step of the supply voltage is no such change.
    step = Board(lambda t: np.where(t < 0.3, 400.0, 411.0))
    assert settled(step).unsettled == ""
    assert step.asked_s == [0.4]


def test_far_from_the_limit_launches_that_scatter_are_settled_and_those_that_drift_wait_once():
    random = np.random.default_rng(3)
    for _ in range(20):
        scatter = Board(lambda t: 300.0 + 0 * t, lambda t: LAUNCH_S * (1 + 0.04 * random.standard_normal(16)))
        assert settled(scatter).unsettled == ""
        assert scatter.asked_s == [0.4]
    drift = Board(lambda t: 300.0 + 0 * t, lambda t: LAUNCH_S * (1 + 0.1 * t))
    assert "the time of a launch still changed by +" in settled(drift).unsettled
    assert drift.asked_s == [0.4, 4.0]
    held = Board(lambda t: 690.0 + 0 * t, lambda t: LAUNCH_S * (1 + 0.1 * t), POWER_CAP)
    assert settled(held).unsettled
    assert held.asked_s == [0.4, 4.0, 8.0]


def test_a_gpu_that_heat_slows_down_is_said():
    found = settled(Board(lambda t: 500.0 + 0 * t, reasons=THERMAL))
    assert found.slowed
    assert found.note == "slowed down by SwThermalSlowdown"


def test_a_power_cap_that_is_named_far_below_the_limit_slows_nothing():
    def step(t):
        return np.where(t < 0.3, 400.0, 411.0)

    board = Board(step, reasons=POWER_CAP)
    found = settled(board)
    assert not found.slowed
    assert found.note == ""
    # As without a word of the driver, a step of the supply voltage is not waited for.
    assert board.asked_s == [0.4]
    assert found.power == settled(Board(step)).power
    # The same power at a limit of its own is slowed, and so is any beside heat.
    assert settled(Board(step, reasons=POWER_CAP), limits=BoardLimits(420.0, 700.0)).slowed
    assert settled(Board(step, reasons=POWER_CAP | THERMAL)).note == "slowed down by SwThermalSlowdown"


def test_beside_another_program_there_is_no_power():
    found = settled(Board(lambda t: 400.0 + 0 * t, others=1))
    assert found.power.status is Status.FOREIGN_PROCESS
    assert found.power.power_w != found.power.power_w
    assert "1 other compute process" in found.power.reason


def every(n, change):
    return lambda value: np.where(np.arange(len(value)) % n == 0, change(value), value)


@pytest.mark.parametrize(
    "wrong",
    [every(2, lambda w: 0 * w), every(3, lambda w: -w), lambda w: 1000 * w, lambda w: 0 * w + 310.0],
    ids=["zeros", "negative", "mW", "frozen"],
)
def test_a_sensor_that_cannot_be_right_gives_no_power_and_is_not_waited_for(wrong):
    board = Board(lambda t: 400.0 + 0 * t, wrong=wrong)
    found = settled(board)
    assert found.power.status is Status.SENSOR_IMPLAUSIBLE
    assert found.power.power_w != found.power.power_w
    assert board.asked_s == [0.4]


def test_a_few_wrong_readings_are_left_out_and_counted():
    found = settled(Board(lambda t: 400.0 + 0 * t, wrong=every(20, lambda w: 0 * w)))
    assert found.power.power_w == pytest.approx(400, rel=0.005)
    assert "left out" in found.note
    assert "zero or negative" in found.note


def test_a_source_that_differs_from_the_counter_over_all_kernels_is_objected_to():
    source = SourceCheck(SAMPLES, (SAMPLES,))
    for _ in range(8):
        board = Board(lambda t: 400.0 + 0 * t, wrong=lambda w: 1.1 * w)
        _, found = run_until_settled(board.attempt, 0.4, source, BOARD)
        # No single kernel tells 10%: its counter steps four times.
        assert found.power.status is Status.OK
    assert "differs from the energy counter by +10" in source.objection


@pytest.mark.parametrize(("step_s", "is_late"), [(0.4, False), (0.7, True)])
def test_kernels_that_follow_each_other_by_a_shift_do_not_tell_it(monkeypatch, step_s, is_late):
    late = Shift(best_s=0.4, least_s=0.4, allowed_s=0.035)
    monkeypatch.setattr(settled_module, "shift_at_windows", lambda *_: late)
    source = SourceCheck(SAMPLES, (SAMPLES,))
    _, found = run_until_settled(Board(lambda t: 400.0 + 0 * t).attempt, 0.4, source, BOARD)
    for number in range(1, 12):
        begin_ns = round((BEGINS_S + number * step_s) * 1e9)
        source.add(found.found, KernelWindow(begin_ns, begin_ns + 400_000_000, 0.4), even=True)
    assert ("0.4 s late" in source.objection) is is_late


@pytest.mark.parametrize(("clock_mhz", "is_said"), [(1500.0, True), (1965.0, False), (math.nan, False)])
def test_a_clock_that_is_lower_without_a_reason_is_said(clock_mhz, is_said):
    note = low_clock_note(clock_mhz, 1980.0)
    said = "the SM clock was 1500 MHz, not 1980, and no reason of NVML explains it"
    assert note == (said if is_said else "")
    assert low_clock_note(clock_mhz, math.nan) == ""


def test_what_takes_no_time_that_a_clock_tells_is_launched_as_often_as_a_host_can():
    assert launches_in(0.1, 1e-3) == 100
    assert launches_in(0.1, 1.0) == 1
    assert launches_in(0.1, 0.0) == launches_in(0.1, 1e-9) == 25_000
    assert settled(Board(lambda t: 300.0 + 0 * t, lambda t: 0 * t)).unsettled == ""

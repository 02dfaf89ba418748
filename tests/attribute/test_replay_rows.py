"""The arithmetic of rows, by numbers that a reader can check."""

import math

import numpy as np
import pytest

from ptxbench.attribute.replay.kinds import Kind
from ptxbench.attribute.replay.profile import (
    Measured,
    StepEnergy,
    at_other_temperature,
    kind_rows,
    measured,
    step_energy,
    with_gaps,
)
from ptxbench.attribute.replay.replayed import Beside, ReplayRun
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.devices.step import NodeType, StepNode
from ptxbench.energy.settled import SettledPower
from ptxbench.energy.steady import PowerReading
from ptxbench.experiment.settled_run import KernelPower
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import KernelWindow, Series, Trace

STEP = StepEnergy(
    1e-3, 0.4, 0.002, drift=0.0, clock_mhz=1980.0, temperature_c=50.0, is_limited=False
)  # fmt: skip
FILL = Kind(StepNode(NodeType.FILL, "fill", size=4), (0, 2))
ATTENTION = Kind(StepNode(NodeType.KERNEL, "attention"), (1, 3))


def found(run, power_w, graph_s, error_w=0.0, graph_error_s=0.0, clock_mhz=1980.0, **more):
    values = {
        "temperature_c": 50.0, "is_limited": False, "status": Status.OK, "reason": "", **more,
    }  # fmt: skip
    return Measured(run, power_w, error_w, graph_s, graph_error_s, clock_mhz, **values)


IDLE = found(ReplayRun("idle", 100, 0, 100), 120.0, 100 * 21e-6)


def rows(kinds, measured_kinds, step=STEP, exponent=1.5, undos=None):
    return kind_rows(kinds, measured_kinds, step, IDLE, exponent, undos)


def test_a_launch_has_its_part_of_a_graph():
    (row,) = rows([ATTENTION], {0: found(ReplayRun("kind 0", 9, 10), 300.0, 1e-3, 1.5)})
    assert (row.calls, row.launch_s, row.time_s) == (2, pytest.approx(1e-4), pytest.approx(2e-4))
    assert row.launch_j == pytest.approx(0.03)
    assert row.power_w == pytest.approx(300.0)
    assert row.half_j == pytest.approx(COVERAGE_FACTOR * 1.5 * 2e-4)
    assert row.interval_j == (
        pytest.approx(row.energy_j - row.half_j),
        pytest.approx(row.energy_j + row.half_j),
    )


@pytest.mark.parametrize(
    ("kinds_c", "said"),
    [
        ((46.0, 54.0), ""),
        ((math.nan,), ""),
        ((math.nan, 49.0, 57.0), "kinds ran at 49 to 57 C, the step at 50 C: a warmer board leaks more"),
    ],
)
def test_kinds_at_another_temperature_than_the_step_are_said(kinds_c, said):
    kinds = [found(ReplayRun("kind 0", 9, 10), 300.0, 1e-3, temperature_c=one_c) for one_c in kinds_c]
    assert at_other_temperature(STEP, kinds) == said


def test_times_asleep_are_taken_off_with_an_error_of_a_hundredth():
    # Ten launches of 100 us at 700 W, and 30 times asleep of 21 us at 120 W.
    time_s = 10 * 100e-6 + 30 * 21e-6
    power_w = (10 * 100e-6 * 700 + 30 * 21e-6 * 120) / time_s
    (row,) = rows([ATTENTION], {0: found(ReplayRun("kind 0", 9, 10, 30), power_w, time_s)})
    assert row.launch_s == pytest.approx(100e-6)
    assert row.launch_j == pytest.approx(0.07)
    assert row.half_j == pytest.approx(2 * COVERAGE_FACTOR * 0.01 * 30 * 21e-6 * 120 / 10)


def test_fills_and_what_is_written_back_are_taken_off():
    fill = found(ReplayRun("kind 0", 9, 100), 125.0, 100 * 1e-6)
    undo = found(ReplayRun("undo 1", 9, 32), 200.0, 32 * 10e-6)
    # A graph of four launches of 50 us at 400 W, four fills, and two times 10 us of writing back.
    time_s = 4 * 50e-6 + 4 * 1e-6 + 2 * 10e-6
    energy_j = 4 * 50e-6 * 400 + 4 * 1e-6 * 125 + 2 * 10e-6 * 200
    run = ReplayRun("kind 1", 9, 4, 0, 1, beside=(Beside(0, 4),), undone=2, first_s=2 * 51e-6)
    of_fill, row = rows(
        [FILL, ATTENTION], {0: fill, 1: found(run, energy_j / time_s, time_s)}, undos={1: undo}
    )
    assert of_fill.launch_j == pytest.approx(125e-6)
    assert row.launch_s == pytest.approx(50e-6)
    assert row.launch_j == pytest.approx(0.02)
    assert row.status is Status.OK


@pytest.mark.parametrize(
    ("first_s", "status"),
    [(2 * 2 * 51e-6 + 29e-6, Status.OK), (2 * 2 * 51e-6 + 31e-6, Status.IMPRECISE), (math.nan, Status.OK)],
)
def test_a_kind_ends_early_where_the_first_time_took_far_more_fills_included(first_s, status):
    fill = found(ReplayRun("kind 0", 9, 100), 125.0, 100 * 1e-6)
    run = ReplayRun("kind 1", 9, 4, 0, 1, beside=(Beside(0, 4),), first_s=first_s)
    _, row = rows([FILL, ATTENTION], {0: fill, 1: found(run, 400.0, 4 * 51e-6)})
    assert row.status is status
    assert ("launched again" in row.reason) is (status is Status.IMPRECISE)


def test_another_clock_widens_the_interval_by_what_it_may_change():
    slow = found(ReplayRun("kind 0", 9, 10), 700.0, 1e-3, clock_mhz=1700.0, is_limited=True)
    (row,) = rows([ATTENTION], {0: slow})
    assert "ran at 1700 MHz, held down by the power limit; the step at 1980 MHz" in row.reason
    assert row.half_j == pytest.approx((700 - 120) * 2e-4 * ((1980 / 1700) ** 1.5 - 1))
    (same,) = rows([ATTENTION], {0: found(ReplayRun("kind 0", 9, 10), 700.0, 1e-3, clock_mhz=1970.0)})
    assert same.half_j == 0.0


def test_drift_of_the_step_is_in_every_interval():
    drifted = StepEnergy(1e-3, 0.4, 0.002, 0.02, 1980.0, 50.0, is_limited=False)
    (row,) = rows([ATTENTION], {0: found(ReplayRun("kind 0", 9, 10), 300.0, 1e-3)}, step=drifted)
    assert row.half_j == pytest.approx(0.01 * row.energy_j)


def test_the_step_is_the_mean_of_both_times():
    runs = [
        found(ReplayRun(name, 9, 1), w, s, 2.0) for name, w, s in (("a", 400.0, 1.0e-3), ("b", 404.0, 1.2e-3))
    ]
    step = step_energy(runs)
    assert (step.power_w, step.time_s) == (pytest.approx(402.0), pytest.approx(1.1e-3))
    assert step.drift == pytest.approx(0.01)
    relative = math.hypot(2 / 400, 2 / 404) / 2
    assert step.half_j / step.energy_j == pytest.approx(math.hypot(COVERAGE_FACTOR * relative, 0.005))
    alone = step_energy(runs[:1])
    assert alone.drift == 0.0
    assert alone.half_j / alone.energy_j == pytest.approx(COVERAGE_FACTOR * 2 / 400)


def test_gaps_are_what_the_kinds_leave_of_the_time():
    gaps = found(ReplayRun("gaps", 9, 1000), 130.0, 1e-3, 2.0)
    (row,) = rows([ATTENTION], {0: found(ReplayRun("kind 0", 9, 10), 300.0, 4e-3)})
    (_, gap), notes = with_gaps([row], STEP, gaps)
    assert (gap.name, gap.calls, gap.time_s) == ("gaps", 2, pytest.approx(2e-4))
    assert gap.energy_j == pytest.approx(130 * 2e-4)
    assert gap.half_j == pytest.approx(COVERAGE_FACTOR * 2 * 2e-4)
    assert notes == ()


def test_kinds_that_take_longer_than_the_step_leave_no_gaps_and_it_is_said():
    gaps = found(ReplayRun("gaps", 9, 1000), 130.0, 1e-3)
    (row,) = rows([ATTENTION], {0: found(ReplayRun("kind 0", 9, 10), 300.0, 6e-3)})
    kept, (note,) = with_gaps([row], STEP, gaps)
    assert kept == (row,)
    assert "take 120.0% of the time of the step" in note


def judged(times_s, unsettled="", status=Status.OK):
    window = KernelWindow(0, 10**9, 1.0, launch_times_s=times_s)
    power = PowerReading(300.0, 1.0, 20, status, "a reason" if status is not Status.OK else "")
    return KernelPower(SettledPower(power, "", None), 1e-3, window, 0, unsettled)


def trace(*clock):
    at_ns = np.linspace(0, 10**9, len(clock)).astype(np.int64)
    return Trace(0, 10**9, (Series.unstamped(SourceName.CLOCK, at_ns, np.array(clock, dtype=float)),))


def test_a_recording_has_the_scatter_of_its_launches_and_the_clock_of_its_later_half():
    one = measured(ReplayRun("x", 9, 1), trace(1000, 1000, 1900, 2000, 2100), judged((1.0e-3, 1.2e-3)), 50.0)
    assert one.graph_error_s == pytest.approx(0.2e-3 / math.sqrt(2) / math.sqrt(2))
    assert one.clock_mhz == pytest.approx(2000)
    assert measured(ReplayRun("x", 9, 1), Trace(0, 1, ()), judged(()), 50.0).graph_error_s == 0.0
    assert math.isnan(measured(ReplayRun("x", 9, 1), Trace(0, 1, ()), judged(()), 50.0).clock_mhz)


def test_what_had_not_settled_is_imprecise_and_what_has_no_power_keeps_its_reason():
    one = measured(ReplayRun("x", 9, 1), trace(1980), judged((), "the power still changed by +5%"), 50.0)
    assert (one.status, one.reason) == (Status.IMPRECISE, "the power still changed by +5%")
    bad = measured(ReplayRun("x", 9, 1), trace(1980), judged((), "x", Status.SENSOR_STALE), 50.0)
    assert (bad.status, bad.reason) == (Status.SENSOR_STALE, "a reason")

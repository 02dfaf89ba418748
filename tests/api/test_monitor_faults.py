"""What `EnergyMonitor` makes of sensors that are wrong: held by its interval, or said, and never silent."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes import distorters as d
from fakes.loads import LoadedGpu
from fakes.monitored import by_monitor, distorted_board
from fakes.troubled import Trouble

import ptxbench
from ptxbench.api.board import Recording, open_boards
from ptxbench.api.board_readings import HISTORY_S
from ptxbench.core.status import Status
from ptxbench.sensors.base import SourceName

SAMPLES, COUNTER, INSTANT, USAGE = (
    SourceName.SAMPLES,
    SourceName.COUNTER,
    SourceName.INSTANT,
    SourceName.USAGE,
)
TRUE = (SAMPLES, COUNTER), (COUNTER, INSTANT), (SAMPLES,), (USAGE,)


def said(cases, text):
    return [case for case in cases if any(text in one for one in case.said)]


@pytest.mark.parametrize("sources", TRUE[:2])
def test_of_sources_that_agree_nothing_is_said(sources):
    cases = by_monitor(sources, d.changed_in_time(lambda _, w: w))
    assert not [text for case in cases for text in case.said if "too" not in text]
    assert sum(case.is_held for case in cases) >= 7


@pytest.mark.parametrize(
    ("sources", "what"), [((USAGE,), "no energy counter"), ((COUNTER,), "no power source")]
)
def test_a_source_that_nothing_is_read_beside_says_so(sources, what):
    cases = by_monitor(sources, d.changed_in_time(lambda _, w: w))
    resolved = [case for case in cases if not any("too short" in text for text in case.said)]
    assert resolved == said(resolved, what)


@pytest.mark.parametrize("sources", TRUE)
@pytest.mark.parametrize(
    "fault",
    [
        lambda: d.changed_in_time(lambda _, w: 1000 * w),
        lambda: d.fresh_counted(3, lambda _: 0.0),
        lambda: d.fresh_counted(7, lambda w: -w),
        lambda: d.changed_in_time(lambda t, w: 1.2e6 if 4.0 < t < 4.03 else w),
        lambda: d.missing(0.9),
        lambda: d.lost(0.3),
    ],
    ids=["mW", "every third zero", "every seventh negative", "1.2 MW once", "lost", "failed"],
)
def test_readings_that_cannot_be_true_never_count(sources, fault):
    for case in by_monitor(sources, fault()):
        assert case.is_within(2.0)
        assert not case.energy_j < 0


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (lambda: d.fresh_counted(3, lambda _: 0.0), "zero or negative"),
        (lambda: d.changed_in_time(lambda _, w: 1000 * w), "above what the board can draw"),
        (lambda: d.frozen_from(0.0), "stands still"),
        (lambda: d.late_values(0.5), "come 0.5 s late"),
        (lambda: d.clock_set_back(3.0, 0.5), "stamped"),
    ],
)
def test_the_counter_stands_in_for_a_source_that_is_not_believed_and_says_so(fault, text):
    cases = by_monitor((SAMPLES, COUNTER), fault())
    known = [case for case in cases if math.isfinite(case.energy_j)]
    assert len(known) >= 6
    assert all(case.is_within(2.0) for case in cases)
    assert said(cases[-3:], text) == cases[-3:]
    assert said(cases[-1:], "the energy is that by counter")


def test_without_a_second_source_there_is_no_number_from_one_that_is_not_believed():
    cases = by_monitor((USAGE,), d.fresh_counted(2, lambda _: 0.0))
    assert all(math.isnan(case.energy_j) for case in cases)
    assert said(cases, "more than 20% of the readings cannot be true")


def test_few_wrong_readings_are_left_out_counted_and_said():
    made = LoadedGpu(SAMPLES)
    with ptxbench.EnergyMonitor([distorted_board(made, d.fresh_counted(7, lambda w: -w))]) as monitor:
        before_j = made.energy_j()
        with monitor.window("step") as step:
            made.load(2.0, 300.0)
        true_j = made.energy_j() - before_j
    (gpu,) = step.result().gpus
    assert gpu.status is Status.OK
    assert gpu.energy_j == pytest.approx(true_j, rel=0.01)
    # Of the window's 100 readings, and of some 12 on either side.
    assert 14 <= gpu.left_out <= 22
    assert gpu.notes[0].startswith(f"{gpu.left_out} of ")
    assert "zero or negative" in gpu.notes[0]


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
@pytest.mark.parametrize("sources", [(SAMPLES, COUNTER), (COUNTER, USAGE)])
def test_where_the_counter_contradicts_the_power_the_interval_holds_both(sources, factor):
    cases = by_monitor(sources, d.of_counter(lambda _, j: factor * j))
    assert all(case.is_within(1.0) or case.said for case in cases)
    last = cases[-1]
    if sources[0] is SAMPLES or factor in (0.5, 2.0):
        assert said([last], "differs from the energy counter by")
        assert last.interval_j[0] < last.truth_j * 1.002
        assert last.interval_j[1] > last.truth_j * 0.998


def test_a_contradiction_is_a_status_and_the_energy_keeps_its_source():
    made = LoadedGpu(SAMPLES, COUNTER)
    with ptxbench.EnergyMonitor([distorted_board(made, d.changed_in_time(lambda _, w: 1.3 * w))]) as monitor:
        with monitor.window("step") as step:
            made.load(3.0, 300.0)
        made.gpu.sleep(3.0)
    found = step.result()
    (gpu,) = found.gpus
    assert gpu.status is Status.SENSOR_IMPLAUSIBLE
    assert not found.is_resolved
    assert gpu.source == "samples"
    assert gpu.interval_j[0] < gpu.energy_j / 1.3 < gpu.energy_j < gpu.interval_j[1]
    assert "one of the two is wrong" in str(found)


@pytest.mark.parametrize(
    "change",
    [
        lambda t, j: j if t < 5 else j - 250_000.0,
        lambda t, j: j if t < 5 else 0.0,
        lambda t, j: min(j, 251_000.0),
    ],
    ids=["wraps", "is reset and dead", "stands still"],
)
def test_a_counter_that_falls_or_stands_still_leaves_the_power(change):
    cases = by_monitor((COUNTER, INSTANT), d.of_counter(change))
    assert all(case.is_within(2.0) for case in cases)
    assert sum(math.isfinite(case.energy_j) for case in cases) == len(cases)
    assert said(cases, "the energy is that by instant")


def test_work_that_shows_long_after_its_windows_is_said_where_no_counter_tells():
    cases = by_monitor((SAMPLES,), d.late_values(0.5))
    assert said(cases[-1:], "by when the work began and ended, samples is not to be trusted")
    assert not said(by_monitor((SAMPLES,), d.changed_in_time(lambda _, w: w)), "not to be trusted")


@pytest.mark.parametrize("for_s", [0.02, 0.04])
def test_few_readings_that_are_far_above_all_others_count_and_are_said(for_s):
    def fault(moment, readings):
        is_hit = moment.source is SAMPLES and 3.4 < moment.at_s < 3.4 + for_s
        return tuple(replace(r, value=2 * r.value) for r in readings) if is_hit else readings

    cases = by_monitor((SAMPLES, COUNTER), fault)
    (hit,) = (case for case in cases if said([case], "are far above all others in the window"))
    assert hit.energy_j > hit.truth_j


def test_an_energy_that_is_not_known_is_no_number():
    made = LoadedGpu(USAGE)
    board = distorted_board(made, d.changed_in_time(lambda *_: float("nan")))
    with ptxbench.EnergyMonitor([board]) as monitor, monitor.window("step") as step:
        made.load(2.0)
    found = step.result()
    assert math.isnan(found.energy_j)
    assert not found.is_resolved
    assert str(found).startswith("step: energy not known, in 2 s; ")
    assert "nan" not in str(found)


def test_a_power_beyond_what_the_board_can_draw_is_none_though_nvml_tells_no_limit():
    made = LoadedGpu(USAGE)
    board = replace(
        distorted_board(made, d.changed_in_time(lambda _, w: 1000 * w)),
        limit_w=math.nan,
        max_power_w=math.nan,
    )
    with ptxbench.EnergyMonitor([board]) as monitor, monitor.window("step") as step:
        made.load(2.0)
    assert math.isnan(step.result().energy_j)


def test_a_limit_that_the_user_lowered_is_not_that_of_the_board():
    made = LoadedGpu(SAMPLES)
    (board,) = open_boards(made.gpu)
    with ptxbench.EnergyMonitor([replace(board, limit_w=200.0)]) as monitor, monitor.window("step") as step:
        made.load(2.0, 400.0)
    assert step.result().gpus[0].left_out == 0


def test_an_estimate_lies_within_its_own_interval():
    made = LoadedGpu(INSTANT)
    (board,) = open_boards(made.gpu)
    with ptxbench.EnergyMonitor([replace(board, limit_w=100.0)]) as monitor:
        made.load(1.0, 400.0)
        with monitor.window("brief") as brief:
            made.load(0.01, 400.0)
    (gpu,) = brief.result().gpus
    assert gpu.status is Status.WINDOW_TOO_SHORT
    assert gpu.interval_j[0] <= gpu.energy_j <= gpu.interval_j[1]


def test_sources_are_compared_for_hours_without_their_readings():
    made = LoadedGpu(SAMPLES, COUNTER)
    (board,) = open_boards(made.gpu)
    recording = Recording(board)
    recording.start(board.clock.now_ns)
    for _ in range(40):
        made.load(made.about(2.0))
        made.gpu.sleep(made.about(1.0))
    compared = recording.comparisons()
    recording.stop()
    assert len(recording.series()[0]) < 100 * HISTORY_S
    spans = np.array([(one.start_ns, one.end_ns) for one in compared])
    assert (spans[1:, 0] >= spans[:-1, 1]).all()
    covered_s = float((spans[:, 1] - spans[:, 0]).sum()) / 1e9
    assert covered_s > 0.9 * (spans[-1, 1] - spans[0, 0]) / 1e9
    assert covered_s > 90


@pytest.mark.parametrize(("others", "is_said"), [(2, True), (0, False), (-1, False)])
def test_another_program_on_the_gpu_is_said(others, is_said):
    trouble = Trouble("others", others=others)
    cases = by_monitor((SAMPLES, COUNTER), d.changed_in_time(lambda _, w: w), trouble=trouble)
    assert len(said(cases, "another process was on it")) == is_said * len(cases)

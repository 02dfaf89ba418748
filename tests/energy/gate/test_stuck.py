"""A source that stands still: its values are marked, unless the energy counter says that they are right."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.beside import SAMPLES, recorded, square
from fakes.power import sensor, series, window

from ptxbench.energy.gate.kernel import judge_kernel
from ptxbench.energy.gate.readings import Mark, judge
from ptxbench.energy.gate.stuck import STUCK, mark_stuck
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Trace

MAX_W = 700.0


def held(source, first, count, value_w=None):
    """The source with one value for so many readings."""
    value = source.value.copy()
    value[first : first + count] = value[first] if value_w is None else value_w
    return replace(source, value=value)


def marked(source, *context, sensor=SAMPLES):
    return np.flatnonzero(mark_stuck(judge(source, MAX_W), sensor, *context).marks == Mark.STUCK)


def test_values_that_scatter_are_believed_with_and_without_a_counter():
    source, counter = recorded(square())
    assert not len(marked(source))
    assert not len(marked(source, counter, [10**9, 2 * 10**9]))


def test_a_value_that_stands_for_fifty_refreshes_is_marked_from_the_second_reading_on():
    source, _ = recorded(square(period_s=20.0), end_s=20.0)
    assert not len(marked(held(source, 100, STUCK.refreshes - 1)))
    assert marked(held(source, 100, STUCK.refreshes)).tolist() == list(range(101, 100 + STUCK.refreshes))


def test_too_many_of_them_are_an_objection_that_names_them():
    source, _ = recorded(square(period_s=20.0), end_s=8.0)
    verdict = mark_stuck(judge(held(source, 0, len(source), 310.0), MAX_W), SAMPLES)
    assert f"{len(source) - 1} of a value that stands still" in verdict.objection


def test_fewer_are_enough_where_the_counter_says_that_the_power_moved():
    source, counter = recorded(square(period_s=2.0), end_s=8.0)
    stood = held(source, 30, 40)  # from 0.61 to 1.41 s; the load rises at 1 s
    assert not len(marked(stood))
    assert marked(stood, counter).tolist() == list(range(31, 70))


def test_fewer_are_enough_where_the_load_is_known_to_have_changed():
    source, _ = recorded(square(period_s=2.0), end_s=8.0)
    stood = held(source, 45, 15)  # from 0.91 to 1.21 s
    assert marked(stood, None, [10**9]).tolist() == list(range(46, 60))
    assert not len(marked(stood, None, [2 * 10**9]))
    # A change that the source cannot have shown yet.
    assert not len(marked(held(source, 45, 6), None, [10**9]))


def test_a_value_that_stands_where_the_counter_says_so_is_right():
    source, counter = recorded(lambda t: np.full_like(t, 300.0))
    assert not len(marked(held(source, 100, 200, 300.0), counter))
    assert len(marked(held(source, 100, 200, 300.0)))
    assert len(marked(held(source, 100, 200, 200.0), counter))


def test_a_coarse_source_may_repeat_a_value():
    source, _ = recorded(square(period_s=20.0), end_s=20.0)
    stood = held(source, 100, 300, 121.0)
    assert len(marked(stood))
    assert not len(marked(stood, sensor=replace(SAMPLES, quantum=1.0)))
    # Its steps may be seen where the description does not know them.
    assert not len(marked(replace(stood, value=np.round(stood.value))))


def test_readings_that_were_lost_or_polled_twice_are_no_repeats():
    source, _ = recorded(square(period_s=20.0), end_s=20.0)
    kept = np.ones(len(source), dtype=bool)
    kept[101:160] = False
    assert not len(marked(held(source, 100, 61).select(kept)))
    twice = replace(SAMPLES, source=SourceName.INSTANT, refresh_s=0.1)
    polled = replace(
        source, stamp_ns=np.full(len(source), -1), value=np.repeat(source.value[::5], 5)[: len(source)]
    )
    assert not len(marked(polled, sensor=twice))


def test_an_energy_counter_is_not_judged_so():
    _, counter = recorded(square())
    assert not len(
        marked(
            replace(counter, value=np.full(len(counter), 5.0)),
            sensor=replace(SAMPLES, source=SourceName.COUNTER),
        )
    )


def test_of_a_value_without_stamps_the_first_and_the_last_reading_tell_how_long_it_stood():
    usage = sensor(refresh_s=0.1, source=SourceName.USAGE)
    brief = series([0.0, 1.0, 1.1], [300.0, 300.0, 310.0], SourceName.USAGE)
    long = series([0.0, 6.0, 6.1], [300.0, 300.0, 310.0], SourceName.USAGE)
    assert not len(marked(brief, sensor=usage))
    assert marked(long, sensor=usage).tolist() == [1]


def test_a_change_of_the_load_must_show_only_once_the_source_has_settled():
    slow = sensor(refresh_s=0.1, averaging_s=1.0, source=SourceName.USAGE)
    at_s = np.arange(0.0, 8.0, 0.1)
    moving = series(at_s, 300.0 + np.arange(len(at_s)) % 7 + 0.1 * at_s, SourceName.USAGE)
    stood = held(moving, 20, 21)  # from 2 to 4 s
    assert not len(marked(stood, None, [3_200_000_000], sensor=slow))
    assert marked(stood, None, [2_200_000_000], sensor=slow).tolist() == list(range(21, 41))


@pytest.mark.parametrize(("end_s", "other", "stands"), [(1.35, 0, True), (1.2, 0, False), (1.35, 1, False)])
def test_a_kernel_whose_readings_are_all_one_value_shows_it_after_twelve_refreshes(end_s, other, stands):
    source, _ = recorded(lambda t: np.where((t >= 1.0) & (t < end_s), 310.0, 120.0), end_s=3.0)
    value_w = np.where(source.value > 300, 310.0, source.value)
    value_w[np.flatnonzero(value_w == 310.0)[-2:][:other]] += 1.0
    trace = Trace(0, 3 * 10**9, (replace(source, value=value_w),))
    found = judge_kernel(trace, window(1.0, end_s), SAMPLES, MAX_W)
    assert ("of a value that stands still" in found.readings.objection) == stands

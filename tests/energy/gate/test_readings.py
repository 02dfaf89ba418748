"""Readings that cannot be true are marked, counted and left out; too many of them, and none is believed."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.power import series
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.energy.gate.readings import LIMITS, Mark, judge
from ptxbench.sensors.base import SourceName

AT_S = np.arange(0.0, 2.0, 0.02)
MAX_W = 700.0


def samples(value_w=300.0, stamp_s=AT_S):
    values_w = np.full(len(AT_S), value_w) + np.random.default_rng(1).normal(size=len(AT_S))
    return series(AT_S + 0.003, values_w, SourceName.SAMPLES, stamp_s=stamp_s)


def with_values(at, values):
    one = samples()
    value = one.value.copy()
    value[at] = values
    return replace(one, value=value)


def marked(verdict):
    return {int(i): Mark(int(verdict.marks[i])) for i in np.flatnonzero(verdict.marks)}


def test_readings_that_can_be_true_pass_untouched():
    verdict = judge(samples(), MAX_W)
    assert (verdict.objection, verdict.note, verdict.counts) == ("", "", {})
    assert verdict.believed.value.tolist() == samples().value.tolist()


@pytest.mark.parametrize(
    ("wrong_w", "mark"),
    [
        (0.0, Mark.NOT_POSITIVE),
        (-300.0, Mark.NOT_POSITIVE),
        (np.nan, Mark.NOT_FINITE),
        (np.inf, Mark.NOT_FINITE),
        (1.51 * MAX_W, Mark.ABOVE_LIMIT),
        (300_000.0, Mark.ABOVE_LIMIT),
    ],
)
def test_a_wrong_value_is_left_out_counted_and_named(wrong_w, mark):
    verdict = judge(with_values([3, 50], wrong_w), MAX_W)
    assert marked(verdict) == {3: mark, 50: mark}
    assert len(verdict.believed) == len(AT_S) - 2
    assert len(verdict.series) == len(AT_S)
    assert verdict.note == f"2 of 100 readings of samples left out: 2 {mark.text}"
    assert not verdict.objection


def test_a_transient_that_boards_show_is_believed():
    assert judge(with_values([3], 1.39 * MAX_W), MAX_W).counts == {}


def test_without_a_known_limit_no_value_is_too_high():
    assert judge(with_values([3], 1e6), np.nan).counts == {}


def test_reads_that_failed_are_counted_and_are_no_objection():
    one = samples()
    code = one.code.copy()
    code[::2] = 15
    verdict = judge(replace(one, code=code), MAX_W)
    assert verdict.counts == {Mark.FAILED: 50}
    assert not verdict.objection


@pytest.mark.parametrize(("every", "is_believed"), [(7, True), (5, True), (4, False), (3, False), (1, False)])
def test_more_than_a_fifth_of_wrong_readings_is_an_objection(every, is_believed):
    verdict = judge(with_values(slice(None, None, every), 0.0), MAX_W)
    assert (verdict.objection == "") is is_believed
    if not is_believed:
        assert "more than 20% of the readings cannot be true" in verdict.objection
        assert "they go from 0 to" in verdict.objection


def test_readings_in_mw_are_an_objection_that_names_the_limit():
    objection = judge(samples(300_000.0), MAX_W).objection
    assert "above what the board can draw" in objection
    assert "(limit 700 W)" in objection


def test_failed_reads_do_not_dilute_the_wrong_ones():
    one = with_values(slice(0, 10), 0.0)
    code = one.code.copy()
    code[30:] = 3
    assert judge(replace(one, code=code), MAX_W).objection


def test_a_stamp_from_the_future_marks_itself_alone():
    stamp_s = AT_S.copy()
    stamp_s[5] += 3.0
    assert marked(judge(samples(stamp_s=stamp_s), MAX_W)) == {5: Mark.FROM_FUTURE}


def test_a_stamp_before_an_earlier_one_is_out_of_order():
    stamp_s = AT_S.copy()
    stamp_s[40] = stamp_s[10]
    assert marked(judge(samples(stamp_s=stamp_s), MAX_W)) == {40: Mark.OUT_OF_ORDER}


def test_a_clock_set_back_for_good_is_an_objection():
    stamp_s = np.where(AT_S < 1.0, AT_S, AT_S - 0.9)
    assert "stamped before an earlier one" in judge(samples(stamp_s=stamp_s), MAX_W).objection


@pytest.mark.parametrize(("back_s", "is_believed"), [(0.02, True), (0.1, False), (3.0, False)])
def test_stamps_that_are_old_when_they_are_read_are_of_a_clock_that_was_set_back(back_s, is_believed):
    one, later_ns = samples(), 10 * 10**9
    later = replace(one, begin_ns=one.begin_ns + later_ns, end_ns=one.end_ns + later_ns)
    marks = judge(replace(later, stamp_ns=one.stamp_ns + later_ns - round(back_s * 1e9)), MAX_W).counts
    assert marks == ({} if is_believed else {Mark.FROM_PAST: len(AT_S)})


def test_a_buffer_that_is_read_late_holds_old_stamps_and_a_new_one():
    one = samples()
    late = replace(
        one, begin_ns=np.full_like(one.begin_ns, 2 * 10**9), end_ns=np.full_like(one.end_ns, 2 * 10**9)
    )
    assert judge(late, MAX_W).counts == {}


def test_two_values_of_one_stamp_keep_the_first():
    stamp_s = AT_S.copy()
    stamp_s[8] = stamp_s[7]
    assert marked(judge(samples(stamp_s=stamp_s), MAX_W)) == {8: Mark.STAMP_OF_ANOTHER}


def test_a_value_polled_again_with_its_stamp_is_no_fault():
    one = samples()
    again = replace(one, value=np.repeat(one.value[::2], 2), stamp_ns=np.repeat(one.stamp_ns[::2], 2))
    assert judge(again, MAX_W).counts == {}


def test_a_counter_is_not_held_against_a_power_limit():
    counter = series(AT_S, 7e6 + 300.0 * AT_S, SourceName.COUNTER)
    assert judge(counter, MAX_W).counts == {}
    assert judge(replace(counter, value=counter.value - 8e6), MAX_W).objection


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60),
    st.lists(st.integers(-1, 10**10), min_size=1, max_size=60),
)
def test_what_is_believed_is_between_its_bounds_and_in_order(values_w, stamps_ns):
    count = min(len(values_w), len(stamps_ns))
    at_s = np.arange(count) * 0.02
    one = series(at_s, np.array(values_w[:count]), SourceName.SAMPLES)
    believed = judge(replace(one, stamp_ns=np.array(stamps_ns[:count])), MAX_W).believed
    assert ((believed.value > 0) & (believed.value <= LIMITS.power_over_limit * MAX_W)).all()
    stamps = believed.stamp_ns[believed.stamp_ns >= 0]
    assert (np.diff(stamps) >= 0).all()

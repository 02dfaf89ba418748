"""The energy counter beside a source: pooled over a run, by power and by time."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from fakes.beside import SAMPLES, recorded, square
from fakes.power import sensor, window
from fakes.power import series as power_series

from ptxbench.energy.gate.comparison import Comparison, compare
from ptxbench.energy.gate.source import judge_source
from ptxbench.sensors.base import SourceName


def trials(count=40, gain=lambda t, w: w, powers=(300.0,), length_s=0.33):
    """One stretch of each of many short kernels, from 5 ms before to 5 ms after it."""
    found = []
    for number in range(count):
        watts = powers[number % len(powers)]
        at_s = 10.0 * number

        def of_time(t, w, at_s=at_s):
            return gain(t + at_s, w)

        phase_s = 0.0025 * number
        begin_s = 0.5 + phase_s

        def power_w(t, begin_s=begin_s, watts=watts):
            return np.where((t >= begin_s) & (t < begin_s + length_s), watts, 100.0)

        source, counter = recorded(power_w, begin_s + length_s + 0.2, of_time, seed=number)
        inside = window(begin_s, begin_s + length_s)
        kept = [
            one.select((one.end_ns >= inside.start_ns) & (one.end_ns <= inside.end_ns))
            for one in (source, counter)
        ]
        (one,) = compare(*kept, SAMPLES, inside)
        found.append(
            replace(one, start_ns=one.start_ns + number * 10**10, end_ns=one.end_ns + number * 10**10)
        )
    return found


def test_energy_between_the_counters_steps_is_that_of_the_source_whatever_the_load():
    source, counter = recorded(square(period_s=0.7))
    found = compare(source, counter, SAMPLES)
    assert len(found) > 3
    for one in found:
        assert abs(one.source_j - one.counter_j) < 3 * one.error_j
        assert one.error_j < 0.05 * one.counter_j
    assert sum(one.source_j for one in found) == pytest.approx(sum(one.counter_j for one in found), rel=0.005)


def test_stretches_do_not_overlap():
    found = compare(*recorded(square()), SAMPLES)
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(found))


def test_within_a_window_nothing_of_the_time_beside_it_counts():
    source, counter = recorded(square(period_s=4.0))
    (one,) = compare(source, counter, SAMPLES, window(2.0, 3.5))
    assert one.power_w == pytest.approx(500.0, rel=0.01)


def test_a_counter_that_was_reset_or_stood_still_is_compared_on_both_sides():
    source, counter = recorded(square())
    at = len(counter) // 2
    reset = replace(
        counter, value=np.where(np.arange(len(counter)) < at, counter.value, counter.value - 1.0005e6)
    )
    # What it did not count while it stood still is lost.
    kept = np.concatenate(([0.0], np.diff(counter.value)))
    kept[at : at + 200] = 0.0
    stood = replace(counter, value=counter.value[0] + np.cumsum(kept))
    for one in (reset, stood):
        verdict = judge_source(compare(source, one, SAMPLES))
        assert verdict.ratio == pytest.approx(1.0, abs=0.01)
        assert not verdict.objection


def test_nothing_is_compared_where_the_counter_stands_still_or_either_is_missing():
    source, counter = recorded(square())
    nothing = counter.select(np.zeros(len(counter), dtype=bool))
    assert compare(source, replace(counter, value=np.full(len(counter), 5.0)), SAMPLES) == ()
    assert compare(source, nothing, SAMPLES) == ()
    assert compare(source.select(np.zeros(len(source), dtype=bool)), counter, SAMPLES) == ()
    assert compare(counter, counter, sensor(source=SourceName.COUNTER)) == ()
    verdict = judge_source(())
    assert (verdict.objection, "no energy counter" in verdict.note) == ("", True)


def test_short_trials_pooled_tell_what_none_of_them_does_alone():
    found = trials()
    assert min(one.error_j / one.counter_j for one in found) > 0.02
    verdict = judge_source(found)
    assert abs(verdict.ratio - 1) < 3 * verdict.error
    assert verdict.error < 0.01
    assert (verdict.objection, verdict.note, verdict.scale_uncertainty) == ("", "", 0.0)


@pytest.mark.parametrize("factor", [0.6, 0.95, 1.05, 1.3])
def test_a_wrong_gain_is_an_objection(factor):
    verdict = judge_source(trials(gain=lambda t, w: factor * w))
    assert verdict.ratio == pytest.approx(factor, abs=0.01)
    assert f"it differs from the energy counter by {100 * (factor - 1):+.0f}." in verdict.objection
    assert "one of the two is wrong" in verdict.objection


@pytest.mark.parametrize("factor", [0.985, 1.015])
def test_a_small_difference_widens_the_scale_and_is_said_unless_doctor_knows_it(factor):
    found = trials(count=120, gain=lambda t, w: factor * w)
    verdict = judge_source(found)
    assert not verdict.objection
    assert verdict.scale_uncertainty == pytest.approx(abs(factor - 1), abs=0.01)
    assert "it differs from the energy counter by" in verdict.note
    known = judge_source(found, known_difference=0.03)
    assert (known.note, known.scale_uncertainty) == ("", 0.03)


def test_what_is_compressed_at_the_top_alone_is_found_there():
    def compressed(_, w):
        return np.where(w > 400, 400 + 0.6 * (w - 400), w)

    found = trials(80, compressed, powers=(150.0, 250.0, 350.0, 550.0))
    assert abs(judge_source(found).ratio - 1) < 0.06
    assert "W: one of the two is wrong" in judge_source(found).objection


def test_further_watts_that_hardly_show_are_found_though_all_powers_agree_within_3_percent():
    # Above 432 W a fifth of what is added shows: 18 W too little at 455 W.
    powers = (120.0, 400.0, 425.0, 440.0, 455.0)
    found = trials(600, lambda _, w: np.where(w > 432, 432 + 0.2 * (w - 432), w), powers)
    verdict = judge_source(found)
    assert abs(verdict.ratio - 1) < 0.03
    assert "in each further watt from" in verdict.objection


def test_powers_that_are_alike_say_nothing_of_a_further_watt():
    # Errors of 5% each, and powers that differ in the last digits.
    rng = np.random.default_rng(5)
    found = [
        Comparison(n * 10**9, (n + 1) * 10**9, 300.0 * (1 + 0.05 * rng.normal()), 300.0 + 1e-12 * n, 15.0)
        for n in range(200)
    ]
    for number in (1, 2, 3, 5, 8, 200):
        assert not judge_source(found[:number]).objection
    # One stretch of two alone.
    apart = [Comparison(0, 10**9, 120.1, 120.3, 1.0), Comparison(10**9, 2 * 10**9, 473.0, 473.2, 2.0)]
    assert not judge_source(apart).objection


def test_a_gain_that_steps_or_drifts_is_found_where_it_is_wrong():
    powers = (150.0, 250.0, 350.0, 550.0)
    step = trials(80, lambda t, w: np.where(t > 600, 0.9, 1.0) * w, powers)
    assert "s of the run: one of the two is wrong" in judge_source(step).objection
    drift = trials(80, lambda t, w: (0.93 + 0.14 * t / 800) * w, powers)
    assert abs(judge_source(drift).ratio - 1) < 0.01
    assert "s of the run: one of the two is wrong" in judge_source(drift).objection


def test_stretches_that_contradict_each_other_are_an_objection_though_right_on_average():
    found = trials(gain=lambda t, w: np.where(np.floor(t / 10) % 2 == 0, 1.3, 0.7) * w)
    assert "stretches it differs from the energy counter by more than 15%" in judge_source(found).objection


def test_a_comparison_too_weak_to_confirm_the_scale_says_so_and_widens_it():
    found = [Comparison(0, 10**9, 300.0, 330.0, 18.0)]
    verdict = judge_source(found)
    assert not verdict.objection
    assert "the energy counter tells the scale of its power to 12% only" in verdict.note
    assert verdict.scale_uncertainty == pytest.approx(0.1 + 1.96 * 0.06)
    assert judge_source([Comparison(0, 10**9, 300.0, 390.0, 18.0)]).objection


def stretch(start_s, counter_w, source_w, error_w=0.5):
    return Comparison(round(start_s * 1e9), round((start_s + 1) * 1e9), counter_w, source_w, error_w)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_a_run_of_even_power_says_nothing_of_a_further_watt(count):
    rng = np.random.default_rng(count)
    for _ in range(200):
        watts = 124.0 + 0.05 * rng.normal(size=count)
        said = judge_source([stretch(i, w + rng.normal(0, 0.3), w) for i, w in enumerate(watts)])
        assert not said.objection


def test_a_source_that_sees_a_part_of_the_time_is_not_known_better_where_it_missed_the_bursts():
    # Bursts that a look of 25 ms of each 100 ms may miss altogether.
    rng = np.random.default_rng(1)
    edges_s = np.cumsum(rng.uniform(0.005, 0.05, 800))

    def bursts(t):
        return np.where(np.searchsorted(edges_s, t) % 2 == 0, 100.0, 400.0)

    instant = sensor(refresh_s=0.1, averaging_s=0.025, lag_s=0.004, source=SourceName.INSTANT)
    grid_s = np.arange(0.0, 16.0, 0.001)
    _, counter = recorded(bursts, end_s=16.0)
    made_s = np.floor(grid_s / 0.1) * 0.1 - 0.004
    seen_w = np.array([bursts(at - np.arange(0, 0.025, 0.001)).mean() for at in np.unique(made_s)])
    value_w = (seen_w + 0.01 * rng.random(len(seen_w)))[np.searchsorted(np.unique(made_s), made_s)]
    polled = power_series(grid_s[::5], value_w[::5], SourceName.INSTANT)
    found = compare(polled, counter, instant)
    errors = [one.error_j / one.counter_j for one in found]
    assert min(errors) > 0.3 * max(errors)
    assert not judge_source(found).objection

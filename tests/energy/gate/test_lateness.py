"""A source whose values come late is seen wherever the load changes."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.beside import SAMPLES, recorded, square
from fakes.power import window

from ptxbench.energy.gate.lateness import shift_at_windows, shift_beside_counter


def pulses(*windows):
    def power_w(t):
        return 100.0 + sum(np.where((t >= a) & (t < b), w, 0.0) for a, b, w in windows)

    return power_w


THREE = ((1.0, 1.4, 300.0), (2.1, 2.5, 450.0), (3.3, 3.7, 200.0))


@pytest.mark.parametrize("late_s", [0.1, 0.2, 0.5, 1.0, 2.0])
def test_values_that_come_late_are_an_objection_with_and_without_a_counter(late_s):
    source, counter = recorded(pulses(*THREE), end_s=8.0, late_s=late_s)
    windows = [window(a, b) for a, b, _ in THREE]
    for found in (shift_beside_counter(source, counter, SAMPLES), shift_at_windows(source, windows, SAMPLES)):
        assert found.best_s == pytest.approx(late_s, abs=0.03)
        assert f"values come {found.best_s:.2g} s late" in found.objection


def test_values_in_time_are_no_objection():
    source, counter = recorded(pulses(*THREE))
    windows = [window(a, b) for a, b, _ in THREE]
    for found in (shift_beside_counter(source, counter, SAMPLES), shift_at_windows(source, windows, SAMPLES)):
        assert found.best_s == pytest.approx(0.0, abs=0.03)
        assert not found.objection


def averaged(power_w, late_s=0.0, end_s=12.0):
    """A source that is the mean of a second, and the counter."""
    grid_s = np.arange(0.0, end_s, 0.001)
    mean_w = np.convolve(power_w(grid_s), np.ones(1000) / 1000)[: len(grid_s)]
    source, counter = recorded(power_w, end_s=end_s)
    made_s = source.stamp_ns / 1e9 - SAMPLES.lag_s - late_s
    return replace(source, value=np.interp(made_s, grid_s, mean_w)).select(made_s > 1.0), counter


SLOW = replace(SAMPLES, averaging_s=1.0)


def test_a_source_that_averages_is_not_late_for_that():
    source, counter = averaged(square(period_s=5.0))
    assert not shift_beside_counter(source, counter, SLOW).objection
    assert shift_beside_counter(source, counter, replace(SLOW, averaging_s=0.0)).objection


def test_a_source_that_averages_is_seen_to_be_late_by_less_than_its_mean():
    source, counter = averaged(pulses((2.0, 2.3, 300.0), (4.1, 4.5, 450.0), (6.3, 6.7, 200.0)), late_s=0.1)
    assert shift_beside_counter(source, counter, SLOW).best_s == pytest.approx(0.1, abs=0.03)
    assert shift_beside_counter(source, counter, SLOW).objection


def test_a_kernel_whose_own_power_rises_by_a_tenth_is_not_late():
    def power_w(t):
        return np.where(t < 1.0, 182.0, np.where(t < 1.1, 183.0, 201.0))

    source, _ = recorded(power_w, end_s=1.4)
    of_kernel = source.select(source.stamp_ns >= 10**9)
    assert shift_at_windows(of_kernel, [window(1.0, 1.35)], SAMPLES) is None


def test_a_periodic_load_tells_no_shift_by_its_period_from_none():
    source, counter = recorded(square(period_s=0.5))
    found = shift_beside_counter(source, counter, SAMPLES)
    assert not found.objection


def test_even_power_and_windows_without_effect_tell_nothing():
    source, counter = recorded(lambda t: np.full_like(t, 300.0))
    assert shift_beside_counter(source, counter, SAMPLES) is None
    assert shift_at_windows(source, [window(2.0, 3.0)], SAMPLES) is None
    assert shift_at_windows(source, [], SAMPLES) is None

"""A source whose values come late is seen wherever the load changes."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.beside import SAMPLES, recorded, square
from fakes.power import sensor, window

from ptxbench.energy.gate.lateness import shift_at_windows, shift_beside_counter
from ptxbench.sensors.base import SourceName


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


def test_a_source_that_averages_is_not_late_for_that():
    slow = sensor(refresh_s=0.02, averaging_s=1.0, source=SourceName.SAMPLES)
    grid_s = np.arange(0.0, 12.0, 0.001)
    power_w = square(period_s=5.0)
    mean_w = np.convolve(power_w(grid_s), np.ones(1000) / 1000)[: len(grid_s)]
    source, counter = recorded(power_w, end_s=12.0)
    source = replace(source, value=np.interp(source.stamp_ns / 1e9, grid_s, mean_w)).select(
        source.stamp_ns > 10**9
    )
    assert not shift_beside_counter(source, counter, slow).objection
    assert shift_beside_counter(source, counter, replace(slow, averaging_s=0.0)).objection


def test_a_periodic_load_tells_no_shift_by_its_period_from_none():
    source, counter = recorded(square(period_s=0.5))
    found = shift_beside_counter(source, counter, SAMPLES)
    assert not found.objection


def test_even_power_and_windows_without_effect_tell_nothing():
    source, counter = recorded(lambda t: np.full_like(t, 300.0))
    assert shift_beside_counter(source, counter, SAMPLES) is None
    assert shift_at_windows(source, [window(2.0, 3.0)], SAMPLES) is None
    assert shift_at_windows(source, [], SAMPLES) is None

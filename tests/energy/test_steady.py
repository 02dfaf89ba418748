"""Steady power of a kernel: does it change within the kernel, and how well does the counter know it?"""

import math
from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor, series, window

from ptxbench.core.status import Status
from ptxbench.energy.steady import power_between_edges, power_change, steady_power_w, stepped_back
from ptxbench.sensors.base import SourceName


def each_refresh(values_w):
    """Readings of a kernel that begins at 1 s: one every 0.1 s, the first of them 0.1 s after its begin."""
    time_s = 1.1 + 0.1 * np.arange(len(values_w))
    return series(time_s, values_w), window(1.0, float(time_s[-1]) + 0.05)


def change(values_w, quantum=1e-3):
    readings, when = each_refresh(values_w)
    return power_change(readings, when, sensor(refresh_s=0.0, quantum=quantum))


def alternating(early_w, late_w):
    """Fifty readings of each power, 1 W above and 1 W below it in turn: sqrt(2) W of noise by neighbours."""
    return np.repeat([early_w, late_w], 50) + np.tile([1.0, -1.0], 50)


def test_the_later_half_of_a_kernel_is_compared_with_the_earlier_one():
    assert change([400] * 10 + [380] * 10) == pytest.approx(-0.05)
    # The reading in the middle is of neither half.
    assert change([400] * 10 + [390] + [380] * 10) == pytest.approx(-0.05)
    assert change([400]) == 0.0


def test_what_three_standard_errors_of_the_noise_explain_is_no_change():
    limit_w = 3 * math.sqrt(2) * math.sqrt(2 / 50)
    assert change(alternating(400, 400 + 0.95 * limit_w)) == 0.0
    assert change(alternating(400, 400 + 1.05 * limit_w)) == pytest.approx(1.05 * limit_w / 400)
    assert change(alternating(400, 400 - 1.05 * limit_w)) == pytest.approx(-1.05 * limit_w / 400)


def test_one_step_of_a_coarse_source_is_no_change_and_two_are():
    assert change([400] * 20 + [410] * 20, quantum=10) == 0.0
    assert change([400] * 20 + [420] * 20, quantum=10) == pytest.approx(0.05)


def counter(power_w, poll_s, phase_s, quantum_j=1e-3):
    """A counter that counts up every 0.1 s and is read every `poll_s`."""
    time_s = np.arange(0.0, 4.0, poll_s)
    made_s = np.floor((time_s - phase_s) / 0.1) * 0.1 + phase_s
    return series(time_s, np.floor(power_w * made_s / quantum_j) * quantum_j, SourceName.COUNTER)


@pytest.mark.parametrize(
    ("poll_s", "quantum_j"), [(0.03, 1e-3), (0.001, 20.0)], ids=["rare polls", "coarse counter"]
)
def test_the_counters_standard_error_is_the_scatter_of_its_power(poll_s, quantum_j):
    found = [
        power_between_edges(counter(power_w, poll_s, phase_s, quantum_j), 10**9, 3 * 10**9, quantum_j)
        for power_w in np.linspace(390, 410, 11)
        for phase_s in np.linspace(0.0, 0.1, 20)
    ]
    truths_w = np.repeat(np.linspace(390, 410, 11), 20)
    assert all(one.status is Status.OK for one in found)
    scatter_w = np.sqrt(
        np.mean([(one.power_w - true_w) ** 2 for one, true_w in zip(found, truths_w, strict=True)])
    )
    stated_w = np.sqrt(np.mean([one.standard_error_w**2 for one in found]))
    assert scatter_w == pytest.approx(stated_w, rel=0.3)


def test_two_steps_of_the_counter_give_a_power_and_one_does_not():
    time_s = np.arange(0.0, 2.0, 0.01)
    readings = series(time_s, 40.0 * np.floor(time_s / 0.1 + 0.5), SourceName.COUNTER)
    two = power_between_edges(readings, 1_000_000_000, 1_200_000_000, 1e-3)
    assert (two.status, two.readings) == (Status.OK, 2)
    assert two.power_w == pytest.approx(400.0)
    one = power_between_edges(readings, 1_000_000_000, 1_100_000_000, 1e-3)
    assert (one.status, one.readings) == (Status.WINDOW_TOO_SHORT, 1)
    assert "1 steps of the energy counter lie in the settled window, 2 needed" in one.reason


def test_the_counter_is_read_behind_the_gpus_regulation():
    time_s = np.arange(0.0, 5.0, 0.001)
    power_w = np.where(time_s < 1.0, 80.0, np.where(time_s < 2.0, 350.0, 400.0))
    made = np.cumsum(power_w * 0.001)[(np.floor(time_s / 0.02) * 20).astype(int)]
    readings = series(time_s, made, SourceName.COUNTER)
    known = sensor(refresh_s=0.02, source=SourceName.COUNTER)
    regulated = replace(known, regulation_s=1.0)
    assert steady_power_w(readings, window(1.0, 5.0), regulated).power_w == pytest.approx(400.0, rel=1e-3)
    assert steady_power_w(readings, window(1.0, 5.0), known).power_w < 390.0


def test_the_reason_says_from_where_to_where_the_counter_fell_first():
    readings = series(range(6), [10.0, 50.0, 20.0, 30.0, 5.0, 6.0], SourceName.COUNTER)
    assert "fell from 50 J to 20 J" in stepped_back(readings)
    assert stepped_back(series(range(3), [10.0, 10.0, 20.0], SourceName.COUNTER)) == ""


def test_the_reason_says_by_how_much_the_time_stamps_jumped_back():
    back = series(range(4), [1.0] * 4, SourceName.SAMPLES, stamp_s=[1.0, 4.0, 3.5, 1.5])
    assert "jumped back by 2 s" in stepped_back(back)
    level = series(range(4), [1.0] * 4, SourceName.SAMPLES, stamp_s=[1.0, 2.0, 2.0, 3.0])
    assert stepped_back(level) == ""


def test_power_that_falls_is_no_step_back():
    assert stepped_back(series(range(3), [400.0, 100.0, 50.0])) == ""


def in_phases(powers_w, phase_s, periods, error_w=0.0):
    """Readings every 20 ms of a kernel that draws each power for `phase_s` in turn, from 1 s on."""
    time_s = np.arange(0.51, 1 + periods * len(powers_w) * phase_s, 0.02)
    phase = np.floor((time_s - 1) / phase_s).astype(int)
    value_w = np.where(time_s < 1, 100.0, np.asarray(powers_w)[phase % len(powers_w)])
    value_w = value_w + error_w * (phase // len(powers_w))
    return series(time_s, value_w), window(1.0, 1 + periods * len(powers_w) * phase_s)


@pytest.mark.parametrize("periods", [2.0, 2.6, 5.0, 5.4])
def test_of_power_in_phases_whole_launches_count(periods):
    readings, when = in_phases((200, 500, 350), 0.11, periods)
    found = steady_power_w(readings, when, sensor(refresh_s=0.02), period_s=0.33)
    assert found.power_w == pytest.approx(350, rel=0.025)
    assert abs(found.power_w - 350) <= 2 * found.standard_error_w < 0.05 * 350


def test_no_whole_launch_gives_no_power():
    readings, when = in_phases((200, 500, 350), 0.11, 0.9)
    found = steady_power_w(readings, when, sensor(refresh_s=0.02), period_s=0.33)
    assert found.status is Status.WINDOW_TOO_SHORT
    assert "no whole launch of 0.33 s" in found.reason


@pytest.mark.parametrize("rise_w", [0.0, 10.0])
def test_of_power_in_phases_launches_are_compared_not_phases(rise_w):
    readings, when = in_phases((200, 500, 350), 0.11, 8, rise_w)
    rose = power_change(readings, when, sensor(refresh_s=0.02), period_s=0.33)
    assert rose == pytest.approx(4 * rise_w / (350 + 2.5 * rise_w), abs=0.01)

"""Power that leaves its level within a kernel is read behind that, and any other as before."""

from dataclasses import replace

import numpy as np
import pytest
from fakes.power import sensor, series, window
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.energy.excursion import behind_excursion, find_excursion
from ptxbench.energy.steady import steady_power_w

SAMPLES = replace(sensor(refresh_s=0.02, averaging_s=0.06), regulation_s=0.2, excursion=0.013)


def read(*pieces):
    """A kernel of 0.34 s from 1 s on, read as the mean of the last 60 ms: (until, power) since the launch."""
    time_s = np.arange(0.5, 1.34, 0.02)
    ends_s, powers_w = zip(*pieces, strict=True)

    def at(t):
        return 100.0 if t < 0 else powers_w[int(np.searchsorted(ends_s, t, side="right"))]

    return series(time_s, [np.mean([at(t - 1 - back) for back in np.linspace(0, 0.06, 61)]) for t in time_s])


def power_w(readings, **change):
    return steady_power_w(readings, window(1, 1.34), replace(SAMPLES, **change)).power_w


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(((0.11, 445), (0.20, 455), (9, 450)), id="low, high, level"),
        pytest.param(((0.15, 442), (9, 450)), id="low, level"),
    ],
)
def test_power_is_read_behind_an_excursion(pieces):
    readings = read(*pieces)
    # The first reading behind it may hold a sixth of the step.
    assert power_w(readings) == pytest.approx(450.0, abs=0.25)
    assert abs(power_w(readings, excursion=0.0) - 450.0) > 3 * abs(power_w(readings) - 450.0)


def test_a_rise_that_was_over_before_the_regulation_changes_nothing():
    readings = read((0.09, 440), (9, 450))
    assert power_w(readings) == power_w(readings, excursion=0.0) == pytest.approx(450.0)


def test_what_has_no_readings_behind_it_is_left_as_it_is():
    readings = read((0.29, 445), (9, 455))
    assert power_w(readings) == power_w(readings, excursion=0.0)


@pytest.mark.parametrize("low_until_s", np.arange(0.1, 0.34, 0.01))
def test_two_readings_at_least_are_left(low_until_s):
    told = steady_power_w(read((low_until_s, 445), (9, 455)), window(1, 1.34), SAMPLES)
    assert told.readings >= 2


def test_a_trial_that_ends_high_is_high_and_no_mixture():
    readings = read((0.2, 445), (9, 455))
    assert power_w(readings) == pytest.approx(455.0, abs=0.5)


def test_what_changes_later_in_a_long_kernel_is_part_of_its_power():
    time_s = np.arange(0.5, 5, 0.02)
    readings = series(time_s, np.where(time_s < 1, 100.0, np.where(time_s < 4, 440.0, 450.0)))
    told_w = steady_power_w(readings, window(1, 5), SAMPLES).power_w
    assert told_w == pytest.approx(440 + 10 / 3.8, abs=0.1)


def test_a_fall_alone_is_no_excursion():
    readings = read((0.2, 455), (9, 450))
    assert power_w(readings) == power_w(readings, excursion=0.0)


@given(st.lists(st.floats(447.1, 452.9), min_size=5, max_size=20), st.integers(0, 4))
def test_readings_that_scatter_less_than_the_rise_looked_for_all_count(course_w, before):
    course = np.array(course_w)
    assert len(behind_excursion(course, course[before:], SAMPLES)) == len(course) - before


@given(st.lists(st.floats(100, 700), min_size=4, max_size=30))
def test_a_fall_is_looked_for_behind_the_rise(course_w):
    course = np.array(course_w)
    found = find_excursion(course, 3, 30)
    change = (course[3:] - course[:-3]) / course.mean()
    assert found.rise == pytest.approx(change.max())
    assert found.fall_at >= found.rise_at
    assert -found.fall <= change[found.rise_at :].min() + 1e-12

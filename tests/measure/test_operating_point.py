import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.measure.operating_point import full_clock_mhz, same_operating_point

FULL = 1980.0


def chosen(clocks_mhz, energies):
    selection = same_operating_point(clocks_mhz, energies, FULL)
    assert len(selection.kept) - np.sum(selection.kept) == selection.at_lower_clock + selection.in_lower_state
    return [e for e, kept in zip(energies, selection.kept, strict=True) if kept]


def at_full_clock(*energies):
    return chosen([FULL] * len(energies), list(energies))


def test_a_window_in_which_the_clock_dipped_does_not_count():
    assert chosen([1980.0, 1979.2, 1979.998], [10.0, 9.87, 10.01]) == [10.0, 10.01]


def test_a_kernel_that_never_keeps_the_full_clock_is_the_mean_of_all():
    assert chosen([1979.1, 1978.7, 1980.0], [10.0, 9.9, 10.1]) == [10.0, 9.9, 10.1]
    assert chosen([1700.0, 1710.0], [10.0, 9.9]) == [10.0, 9.9]


def test_an_unknown_clock_is_no_dip():
    assert chosen([math.nan, math.nan], [10.0, 10.1]) == [10.0, 10.1]


@pytest.mark.parametrize("lower", [(9.83,), (9.83, 9.84), (9.83, 9.68), (9.67, 9.67, 9.66)])
def test_trials_a_step_of_the_supply_below_do_not_count(lower):
    assert at_full_clock(10.0, *lower, 10.01) == [10.0, 10.01]


@pytest.mark.parametrize(
    ("energies", "why"),
    [
        ((10.0, 9.83), "which of the two is the state cannot be told"),
        ((10.0, 9.83, 9.82), "one trial alone is no state"),
        ((10.0, 9.99, 9.2), "a gap of 8% is no step of the supply"),
        ((10.0, 9.95, 9.84), "the gap is no wider than what trials scatter by"),
        ((10.0, 9.96, 9.93, 9.88), "there is no gap"),
    ],
)
def test_everything_counts_where_no_step_can_be_told(energies, why):
    assert at_full_clock(*energies) == list(energies), why


def test_the_full_clock_is_what_the_fastest_keep_to():
    clocks = [1979.997] * 20 + [1979.2] * 30 + [1700.0] * 5 + [1980.9, math.nan]
    assert full_clock_mhz(clocks) == 1979.997
    assert math.isnan(full_clock_mhz([math.nan]))
    assert math.isnan(full_clock_mhz([]))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([FULL, 1979.1, 1500.0, math.nan]),
            st.floats(1.0, 100.0) | st.sampled_from([10.0, 9.83, 9.67, math.nan]),
        ),
        max_size=12,
    )
)
def test_at_least_two_trials_count_and_the_highest_at_its_clock_does(trials):
    clocks_mhz, energies = [c for c, _ in trials], [e for _, e in trials]
    kept = same_operating_point(clocks_mhz, energies, FULL).kept
    assert np.sum(kept) >= min(2, len(trials))
    steady = [e for c, e in trials if not c < FULL - 0.1 and not math.isnan(e)]
    if len(steady) >= 2:
        among = [e for e, k in zip(energies, kept, strict=True) if k]
        assert max(steady) in among

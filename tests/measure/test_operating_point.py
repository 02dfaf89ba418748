import math

import numpy as np
import pytest
from fakes.measuring import trial
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.gpu.protocol import OptLevel
from ptxbench.measure.operating_point import cold_trials, full_clock_mhz, same_operating_point
from ptxbench.store.schema import Protocol, Role

FULL = 1980.0


def trials(*clocks_mhz, **change):
    return [trial(Role.TARGET, n, sm_clock_mhz=mhz, **change) for n, mhz in enumerate(clocks_mhz)]


def kept(records, cold=()):
    selection = same_operating_point(records, {records[n].trial_id for n in cold}, FULL)
    left_out = np.sum(~selection.kept)
    assert left_out == selection.on_cold_silicon + selection.at_lower_clock
    return list(np.flatnonzero(selection.kept))


def test_a_window_in_which_the_clock_dipped_does_not_count():
    assert kept(trials(1980.0, 1979.2, 1979.998)) == [0, 2]


@pytest.mark.parametrize("clocks_mhz", [(1979.1, 1978.7, 1980.0), (1700.0, 1710.0)])
def test_a_kernel_that_never_keeps_the_full_clock_is_the_mean_of_all(clocks_mhz):
    assert kept(trials(*clocks_mhz)) == list(range(len(clocks_mhz)))


def test_an_unknown_clock_is_no_dip():
    assert kept(trials(math.nan, 1980.0)) == [0, 1]


def test_a_trial_behind_a_colder_kernel_does_not_count_where_others_are_warm():
    assert kept(trials(FULL, FULL, FULL), cold=[0]) == [1, 2]
    assert kept(trials(FULL, FULL, FULL), cold=[0, 1]) == [0, 1, 2]
    # Warm comes first: what the clock alone would choose is cold.
    assert kept(trials(FULL, FULL, 1979.0, 1979.1), cold=[0, 1]) == [2, 3]


def test_the_full_clock_is_what_the_fastest_keep_to():
    clocks = [1979.997] * 20 + [1979.2] * 30 + [1700.0] * 5 + [1980.9, math.nan]
    assert full_clock_mhz(clocks) == 1979.997
    assert math.isnan(full_clock_mhz([math.nan]))
    assert math.isnan(full_clock_mhz([]))


def run_of(*powers_w, pause_s=0.005, **change):
    """Trials one after the other, a second each, of kernels of so much power."""
    return [
        trial(
            Role.TARGET,
            n,
            order=n,
            steady_power_w=power_w,
            start_ns=round(n * (1 + pause_s) * 1e9),
            end_ns=round((n * (1 + pause_s) + 1) * 1e9),
            **({"opt_level": OptLevel.O3} | change),
        )
        for n, power_w in enumerate(powers_w)
    ]


def cold_numbers(records):
    found = cold_trials(records)
    return [n for n, record in enumerate(records) if record.trial_id in found]


def test_a_trial_is_cold_where_the_kernel_before_drew_less():
    records = run_of(300.0, 400.0, 405.0, 390.0, 250.0, 300.0)
    assert cold_numbers(records) == [1, 5]
    # However the trials are handed over, their order in the run counts.
    assert cold_trials(reversed(records)) == cold_trials(records)


def test_after_a_pause_for_a_warm_up_a_trial_is_warm():
    assert cold_numbers(run_of(300.0, 400.0, pause_s=1.0)) == []


def test_a_run_that_went_on_in_another_process_was_warmed():
    first, second = run_of(300.0, 400.0)
    elsewhere = [first, trial(Role.TARGET, 1, order=1, steady_power_w=400.0, start_ns=5, end_ns=6)]
    assert cold_trials(elsewhere) == frozenset()
    assert cold_trials([first, second]) == {second.trial_id}


@pytest.mark.parametrize("change", [{"opt_level": OptLevel.O0}, {"protocol": Protocol.ARAFA}])
def test_kernels_that_draw_little_are_never_cold(change):
    assert cold_numbers(run_of(130.0, 180.0, **change)) == []


def test_a_power_that_is_not_known_tells_nothing():
    assert cold_numbers(run_of(math.nan, 400.0, math.nan)) == []


@given(
    st.lists(
        st.tuples(st.sampled_from([FULL, 1979.1, 1500.0, math.nan]), st.booleans()), min_size=1, max_size=12
    )
)
def test_at_least_two_trials_count(drawn):
    records = trials(*(mhz for mhz, _ in drawn))
    chosen = kept(records, cold=[n for n, (_, is_cold) in enumerate(drawn) if is_cold])
    assert len(chosen) >= min(2, len(drawn))

import math

import numpy as np
from fakes.measuring import trial
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.analysis.operating_point import (
    clock_faults,
    dipped_trials,
    full_clock_mhz,
    kernel_of,
    limited_trials,
    same_operating_point,
    stated_clocks,
)
from ptxbench.core.condition import OptLevel
from ptxbench.storage.schema import Role

FULL = 1980.0


def trials(*clocks_mhz, role=Role.TARGET, **change):
    return [trial(role, n, sm_clock_mhz=mhz, **change) for n, mhz in enumerate(clocks_mhz)]


def numbers(records, ids):
    return [n for n, record in enumerate(records) if record.trial_id in ids]


def chosen(records, unsure=()):
    return same_operating_point(records, {records[n].trial_id for n in unsure})


def test_a_trial_within_which_the_clock_dipped_is_found():
    records = trials(1980.0, 1978.9, 1979.9, 1979.7)
    assert numbers(records, dipped_trials(records)) == [1]


def test_at_o0_a_kernel_is_held_against_its_own_clock_and_not_the_others():
    quick = trials(*[1980.0] * 20)
    slow = trials(1979.1, 1979.0, 1977.9, role=Role.OVERHEAD, opt_level=OptLevel.O0)
    records = quick + slow
    assert numbers(records, dipped_trials(records)) == [22]


def test_at_o3_a_kernel_that_is_slower_in_all_its_trials_dipped_in_all():
    quick = trials(*[1980.0] * 20)
    slow = trials(1978.5, 1978.4, 1978.4, role=Role.OVERHEAD, opt_level=OptLevel.O3)
    records = quick + slow
    assert numbers(records, dipped_trials(records)) == [20, 21, 22]


def test_a_clock_over_the_full_one_is_an_error_of_the_timer():
    records = [*trials(*[1980.0] * 30), *trials(1981.7, 1979.9, 1979.9, role=Role.OVERHEAD)]
    assert dipped_trials(records) == frozenset()


def test_at_the_power_limit_no_clock_is_a_dip():
    limited = trials(1700.0, 1690.0, role=Role.OVERHEAD)
    records = trials(*[FULL] * 20) + limited
    assert limited_trials(records, 1.0) == {r.trial_id for r in limited}
    assert limited_trials(records, math.nan) == {r.trial_id for r in limited}
    assert dipped_trials(records) == frozenset()


def test_a_kernel_far_from_the_power_limit_has_a_clock_of_its_own_by_itself():
    tensor = trials(1755.0, 1755.0, role=Role.OVERHEAD, steady_power_w=300.0)
    assert limited_trials([*trials(*[FULL] * 20), *tensor], 700.0) == frozenset()


def test_energy_is_stated_at_the_full_clock_unless_the_kernel_has_its_own():
    records = [*trials(1980.0, 1995.0, 1982.5, 1979.5, 1965.0), *trials(1755.0, 1760.0, role=Role.OVERHEAD)]
    assert stated_clocks(records, FULL) == {records[n].trial_id: FULL for n in (1, 2, 4)}


def test_the_full_clock_of_a_board_that_never_reaches_its_highest_is_its_own():
    records = trials(*[1500.0] * 19, 1515.0)
    assert stated_clocks(records, FULL) == {records[-1].trial_id: 1500.0}
    assert stated_clocks(records, math.nan) == {records[-1].trial_id: 1500.0}


def test_an_unknown_clock_is_no_dip():
    records = trials(math.nan, 1980.0, math.nan)
    assert dipped_trials(records) == limited_trials(records, math.nan) == frozenset()
    assert dipped_trials(trials(math.nan)) == frozenset()


def test_the_sleeping_kernel_never_dips():
    assert dipped_trials(trials(FULL, 1970.0, role=Role.STATIC)) == frozenset()


def test_the_full_clock_is_what_the_fastest_keep_to():
    clocks = [1979.997] * 20 + [1979.2] * 30 + [1700.0] * 5 + [1980.9, math.nan]
    assert full_clock_mhz(trials(*clocks)) == 1979.997
    assert math.isnan(full_clock_mhz(trials(math.nan)))
    assert math.isnan(full_clock_mhz([]))


def test_another_board_or_launch_shape_is_another_kernel():
    one = trial(Role.TARGET)
    others = [trial(Role.TARGET, gpu="other"), trial(Role.TARGET, grid=99), trial(Role.OVERHEAD)]
    assert kernel_of(one) == kernel_of(trial(Role.TARGET, 7))
    assert kernel_of(one) not in {kernel_of(other) for other in others}


def test_what_is_not_sure_does_not_count():
    selection = chosen(trials(*[FULL] * 5), unsure=[1, 0])
    assert list(np.flatnonzero(selection.kept)) == [2, 3, 4]
    assert not selection.mixed


def test_a_kernel_of_which_one_trial_is_sure_is_the_mean_of_what_there_is():
    selection = chosen(trials(FULL, FULL, FULL), unsure=[1, 2])
    assert selection.kept.all()
    assert selection.mixed


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_at_least_two_trials_count(drawn):
    selection = chosen(trials(*[FULL] * len(drawn)), np.flatnonzero(drawn))
    assert np.count_nonzero(selection.kept) >= min(2, len(drawn))


def test_a_trial_one_step_of_the_clock_below_its_kernels_others_is_a_fault():
    records = trials(*[FULL] * 20, 1965.0, 1974.0)
    assert numbers(records, clock_faults(records)) == [20]


def test_where_most_trials_are_a_step_below_those_above_are_the_faults():
    records = trials(*[1965.0] * 30, FULL)
    assert numbers(records, clock_faults(records)) == [30]


def test_at_the_power_limit_no_clock_is_a_fault():
    limited = trials(1700.0, 1690.0, role=Role.OVERHEAD)
    assert clock_faults(trials(*[FULL] * 20) + limited) == {}


def test_a_clock_that_is_not_known_is_no_fault():
    assert clock_faults(trials(*[math.nan] * 3)) == {}


def test_a_kernel_that_was_always_above_the_full_clock_has_its_own():
    # As one H100 board ran at times, whose highest clock is 1980 MHz by NVML.
    records = [*trials(*[FULL] * 30), *trials(1995.0, 2003.9, 2003.5, role=Role.OVERHEAD)]
    assert numbers(records, clock_faults(records)) == [30]

"""What the trials of one subject say of themselves."""

import math
from dataclasses import replace

import pytest
from fakes.measuring import subject, trial

from ptxbench.analysis.subject import (
    most_common_fault,
    nan_mean,
    trial_faults,
)
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role

SHORT = (Status.WINDOW_TOO_SHORT, "short")
HOT = (Status.THROTTLED, "hot")


def test_a_row_without_numbers_names_its_sass_and_counts_nothing():
    measured = subject()
    row = measured.row(*HOT)
    assert (row.instruction, row.operands, row.status, row.reason) == ("fma.rn.f32", "random", *HOT)
    assert (row.sass, row.sass_per_ptx) == ("FFMA", 1.0)
    assert (row.executions, row.threads, row.repeats) == (0, 0, 0)
    assert (replace(measured, loop_check=None).row(*HOT).sass) == ""


def test_a_trial_s_own_fault_comes_first_then_its_clock_then_what_others_say():
    clocks = {1: 1980.0, 5: 1980.0, 2: 1980.0 * 1.0101, 0: 1980.0 * 0.9899, 4: 1980.0 * 1.0099, 3: math.nan}
    trials = [trial(Role.TARGET, n, sm_clock_mhz=mhz) for n, mhz in clocks.items()]
    trials += [trial(Role.TARGET, 6, sm_clock_mhz=900.0, status=SHORT[0], reason=SHORT[1])]
    # A calibration at another clock is no trial that is judged, and none that judges.
    trials += [trial(Role.TARGET, -1 - n, sm_clock_mhz=900.0) for n in range(9)]
    found = trial_faults(trials, {t.trial_id: HOT for t in (trials[0], trials[2])})
    repeats = {int(name.rpartition("/")[2]): fault for name, fault in found.items()}
    assert set(repeats) == {0, 1, 2, 6}
    assert (repeats[1], repeats[6]) == (HOT, SHORT)
    assert repeats[2] == (
        Status.CLOCK_DRIFT,
        "the SM clock was 2000 MHz where the unit's median is 1980",
    )
    assert repeats[0][0] is Status.CLOCK_DRIFT


def test_trials_of_no_known_clock_are_not_judged_by_it():
    assert trial_faults([trial(Role.TARGET, n, sm_clock_mhz=math.nan) for n in range(3)], {}) == {}


def test_the_fault_of_most_trials_is_named():
    assert most_common_fault({"a": SHORT, "b": HOT, "c": HOT}) == HOT
    assert most_common_fault({"a": SHORT, "b": SHORT, "c": HOT}) == SHORT
    assert most_common_fault({}) == (Status.WINDOW_TOO_SHORT, "no trial gave a power reading")


@pytest.mark.parametrize(("values", "mean"), [([1.0, math.nan, 3.0, math.inf], 2.0), ([5.0], 5.0)])
def test_a_mean_is_of_what_is_known(values, mean):
    assert nan_mean(values) == mean
    assert math.isnan(nan_mean([math.nan]))
    assert math.isnan(nan_mean([]))

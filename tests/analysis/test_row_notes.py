"""What a row says beside its number."""

import math

import pytest
from fakes.measuring import trial

from ptxbench.analysis.row_notes import (
    fewer_sms_note,
    is_linear,
    left_out_note,
    linearity_note,
    set_aside_note,
)
from ptxbench.analysis.statistics import Estimate, Uncertainty
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role

HOT, SHORT = Status.THROTTLED, Status.WINDOW_TOO_SHORT


@pytest.mark.parametrize(
    ("faults", "note"),
    [
        ([], ""),
        ([(HOT, "hot at 90 C")], "1 trial left out (1 throttled: hot at 90 C)"),
        (
            [(SHORT, "0.1 s"), (HOT, "hot at 90 C"), (HOT, "hot at 91 C")],
            "3 trials left out (2 throttled: hot at 90 C; 1 window_too_short: 0.1 s)",
        ),
    ],
)
def test_trials_that_were_left_out_are_counted_with_the_first_reason_of_each_kind(faults, note):
    assert left_out_note({str(n): fault for n, fault in enumerate(faults)}) == note


@pytest.mark.parametrize(("unsure", "kept", "said"), [(3, 2, True), (2, 2, False), (0, 0, False)])
def test_trials_set_aside_are_named_where_fewer_count(unsure, kept, said):
    assert set_aside_note(unsure, kept) == (
        f"excluded trials: {unsure} at an unknown drift level" if said else ""
    )


def test_fewer_sms_are_named_where_a_subject_ran_on_more():
    few, many = trial(Role.TARGET, 0, grid=66), trial(Role.TARGET, 1, grid=132)
    assert fewer_sms_note([few, many], 132) == "on 66 of 132 SMs, because the GPU throttled on more"
    assert fewer_sms_note([few], 132) == ""


def energy(mean, error=0.0, n=4):
    return Estimate(mean, Uncertainty(error), n)


@pytest.mark.parametrize(
    ("single", "double", "linear", "said"),
    [
        (energy(10.0), energy(10.0), True, False),
        (energy(10.0), energy(10.3), True, True),
        (energy(10.0), energy(11.9), False, True),
        (energy(10.0), energy(8.1), False, True),
        (energy(10.0), energy(11.9, 2.0), True, False),
        (energy(10.0), energy(math.nan, math.nan, 0), True, False),
    ],
)
def test_energies_of_n_and_of_2n_copies_that_differ_are_named_and_far_ones_are_no_energy(
    single, double, linear, said
):
    assert is_linear(single, double) == linear
    assert bool(linearity_note(single, double)) == said

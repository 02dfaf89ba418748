"""A source that stands still is told by trials that agree to the last digit."""

import pytest
from fakes.measuring import trial

from ptxbench.analysis.loop_energy import contradicted_trials
from ptxbench.analysis.stuck_sensor import stuck_sensor
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role

STILL, FOLLOWS = 310.0, (290.0, 291.0, 290.4)


def kernel(powers_w, block=1024, **change):
    return [
        trial(Role.TARGET, n, steady_power_w=w, block=block, trial_id=f"{block}/{n}", **change)
        for n, w in enumerate(powers_w)
    ]


CASES = [
    ("four alike while another kernel scatters", [[STILL] * 4, FOLLOWS], {0}),
    ("three alike, and nothing else says so", [[STILL] * 3, FOLLOWS], set()),
    ("three alike in two kernels of one power", [[STILL] * 3, [STILL] * 3, FOLLOWS], {0, 1}),
    ("two alike in two kernels of one power", [[STILL] * 2, [STILL] * 2, FOLLOWS], set()),
    ("three alike in two kernels of two powers", [[STILL] * 3, [200.0] * 3, FOLLOWS], set()),
    ("no kernel scatters: the source is coarse", [[STILL] * 4, [200.0] * 4], set()),
    ("one other trial, which cannot scatter", [[STILL] * 4, [290.0]], set()),
    ("one other trial, of the very same power", [[STILL] * 3, [STILL], FOLLOWS], set()),
    ("two other trials that scatter", [[STILL] * 4, FOLLOWS[:2]], {0}),
    ("alike to a millionth", [[STILL, STILL, STILL * (1 - 0.9e-6), STILL], FOLLOWS], {0}),
    ("alike to more than a millionth", [[STILL, STILL, STILL * (1 - 1.2e-6), STILL], FOLLOWS], set()),
]


@pytest.mark.parametrize(("powers_w", "stuck"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_which_kernels_a_source_cannot_have_followed(powers_w, stuck):
    kernels = [kernel(own, 32 * (n + 1)) for n, own in enumerate(powers_w)]
    found = stuck_sensor([one for own in kernels for one in own])
    assert set(found) == {one.trial_id for n in stuck for one in kernels[n]}
    for sentence in found.values():
        assert sentence.startswith(f"samples gave 310 W in all {len(powers_w[0])} trials, to the last digit")


def test_readings_that_stood_still_within_a_trial_make_three_enough():
    trials = kernel([STILL] * 3)
    trials[1] = kernel([STILL] * 3, status=Status.SENSOR_IMPLAUSIBLE)[1]
    assert len(stuck_sensor([*trials, *kernel(FOLLOWS, 32)])) == 3


def test_trials_that_were_not_measured_and_calibration_do_not_count():
    short = kernel([STILL] * 4, status=Status.WINDOW_TOO_SHORT)
    calibration = [trial(Role.TARGET, -1, steady_power_w=STILL, trial_id="calibration")]
    others = kernel(FOLLOWS, 32)
    assert stuck_sensor([*short, *others]) == {}
    assert set(stuck_sensor([*kernel([STILL] * 4), *calibration, *others])) == {f"1024/{n}" for n in range(4)}


def test_such_trials_are_implausible_and_those_at_another_clock_drifted():
    slow = kernel([280.0, 281.0, 282.0], 64)
    slow[2] = kernel([280.0, 281.0, 282.0], 64, sm_clock_mhz=1965.0)[2]
    found = contradicted_trials([*kernel([STILL] * 4), *slow])
    assert {name: status for name, (status, _) in found.items()} == {
        **{f"1024/{n}": Status.SENSOR_IMPLAUSIBLE for n in range(4)},
        "64/2": Status.CLOCK_DRIFT,
    }

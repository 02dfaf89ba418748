"""The exponent of several runs, as the pages of rooflines have it."""

import pytest
from fakes.script import load_script

from ptxbench.core.estimate import Estimate

joint_exponent = load_script("runners/refresh_roofline.py").joint_exponent


def test_runs_that_differ_beyond_their_errors_say_less_of_another_board():
    alike = joint_exponent([Estimate(2.0, 0.2), Estimate(2.1, 0.2)])
    unlike = joint_exponent([Estimate(2.0, 0.2), Estimate(3.0, 0.2)])
    assert alike.value == pytest.approx(2.05)
    assert alike.error == pytest.approx(0.2 / 1.96 / 2**0.5, rel=1e-3)
    assert unlike.value == pytest.approx(2.5)
    assert unlike.error > 0.5
    assert unlike.alike < 0.01 < alike.alike

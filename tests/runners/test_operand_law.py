"""The law of operands finds what a bit costs, and tells where it does not hold."""

import numpy as np
import pytest
from fakes.script import load_script

from ptxbench.core.errors import InputError

RUNNER = load_script("runners/operand_law.py")
LoopBits, LoopPoint, fit_law, rms_pct = RUNNER.LoopBits, RUNNER.LoopPoint, RUNNER.fit_law, RUNNER.rms_pct
TERMS_FJ = (110.0, 50.0, 150.0, 0.0)


def made(*, noise=0.0, beside=0.0):
    """Return points of three loops, one of which takes more than the law says."""
    rng, points = np.random.default_rng(1), []
    for loop, zeros in (("a", 200.0), ("b", 300.0), ("c", 400.0)):
        for _ in range(8):
            bits = rng.uniform(0, 1500, 4)
            energy = zeros + float(bits @ TERMS_FJ) / 1000
            energy *= 1 + noise * rng.standard_normal() + beside * (loop == "c")
            points.append(LoopPoint(loop, LoopBits(*bits), energy, zeros))
    return points


def test_what_a_bit_costs_is_found_within_its_interval():
    law = fit_law(made(noise=0.01))
    for found, half, true in zip(law.terms_fj, law.half_fj, TERMS_FJ, strict=True):
        assert found >= 0
        assert abs(found - true) < 1.5 * half < 30
    assert rms_pct(law.residuals) == pytest.approx(1, rel=0.4)
    assert rms_pct(law.left_out) < 2


def test_a_loop_that_does_not_follow_is_told_by_a_fit_to_the_others():
    law = fit_law(made(beside=0.2))
    assert rms_pct(law.left_out[16:]) == pytest.approx(17, rel=0.1)
    assert rms_pct(law.left_out[:16]) < rms_pct(law.left_out[16:])


def test_one_loop_is_left_out_of_nothing():
    assert fit_law(made()[:8]).left_out == ()


def test_too_few_points_are_refused():
    with pytest.raises(InputError, match="4 points are too few"):
        fit_law(made()[:4])

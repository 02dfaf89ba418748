"""Intervals of measured over estimated energy hold new kernels as often as they say."""

import numpy as np
from fakes.script import load_script

RUNNER = load_script("runners/code_ratios.py")
CodeRatio, code_spreads, inside = RUNNER.CodeRatio, RUNNER.code_spreads, RUNNER.inside


def drawn(count, seed, family="one"):
    return [
        CodeRatio(family, True, False, float(ratio))
        for ratio in np.random.default_rng(seed).lognormal(0.3, 0.5, count)
    ]


def test_new_kernels_of_the_same_kind_are_inside_as_often_as_is_said():
    # The mean over draws of the fit kernels is what conformal prediction promises.
    shares = [inside(drawn(500, seed), code_spreads(drawn(119, 1000 + seed))) / 500 for seed in range(40)]
    assert 0.94 < np.mean(shares) < 0.965


def test_too_few_kernels_for_two_tails_give_all_that_was_seen():
    ratios = drawn(20, 1)
    (spread,) = code_spreads(ratios)
    assert (spread.low, spread.high) == (min(r.ratio for r in ratios), max(r.ratio for r in ratios))
    assert spread.kernels == 20


def test_a_family_is_judged_by_the_others():
    far = [CodeRatio("far", True, False, 50.0), CodeRatio("far", True, False, 1.3)]
    assert RUNNER.coverage_by_family([*drawn(30, 2), *far])["far"] == (1, 2)


def test_what_no_kernel_like_it_was_measured_for_is_not_inside():
    assert inside([CodeRatio("one", False, False, 1.0)], code_spreads(drawn(30, 2))) == 0

"""The law of operands finds the numbers and the form that made the points."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ptxbench.core.errors import InputError
from ptxbench.model.operand_law import Form, Point, fit_laws

W, LANE, TIME, HALVES = 100.0, 2.0, 4.0, 8.0
SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.0)


def bent(share, bend):
    return share if math.isinf(bend) else share * (1 + bend) / (share + bend)


def made(form, bend, *, noise=0.0, all_lanes=True):
    """Return points of a law: halves that differ more or less, still and moving, and fewer lanes."""
    conditions = [(32, share, moved) for share in SHARES for moved in (0.0, 1.0)]
    conditions += [(lanes, 1.0, 1.0) for lanes in (24, 16, 8, 1)] if all_lanes else []
    rng, points = np.random.default_rng(1), []
    for lanes, share, moved in conditions:
        across = share if moved == 0 else 1.0
        point = Point(lanes, share, across, moved, 0.0, 0.0)
        by_halves = point.pairs * bent(share, bend)
        if form is Form.PASSES:
            alone = (lanes - 2 * point.pairs) * bent(moved, bend)
            by_halves = (by_halves + point.pairs * bent(across, bend) + alone) / 2
        energy = W + lanes * (LANE + TIME * moved) + HALVES * by_halves
        energy *= 1 + noise * rng.standard_normal()
        points.append(replace(point, energy_pj=energy, ci95_pj=1.96 * max(noise, 1e-3) * energy))
    return points


@pytest.mark.parametrize(
    ("form", "bend"),
    [(Form.LINEAR, math.inf), (Form.SATURATING, 0.05), (Form.SATURATING, 0.4), (Form.PASSES, 0.1)],
)
def test_form_and_numbers_are_found_within_their_intervals(form, bend):
    laws = fit_laws(made(form, bend, noise=0.005))
    law = next(iter(laws.values()))
    assert law.form is form
    for found, half, true in zip(law.terms_pj, law.half_pj, (W, LANE, TIME, HALVES), strict=True):
        assert abs(found - true) < 1.5 * half < 0.7 * true
    low, high = law.bend_range
    assert low / 1.13 <= bend <= high * 1.13, "within a step of the grid"
    assert law.share_at(1 / 16) == pytest.approx(bent(1 / 16, bend), rel=0.2)
    assert law.misfit > 0.01


def test_a_form_that_is_wrong_is_told_by_its_misfit():
    laws = fit_laws(made(Form.SATURATING, 0.02, noise=0.005))
    assert laws[Form.SATURATING].misfit > 0.01
    assert laws[Form.LINEAR].misfit < 1e-6
    assert laws[Form.LINEAR].rms_pct > 3 * laws[Form.SATURATING].rms_pct
    assert laws[Form.LINEAR].score > laws[Form.SATURATING].score + 10


def test_without_fewer_lanes_what_is_of_the_warp_counts_to_the_lanes():
    law = fit_laws(made(Form.LINEAR, math.inf, noise=1e-4, all_lanes=False))[Form.LINEAR]
    warp, lane, time, halves = law.terms_pj
    assert math.isnan(warp)
    assert lane == pytest.approx(LANE + W / 32, rel=0.01)
    assert (time, halves) == pytest.approx((TIME, HALVES), rel=0.02)


def test_too_few_points_are_refused():
    with pytest.raises(InputError, match="4 points are too few"):
        fit_laws(made(Form.LINEAR, math.inf)[:4])

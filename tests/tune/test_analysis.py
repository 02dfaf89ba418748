"""What a search tells: the arc by alpha, spreads, correlations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tune.fakes_tune import SMALL, trial

from ptxbench.tune.analysis import analyse
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.trial import TrialStatus

POINTS = st.lists(st.tuples(st.floats(1e-4, 1e-2), st.floats(0.1, 10)), min_size=1, max_size=30)


def of(points, **change):
    return [trial(n + 1, time_s, energy_j, **change) for n, (time_s, energy_j) in enumerate(points)]


@given(POINTS, st.floats(0, 1))
def test_the_arc_has_the_best_variant_for_every_alpha(points, alpha):
    found = analyse(of(points), SMALL)
    assert found is not None
    goal, reference = Goal(Objective.WEIGHTED, alpha=alpha), found.best.trial
    least = min(goal.cost(f.trial, reference) for f in found.figures)
    corners = [c for c in found.arc if c.alpha_low - 1e-9 <= alpha <= c.alpha_high + 1e-9]
    assert min(goal.cost(c.figures.trial, reference) for c in corners) == pytest.approx(least)
    assert found.arc[0].alpha_low == 0
    assert found.arc[-1].alpha_high == 1


def test_gflops_and_energy_are_of_one_timing():
    (one,) = analyse(of([(1e-3, 0.5)], steady_s=2e-3, power_w=250.0), SMALL).figures
    assert one.gflops == pytest.approx(SMALL.flops / 2e-3 * 1e-9)
    assert one.gflops_per_w == pytest.approx(one.gflops / one.power_w)


def test_what_is_not_measured_is_left_out_where_something_is():
    tried = [*of([(1e-3, 0.5)]), trial(2, energy_j=math.nan, power_w=math.nan, estimated_j=0.1)]
    assert [f.trial for f in analyse(tried, SMALL).figures] == tried[:1]
    assert not analyse(tried[1:], SMALL).best.measured
    assert analyse([trial(1, status=TrialStatus.WRONG)], SMALL) is None


@pytest.mark.parametrize(("error_w", "apart"), [(0.1, True), (100.0, False)])
def test_winners_are_told_apart_by_their_intervals(error_w, apart):
    found = analyse(of([(1e-3, 0.6), (2e-3, 0.5)], power_error_w=error_w), SMALL)
    assert (found.faster, found.thriftier, found.both) == (1, 1, 0)
    assert found.told_apart is apart


def test_a_metric_that_orders_energy_has_a_correlation_of_one_and_an_interval_below():
    tried = [trial(n, 1e-3, 0.1 * n, registers=10 * n) for n in range(1, 9)]
    found = {(c.metric, c.target): c for c in analyse(tried, SMALL).correlations}
    one = found["registers", "energy"]
    assert one.rho == pytest.approx(1)
    assert one.low < one.rho <= one.high + 1e-9
    assert ("registers", "time") not in found
    assert found["blk_k", "energy"].variants == 8


def test_slices_hold_every_variant_once():
    found = analyse(of([(1e-3 * (1 + n / 100), 0.5 + n % 7 / 10) for n in range(50)]), SMALL)
    assert sum(s.variants for s in found.spreads) == 50
    assert all(s.ratio >= 1 for s in found.spreads)
    assert [s.from_s for s in found.spreads] == sorted(s.from_s for s in found.spreads)

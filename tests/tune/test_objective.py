"""What tuning makes small, the front, and how good an estimator was."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tune.fakes_tune import SMALL, FlatModel, trial

from ptxbench.tune.evaluate import estimated_again, ranking
from ptxbench.tune.objective import Goal, Objective, Pruning, pareto_front, ranked
from ptxbench.tune.outcome import TrialStatus

FAST = trial(1, time_s=1.0e-3, energy_j=0.60)
EVEN = trial(2, time_s=1.2e-3, energy_j=0.46)
FRUGAL = trial(3, time_s=1.5e-3, energy_j=0.45)
BAD = trial(4, time_s=2.0e-3, energy_j=0.70)
ALL = [BAD, FAST, EVEN, FRUGAL]


@pytest.mark.parametrize(
    ("goal", "best"),
    [
        (Goal(Objective.TIME), FAST),
        (Goal(Objective.ENERGY), FRUGAL),
        (Goal(Objective.EDP), EVEN),
        (Goal(Objective.POWER_LIMITED, power_limit_w=390), EVEN),
        (Goal(Objective.POWER_LIMITED, power_limit_w=310), FRUGAL),
        (Goal(Objective.WEIGHTED, alpha=1.0), FAST),
        (Goal(Objective.WEIGHTED, alpha=0.0), FRUGAL),
        (Goal(Objective.WEIGHTED, alpha=0.5), EVEN),
    ],
)
def test_the_best_is_the_best_for_its_goal(goal: Goal, best: object) -> None:
    assert ranked(ALL, goal)[0] is best


def test_no_variant_meets_a_limit_that_is_too_low() -> None:
    assert ranked(ALL, Goal(Objective.POWER_LIMITED, power_limit_w=200)) == ()


def test_what_does_not_count_is_never_best() -> None:
    wrong = trial(5, time_s=1e-6, energy_j=1e-6, status=TrialStatus.WRONG)
    unmeasured = trial(6, time_s=1e-6, energy_j=math.nan)
    for goal in (Goal(Objective.ENERGY), Goal(Objective.EDP)):
        assert ranked([wrong, unmeasured, FAST], goal) == (FAST,)
    assert pareto_front([wrong, unmeasured, FAST]) == (FAST,)


def test_pruning_leaves_out_what_looks_hopeless() -> None:
    pruning = Pruning(Goal(Objective.ENERGY), 1.5)
    dear = trial(7, energy_j=math.nan, power_w=math.nan, estimated_j=0.8)
    assert "1.78 times the best energy" in pruning.objection(dear, ALL)
    assert pruning.objection(replace(dear, estimated_j=0.6), ALL) == ""
    assert pruning.objection(dear, []) == ""
    # What was pruned before is no measure of the best.
    pruned = replace(dear, estimated_j=0.1, status=TrialStatus.PRUNED)
    assert pruning.objection(replace(dear, estimated_j=0.6), [*ALL, pruned]) == ""


def test_the_front() -> None:
    assert pareto_front(ALL) == (FAST, EVEN, FRUGAL)


@given(st.lists(st.tuples(st.floats(1e-4, 1.0), st.floats(1e-3, 10.0)), min_size=1, max_size=40))
def test_the_front_holds_exactly_what_no_other_beats(points: list[tuple[float, float]]) -> None:
    trials = [trial(n, time_s=t, energy_j=e) for n, (t, e) in enumerate(points)]
    front = pareto_front(trials)
    for one in trials:
        beaten = any(
            o.best_time_s <= one.best_time_s
            and o.best_energy_j <= one.best_energy_j
            and (o.best_time_s, o.best_energy_j) != (one.best_time_s, one.best_energy_j)
            for o in trials
        )
        same = [(f.best_time_s, f.best_energy_j) for f in front]
        assert beaten != ((one.best_time_s, one.best_energy_j) in same)


def test_quality_of_an_estimator_that_ranks_well_and_one_that_does_not() -> None:
    energies = [0.5 + 0.01 * n for n in range(30)]
    good = [trial(n, energy_j=e, estimated_j=2 * e) for n, e in enumerate(energies)]
    bad = [trial(n, energy_j=e, estimated_j=-e) for n, e in enumerate(energies)]
    found = ranking(good)
    assert found is not None
    assert found.estimate == pytest.approx(1.0)
    assert found.estimate_error == pytest.approx(1.0)
    assert found.chosen_loss == 0.0
    assert found.fastest_loss == 0.0
    found = ranking([*bad, trial(30, energy_j=0.6, time_s=1e-5)])
    assert found is not None
    assert found.estimate == pytest.approx(-1.0)
    # Its ten are the ten dearest, of which the best is 0.70 J; the fastest, which it lacks, takes 0.6 J.
    assert found.chosen_loss == pytest.approx(0.4)
    assert found.fastest_loss == pytest.approx(0.2)


def test_estimating_again_needs_no_gpu() -> None:
    (again,) = estimated_again([trial(1, time_s=2e-3)], SMALL, FlatModel())
    assert again.estimated_j == pytest.approx(1.1e9 * 10e-12 + 0.2)
    assert again.energy_j == 0.5

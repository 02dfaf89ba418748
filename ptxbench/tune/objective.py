"""What tuning makes small, and the variants of which no other is better in both time and energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from ptxbench.tune.trial import Trial


class Objective(StrEnum):
    """What is made small."""

    ENERGY = "energy"
    TIME = "time"
    EDP = "edp"
    POWER_LIMITED = "power-limited"
    GFLOPS_PER_W = "gflops-per-w"
    METRIC = "metric"
    WEIGHTED = "weighted"


def plain_cost(objective: str, time_s: float, energy_j: float) -> float:
    """Return what "energy" (J), "time" (s) or "edp" (J s) makes small."""
    return {"energy": energy_j, "time": time_s, "edp": energy_j * time_s}[objective]


@dataclass(frozen=True)
class Goal:
    """An objective with its figures.

    Attributes:
        objective: What is made small.
        power_limit_w: For POWER_LIMITED: the shortest time among variants that draw no more.
        alpha: For WEIGHTED: the weight of time, 0 to 1.
        flops: For GFLOPS_PER_W: floating-point operations of a trial, NaN where nobody says them.
        metric: For METRIC: the user's own figure of a trial, NaN where it has none.
    """

    objective: Objective
    power_limit_w: float = math.nan
    alpha: float = math.nan
    flops: Callable[[Trial], float] | None = None
    metric: Callable[[Trial], float] | None = None

    def cost(self, trial: Trial, reference: Trial) -> float:
        """Return what is made small: less is better, infinite where the trial does not count.

        WEIGHTED is alpha t + (1 - alpha) e (Anzt et al. 2015, Eq. 2), with time and energy as multiples of
        the reference's: in seconds and joules the weight would hang on the size of the problem.

        Args:
            trial: A variant.
            reference: The first one that counts.
        """
        time_s, energy_j = trial.best_time_s, trial.best_energy_j
        if not trial.ok or not self._known(time_s, energy_j):
            return math.inf
        match self.objective:
            case Objective.TIME | Objective.ENERGY | Objective.EDP:
                return plain_cost(self.objective, time_s, energy_j)
            case Objective.POWER_LIMITED:
                return time_s if trial.best_power_w <= self.power_limit_w else math.inf
            case Objective.GFLOPS_PER_W:
                return _known_or_worst(energy_j / self.flops(trial) if self.flops else math.nan)
            case Objective.METRIC:
                return _known_or_worst(self.metric(trial) if self.metric else math.nan)
            case Objective.WEIGHTED:
                relative_s, relative_j = time_s / reference.best_time_s, energy_j / reference.best_energy_j
                return self.alpha * relative_s + (1 - self.alpha) * relative_j

    def _known(self, time_s: float, energy_j: float) -> bool:
        return math.isfinite(time_s) and (self.objective is Objective.TIME or math.isfinite(energy_j))


def _known_or_worst(cost: float) -> float:
    return cost if math.isfinite(cost) else math.inf


@dataclass(frozen=True)
class Pruning:
    """Leaves out the power measurement of variants that look hopeless.

    Attributes:
        goal: What is made small.
        factor: Hopeless is an estimated cost over so many times the best one's so far.
    """

    goal: Goal
    factor: float

    def objection(self, trial: Trial, trials: Iterable[Trial]) -> str:
        """Return why a trial is not worth going on with, or "".

        Args:
            trial: It is timed, and its energy estimated.
            trials: Those before it.
        """
        before = [t for t in trials if t.ok]
        reference = first_valid(before)
        if reference is None:
            return ""
        best = min(self.goal.cost(t, reference) for t in before)
        cost = self.goal.cost(trial, reference)
        if not math.isfinite(best) or not cost > self.factor * best:
            return ""
        return f"estimated {cost / best:.2f} times the best {self.goal.objective} so far"


def first_valid(trials: Iterable[Trial]) -> Trial | None:
    """Return the first trial that counts and has a time, or None."""
    return next((t for t in trials if t.ok and math.isfinite(t.best_time_s)), None)


def ranked(trials: Iterable[Trial], goal: Goal) -> tuple[Trial, ...]:
    """Return the trials that count, the best first; where none meets a power limit, there is none."""
    kept = list(trials)
    reference = first_valid(kept)
    if reference is None:
        return ()
    costs = {id(t): goal.cost(t, reference) for t in kept}
    return tuple(sorted((t for t in kept if math.isfinite(costs[id(t)])), key=lambda t: costs[id(t)]))


def pareto_front(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """Return the trials that no other beats in time and in energy, the fastest first."""
    counted = [t for t in trials if t.ok and math.isfinite(t.best_time_s) and math.isfinite(t.best_energy_j)]
    front: list[Trial] = []
    for trial in sorted(counted, key=lambda t: (t.best_time_s, t.best_energy_j)):
        if not front or trial.best_energy_j < front[-1].best_energy_j:
            front.append(trial)
    return tuple(front)

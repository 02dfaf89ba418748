"""How good the estimator was: what it predicted of variants beside what was measured of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import fmean, median
from typing import TYPE_CHECKING

from ptxbench.core.distributions import rank_correlation
from ptxbench.tune.configuration import KernelProblem
from ptxbench.tune.estimate import COOL_C
from ptxbench.tune.trial import Trial
from ptxbench.tune.variant import Problem

if TYPE_CHECKING:
    from ptxbench.tune.model_energy import ModelEnergy

# Under so many variants a rank correlation says nothing.
_FEWEST = 3
# Measurements that the estimator's choice may take.
FEW = 10


def estimated_again(
    trials: Sequence[Trial], problem: Problem | KernelProblem, model: ModelEnergy
) -> tuple[Trial, ...]:
    """Return trials with the energies that a model predicts from their work and their short timing."""
    return tuple(_estimated_again(t, problem, model) for t in trials)


def _estimated_again(trial: Trial, problem: Problem | KernelProblem, model: ModelEnergy) -> Trial:
    if math.isfinite(trial.modelled_s):
        foreseen = trial.estimated_by(model, problem, trial.modelled_s, COOL_C)
        trial = replace(trial, foreseen_j=foreseen.estimated_j)
    return trial.estimated_by(model, problem, trial.time_s, trial.temperature_c)


@dataclass(frozen=True)
class Ranking:
    """What the estimate adds to models that know less, on variants whose energy was measured.

    Attributes:
        variants: How many.
        sampled: Whether they are those drawn at random; else all that were tried, which the estimator chose.
        estimate: Rank correlation (Spearman) of estimated and measured energy.
        time: That of the short timing and measured energy: what one knows without any energy.
        estimate_error: Mean of |estimated / measured - 1|.
        time_error: The same with one power for all of them, their median, times the short timing.
        constant_error: The same with one energy for all of them, their median.
        chosen_loss: How much more energy than the best of all that were measured the best of the `FEW` takes
            that the estimate puts first, relative.
        fastest_loss: The same of the fastest.
    """

    variants: int
    sampled: bool
    estimate: float
    time: float
    estimate_error: float
    time_error: float
    constant_error: float
    chosen_loss: float
    fastest_loss: float


def ranking(trials: Sequence[Trial]) -> Ranking | None:
    """Compare the estimate with time alone and with a constant; None under three measured variants.

    Where three or more were drawn at random they alone count: those that the estimator put first are alike.
    """
    known = [t for t in trials if t.ok and math.isfinite(t.energy_j) and math.isfinite(t.estimated_j)]
    drawn = [t for t in known if t.sampled]
    used = drawn if len(drawn) >= _FEWEST else known
    if len(used) < _FEWEST:
        return None
    power_w = median(t.energy_j / t.time_s for t in used)
    energy_j = median(t.energy_j for t in used)
    measured = [t for t in trials if t.ok and math.isfinite(t.energy_j)]
    best_j = min(t.energy_j for t in measured)
    chosen_j = min(t.energy_j for t in sorted(known, key=attrgetter("estimated_j"))[:FEW])
    return Ranking(
        variants=len(used),
        sampled=used is drawn,
        estimate=rank_of(used, attrgetter("estimated_j")),
        time=rank_of(used, attrgetter("time_s")),
        estimate_error=fmean(abs(t.estimated_j / t.energy_j - 1) for t in used),
        time_error=fmean(abs(power_w * t.time_s / t.energy_j - 1) for t in used),
        constant_error=fmean(abs(energy_j / t.energy_j - 1) for t in used),
        chosen_loss=chosen_j / best_j - 1,
        fastest_loss=min(measured, key=attrgetter("best_time_s")).energy_j / best_j - 1,
    )


@dataclass(frozen=True)
class Choice:
    """What one way of tuning chooses, of variants whose energy was measured.

    Attributes:
        way: How it chooses.
        variant: Its choice; "" for what is drawn at random.
        energy_j: Measured energy of the choice; the expected one for what is drawn at random.
        loss: How much more that is than the best measured, relative.
        gpu_s: Host seconds of what runs on the GPU for it: comparing, short timings, reading power.
    """

    way: str
    variant: str
    energy_j: float
    loss: float
    gpu_s: float


def choices(trials: Sequence[Trial], few: int = 5) -> tuple[Choice, ...]:
    """Compare ways of tuning for energy, on variants whose energy was measured.

    Args:
        trials: Trials; those without a measured energy are left out.
        few: How many variants are measured by the ways that rank first; and by drawing at random.

    Returns:
        Reading power of all; the fastest, and the least estimate, by short timings of all, and the best of
        the few that each puts first; the best of the few that the estimate from code alone, or the modelled
        time, puts first; and of as many drawn at random. A way is left out where its figure is not known. ()
        where no energy was measured.
    """
    measured = sorted((t for t in trials if t.ok and math.isfinite(t.energy_j)), key=lambda t: t.energy_j)
    if not measured:
        return ()
    best_j = measured[0].energy_j
    timed_s = sum(map(_timed_s, measured))
    power_s = sum(map(_power_s, measured))

    def chosen(way: str, trial: Trial, gpu_s: float) -> Choice:
        return Choice(way, trial.variant.name, trial.energy_j, trial.energy_j / best_j - 1, gpu_s)

    found = [chosen("power of all", measured[0], timed_s + power_s)]
    figure: Callable[[Trial], float]
    for way, figure in (
        ("time of all", attrgetter("time_s")),
        ("estimate by the time of all", attrgetter("estimated_j")),
    ):
        first = sorted((t for t in measured if math.isfinite(figure(t))), key=figure)[:few]
        if first:
            found.append(chosen(way, first[0], timed_s))
            best = min(first, key=lambda t: t.energy_j)
            found.append(chosen(f"{way}, then power of {few}", best, timed_s + sum(map(_power_s, first))))
    for way, figure in (
        (f"estimate from code, then power of {few}", attrgetter("foreseen_j")),
        (f"modelled time, then power of {few}", attrgetter("modelled_s")),
    ):
        first = sorted((t for t in measured if math.isfinite(figure(t))), key=figure)[:few]
        if first:
            gpu_s = sum(_timed_s(t) + _power_s(t) for t in first)
            found.append(chosen(way, min(first, key=lambda t: t.energy_j), gpu_s))
    few = min(few, len(measured))
    expected_j = _expected_best(measured, few)
    share = few / len(measured)
    drawn = f"power of {few} drawn at random"
    found.append(Choice(drawn, "", expected_j, expected_j / best_j - 1, share * (timed_s + power_s)))
    return tuple(found)


def _expected_best(in_order: Sequence[Trial], few: int) -> float:
    """Return the expected energy of the best of a few that are drawn without being put back."""
    n, ways = len(in_order), math.comb(len(in_order), few)
    return sum(math.comb(n - 1 - i, few - 1) / ways * t.energy_j for i, t in enumerate(in_order))


def _timed_s(trial: Trial) -> float:
    return sum(s for s in (trial.check_wall_s, trial.timing_wall_s) if math.isfinite(s))


def _power_s(trial: Trial) -> float:
    return trial.power_wall_s if math.isfinite(trial.power_wall_s) else 0.0


def rank_of(trials: Sequence[Trial], figure: Callable[[Trial], float]) -> float:
    """Return the rank correlation (Spearman) of a figure and measured energy; NaN where one is constant."""
    pairs = [(figure(t), t.energy_j) for t in trials]
    if any(len(set(side)) < 2 for side in zip(*pairs, strict=True)) or len(pairs) < 2:
        return math.nan
    return rank_correlation(*zip(*pairs, strict=True))

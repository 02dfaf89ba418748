"""What a finished search tells: winners, front, hull, spreads at equal speed, and correlations."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np

from ptxbench.core.distributions import rank_correlation, student_quantile
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.model.opcodes import opcode_class
from ptxbench.tune.configuration import Configuration, KernelProblem
from ptxbench.tune.counters import Counters
from ptxbench.tune.library import LibraryTrial
from ptxbench.tune.objective import pareto_front
from ptxbench.tune.outcome import Settled
from ptxbench.tune.trial import Trial
from ptxbench.tune.variant import PARAMETERS, Problem

# Under so many variants a rank correlation has no interval.
_FEWEST = 4
# Slices of equal number that variants are cut into by time; chosen.
_SLICES = 10
# Of one problem GFLOP/s falls as time grows, GFLOP/s/W as energy does, and their product as energy times
# time: the rank correlations of Anzt et al. (2015), Figures 6 to 8, are those with these three, with the
# other sign.
PRODUCT = "energy x time"
TARGETS = ("time", "power", "energy", PRODUCT)
# Occupancies that are shown one by one at most.
_MOST_LEVELS = 16


T = TypeVar("T", Trial, LibraryTrial)


@dataclass(frozen=True)
class Figures(Generic[T]):
    """The figures of a variant, or of a library's product measured in the same session.

    All are of one timing: that in which its power was read, if it was.

    Attributes:
        trial: What was tried.
        time_s: Time of one launch.
        energy_j: Energy of one launch.
        half_j: Half of its 95% interval: of the power's noise where it was measured, else the estimate's;
            NaN where it is not known.
        power_w: Power.
        gflops: 1e9 floating-point operations a second, NaN where nobody says them.
        gflops_per_w: The same for each watt.
        measured: Whether the energy was measured.
    """

    trial: T
    time_s: float
    energy_j: float
    half_j: float
    power_w: float
    gflops: float
    gflops_per_w: float
    measured: bool

    @property
    def name(self) -> str:
        """Name of the trial."""
        return self.trial.name

    @property
    def at_limit(self) -> str:
        """What tables say of it at the power limit."""
        return self.trial.at_limit


VariantFigures = Figures[Trial]


@dataclass(frozen=True)
class Corner:
    """A variant on the arc of best ones.

    Attributes:
        figures: The variant.
        alpha_low: Least weight of time for which it is the best.
        alpha_high: Most.
    """

    figures: VariantFigures
    alpha_low: float
    alpha_high: float


@dataclass(frozen=True)
class Spread:
    """Variants of about the same speed.

    Attributes:
        from_s: Shortest time.
        to_s: Longest.
        variants: How many.
        ratio: Most energy of any over the least.
        least: The one of least energy.
        most: The one of most.
    """

    from_s: float
    to_s: float
    variants: int
    ratio: float
    least: str
    most: str


@dataclass(frozen=True)
class Correlation:
    """How a metric goes along with time, power, energy, or energy times time.

    Attributes:
        metric: The metric.
        target: One of `TARGETS`.
        variants: How many have both.
        rho: Rank correlation (Spearman).
        low: Lower end of its 95% interval.
        high: Upper end.
    """

    metric: str
    target: str
    variants: int
    rho: float
    low: float
    high: float


@dataclass(frozen=True)
class LinearCorrelation:
    """Linear correlation (Pearson) of a metric with speed and efficiency (Anzt et al. 2015, Figures 6 to 8).

    Attributes:
        metric: The metric.
        variants: How many have it.
        gflops: With GFLOP/s.
        gflops_per_w: With GFLOP/s/W.
        product: With their product.
    """

    metric: str
    variants: int
    gflops: float
    gflops_per_w: float
    product: float


@dataclass(frozen=True)
class Split:
    """Variants above the mean of a metric beside those below (Anzt et al. 2015, section 3.6 and Figure 9).

    Attributes:
        metric: The metric.
        mean: Its mean over the variants.
        above: How many are above.
        below: How many are not.
        time: Geometric mean time of those above over that of those below.
        time_low: Lower end of its 95% interval (Welch's t of the logarithms).
        time_high: Upper end.
        energy: The same ratio of energies.
        energy_low: Lower end of its interval.
        energy_high: Upper end.
    """

    metric: str
    mean: float
    above: int
    below: int
    time: float
    time_low: float
    time_high: float
    energy: float
    energy_low: float
    energy_high: float


@dataclass(frozen=True)
class OccupancyLevel:
    """Variants of one occupancy (Anzt et al. 2015, section 3.6).

    Attributes:
        occupancy: Their occupancy, 0 to 1.
        variants: How many.
        time_s: Their mean time.
        energy_j: Their mean energy.
        gflops: Their mean of 1e9 floating-point operations a second, NaN where nobody says them.
        gflops_per_w: The same for each watt.
    """

    occupancy: float
    variants: int
    time_s: float
    energy_j: float
    gflops: float
    gflops_per_w: float


@dataclass(frozen=True)
class Analysis:
    """What a search tells.

    Attributes:
        figures: Every variant that counts, the least energy first.
        front: Those that no other beats in time and energy, the fastest first.
        arc: The corners of the lower left hull of time and energy, from alpha = 0 (energy) to 1 (time).
        hull: The convex hull of GFLOP/s and GFLOP/s/W, counterclockwise from the most efficient.
        faster: Variants faster than the one of least energy.
        thriftier: Variants of less energy than the fastest.
        both: Those that are both.
        spreads: Variants of about equal speed, the fastest first.
        correlations: The strongest with energy first.
        linear: Those with speed and efficiency, from the most negative with efficiency on; () where nobody
            says the floating-point operations.
        splits: Those above and those below the mean of each metric, in the order of `correlations`.
        metrics: Value of each metric for each of `figures`, NaN where it has none.
        beside: A library's product, as often as it was measured.
        levels: Means by occupancy, the lowest first; () where there is one occupancy, or very many.
    """

    figures: tuple[VariantFigures, ...]
    front: tuple[VariantFigures, ...]
    arc: tuple[Corner, ...]
    hull: tuple[VariantFigures, ...]
    faster: int
    thriftier: int
    both: int
    spreads: tuple[Spread, ...]
    correlations: tuple[Correlation, ...]
    linear: tuple[LinearCorrelation, ...]
    splits: tuple[Split, ...]
    metrics: Mapping[str, Sequence[float]]
    beside: tuple[Figures[LibraryTrial], ...] = ()
    levels: tuple[OccupancyLevel, ...] = ()

    @property
    def best(self) -> VariantFigures:
        """The variant of least energy."""
        return self.figures[0]

    @property
    def fastest(self) -> VariantFigures:
        """The fastest variant."""
        return min(self.figures, key=lambda f: f.time_s)

    @property
    def told_apart(self) -> bool:
        """Whether the intervals of the least energy and of the fastest's do not meet, if both had settled."""
        best, fastest = self.best, self.fastest
        if Settled.UNTESTED in (best.trial.settled_at_limit, fastest.trial.settled_at_limit):
            return False
        return best.energy_j + best.half_j < fastest.energy_j - fastest.half_j


def analyse(
    trials: Sequence[Trial],
    problem: Problem | KernelProblem,
    beside: Sequence[LibraryTrial] = (),
    counters: Counters = MappingProxyType({}),
) -> Analysis | None:
    """Work out what a search tells; None where no variant has a time and an energy.

    Args:
        trials: Its trials. Where some energies were measured, those that are only estimated are left out.
        problem: What the variants compute.
        beside: What a library took for the same.
        counters: Further metrics of variants, by name.
    """
    known = [t for t in trials if t.ok and math.isfinite(t.best_time_s) and math.isfinite(t.best_energy_j)]
    measured = [t for t in known if math.isfinite(t.energy_j)]
    figures = sorted((_figures(t, problem) for t in measured or known), key=lambda f: f.energy_j)
    if not figures:
        return None
    of_trial = {id(f.trial): f for f in figures}
    fastest = min(figures, key=lambda f: f.time_s)
    faster = {f.name for f in figures if f.time_s < figures[0].time_s}
    thriftier = {f.name for f in figures if f.energy_j < fastest.energy_j}
    metrics = _metrics([f.trial for f in figures])
    for name in dict.fromkeys(name for one in counters.values() for name in one):
        metrics[name] = [counters.get(f.trial.variant.name, {}).get(name, math.nan) for f in figures]
    correlations = _correlations(figures, metrics)
    return Analysis(
        figures=tuple(figures),
        front=tuple(of_trial[id(t)] for t in pareto_front(f.trial for f in figures)),
        arc=_arc(figures),
        hull=_efficiency_hull(figures),
        faster=len(faster),
        thriftier=len(thriftier),
        both=len(faster & thriftier),
        spreads=_spreads(figures),
        correlations=correlations,
        linear=_linear_correlations(figures, metrics),
        splits=_splits(figures, metrics, list(dict.fromkeys(c.metric for c in correlations))),
        metrics=metrics,
        beside=tuple(_figures(one, problem) for one in beside),
        levels=_occupancy_levels(figures),
    )


def _occupancy_levels(figures: Sequence[VariantFigures]) -> tuple[OccupancyLevel, ...]:
    """Return the means of the variants of each occupancy."""
    by_level: dict[float, list[VariantFigures]] = defaultdict(list)
    for one in figures:
        if math.isfinite(one.trial.occupancy):
            by_level[round(one.trial.occupancy, 6)].append(one)
    if not 2 <= len(by_level) <= _MOST_LEVELS:
        return ()
    return tuple(
        OccupancyLevel(
            level,
            len(some),
            fmean(f.time_s for f in some),
            fmean(f.energy_j for f in some),
            fmean(f.gflops for f in some),
            fmean(f.gflops_per_w for f in some),
        )
        for level, some in sorted(by_level.items())
    )


def _figures(trial: T, problem: Problem | KernelProblem) -> Figures[T]:
    time_s, energy_j, power_w = trial.best_time_s, trial.energy_j, trial.power_w
    half_j = COVERAGE_FACTOR * trial.power_error_w * time_s
    measured = math.isfinite(energy_j)
    if isinstance(trial, Trial):
        flops = trial.flops_of(problem)
        if not measured:
            energy_j, power_w = trial.best_energy_j, trial.best_power_w
            half_j = (trial.estimated_high_j - trial.estimated_low_j) / 2
    else:
        flops = float(problem.flops) if isinstance(problem, Problem) else math.nan
    return Figures(
        trial=trial,
        time_s=time_s,
        energy_j=energy_j,
        half_j=half_j,
        power_w=power_w,
        gflops=flops / time_s * 1e-9,
        gflops_per_w=flops / energy_j * 1e-9,
        measured=measured,
    )


def _arc(figures: Sequence[VariantFigures]) -> tuple[Corner, ...]:
    """Return the variants that are best for some alpha (Anzt et al. 2015, Eq. 2), by the lower left hull.

    Time and energy are relative to the first variant's, which scales alpha and not which ones are there.
    """
    scale_s, scale_j = figures[0].time_s, figures[0].energy_j
    points = [(f.time_s / scale_s, f.energy_j / scale_j) for f in figures]
    # The lower hull from the left on, up to the first of least energy.
    lower = _chain(points, sorted(range(len(points)), key=points.__getitem__))
    least = min(range(len(lower)), key=lambda n: points[lower[n]][1])
    chosen = [figures[n] for n in lower[least::-1]]
    edges = [0.0]
    for one, following in pairwise(chosen):
        gained = (one.time_s - following.time_s) / scale_s
        paid = (following.energy_j - one.energy_j) / scale_j
        edges.append(paid / (gained + paid))
    ends = (*edges[1:], 1.0)
    return tuple(Corner(f, low, high) for f, low, high in zip(chosen, edges, ends, strict=True))


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _efficiency_hull(figures: Sequence[VariantFigures]) -> tuple[VariantFigures, ...]:
    """Return the hull of GFLOP/s and GFLOP/s/W (their Figure 5); () where there is none."""
    known = [f for f in figures if math.isfinite(f.gflops)]
    if len(known) < 3:
        return ()
    points = [(f.gflops, f.gflops_per_w) for f in known]
    # Two chains of Andrew's algorithm ("Another efficient algorithm for convex hulls", 1979).
    order = sorted(range(len(points)), key=points.__getitem__)
    hull = [*_chain(points, order)[:-1], *_chain(points, order[::-1])[:-1]]
    if len(hull) < 3:
        return ()
    begin = max(range(len(hull)), key=lambda n: points[hull[n]][1])
    return tuple(known[n] for n in (*hull[begin:], *hull[:begin]))


def _chain(points: Sequence[tuple[float, float]], order: Sequence[int]) -> list[int]:
    """Return the corners of the hull along an order of the points."""
    found: list[int] = []
    for n in order:
        while len(found) > 1 and _turn(points[found[-2]], points[found[-1]], points[n]) <= 0:
            found.pop()
        found.append(n)
    return found


def _spreads(figures: Sequence[VariantFigures]) -> tuple[Spread, ...]:
    """Cut the variants by time into slices of equal number, and say how far their energies are apart."""
    by_time = sorted(figures, key=lambda f: f.time_s)
    found = []
    for part in np.array_split(np.arange(len(by_time)), min(_SLICES, max(1, len(by_time) // 3))):
        near = sorted((by_time[n] for n in part), key=lambda f: f.energy_j)
        times = [f.time_s for f in near]
        ratio = near[-1].energy_j / near[0].energy_j
        found.append(Spread(min(times), max(times), len(near), ratio, near[0].name, near[-1].name))
    return tuple(found)


def _correlations(
    figures: Sequence[VariantFigures], metrics: Mapping[str, Sequence[float]]
) -> tuple[Correlation, ...]:
    targets: dict[str, list[float]] = {
        "time": [f.time_s for f in figures],
        "power": [f.power_w for f in figures],
        "energy": [f.energy_j for f in figures],
        PRODUCT: [f.energy_j * f.time_s for f in figures],
    }
    found = []
    for metric, values in metrics.items():
        for target in TARGETS:
            pairs = [(v, t) for v, t in zip(values, targets[target], strict=True) if math.isfinite(v + t)]
            one = _correlation(metric, target, pairs)
            if one is not None:
                found.append(one)
    strength = {one.metric: abs(one.rho) for one in found if one.target == "energy"}
    return tuple(
        sorted(found, key=lambda c: (-strength.get(c.metric, 0.0), c.metric, TARGETS.index(c.target)))
    )


def _linear_correlations(
    figures: Sequence[VariantFigures], metrics: Mapping[str, Sequence[float]]
) -> tuple[LinearCorrelation, ...]:
    found = []
    for metric, values in metrics.items():
        rows = [
            (value, f.gflops, f.gflops_per_w, f.gflops * f.gflops_per_w)
            for value, f in zip(values, figures, strict=True)
            if math.isfinite(value + f.gflops)
        ]
        columns = np.array(rows, dtype=np.float64).T
        if len(rows) >= _FEWEST and (columns.std(axis=1) > 0).all():
            found.append(
                LinearCorrelation(metric, len(rows), *map(float, np.asarray(np.corrcoef(columns))[0, 1:]))
            )
    return tuple(sorted(found, key=lambda one: one.gflops_per_w))


def _correlation(metric: str, target: str, pairs: Sequence[tuple[float, float]]) -> Correlation | None:
    """Return a rank correlation with its interval, None where a side is constant.

    The interval is by Fisher's z with the variance (1 + rho^2 / 2) / (n - 3) (Bonett and Wright, "Sample size
    requirements for estimating Pearson, Kendall and Spearman correlations", 2000).
    """
    if len(pairs) < _FEWEST or len({v for v, _ in pairs}) < 2 or len({t for _, t in pairs}) < 2:
        return None
    rho = rank_correlation([v for v, _ in pairs], [t for _, t in pairs])
    half = COVERAGE_FACTOR * math.sqrt((1 + rho**2 / 2) / (len(pairs) - 3))
    middle = math.atanh(min(max(rho, -1 + 1e-12), 1 - 1e-12))
    low, high = math.tanh(middle - half), math.tanh(middle + half)
    # The middle is kept off 1, where Fisher's z has no end.
    return Correlation(metric, target, len(pairs), rho, min(low, rho), max(high, rho))


def _splits(
    figures: Sequence[VariantFigures], metrics: Mapping[str, Sequence[float]], names: Sequence[str]
) -> tuple[Split, ...]:
    found = []
    for name in names:
        known = [(v, f) for v, f in zip(metrics[name], figures, strict=True) if math.isfinite(v)]
        mean = sum(v for v, _ in known) / len(known)
        above, below = [f for v, f in known if v > mean], [f for v, f in known if v <= mean]
        if min(len(above), len(below)) < 2:
            continue
        time = _ratio([f.time_s for f in above], [f.time_s for f in below])
        energy = _ratio([f.energy_j for f in above], [f.energy_j for f in below])
        found.append(Split(name, mean, len(above), len(below), *time, *energy))
    return tuple(found)


def _ratio(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """Return the ratio of geometric means and its 95% interval, by Welch's t of the logarithms."""
    logs = np.log(above), np.log(below)
    middle = logs[0].mean() - logs[1].mean()
    terms = [one.var(ddof=1) / len(one) for one in logs]
    error = math.sqrt(sum(terms))
    if not error:
        return (float(np.exp(middle)),) * 3
    freedom = sum(terms) ** 2 / sum(t**2 / (len(one) - 1) for t, one in zip(terms, logs, strict=True))
    half = error * student_quantile(freedom)
    return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))


def _metrics(trials: Sequence[Trial]) -> dict[str, list[float]]:
    """Return the value of each metric for each trial, NaN where it has none."""
    plain: dict[str, Callable[[Trial], float]] = {
        "registers": lambda t: float(t.registers or math.nan),
        "occupancy": lambda t: t.occupancy,
        "L2 bytes": lambda t: t.l2_bytes,
        "DRAM bytes": lambda t: t.dram_bytes,
        "executed instructions": lambda t: float(sum(o.count for o in t.executed) or math.nan),
    }
    found = {name: [value(t) for t in trials] for name, value in plain.items()}
    axes: dict[str, list[float]] = defaultdict(lambda: [math.nan] * len(trials))
    for n, trial in enumerate(trials):
        variant = trial.variant
        names = (
            variant.by_axis
            if isinstance(variant, Configuration)
            else dict(zip(PARAMETERS, variant.values, strict=True))
        )
        for name, value in {**names, **trial.settings.by_axis}.items():
            if not isinstance(value, str):
                axes[name][n] = float(value)
        counts: dict[str, float] = defaultdict(float)
        for one in trial.executed:
            counts[f"executed {opcode_class(one.opcode)}"] += one.count
        for name, count in counts.items():
            axes[name][n] = count
    return found | axes

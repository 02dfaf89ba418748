"""How hard a search space is for a local search: the proportion of PageRank centrality.

Schoonhoven et al. (2022), section V-B and Fig. 5, after Schoonhoven et al., "Benchmarking optimization
algorithms for auto-tuning GPU kernels" (2022). In the fitness-flow graph each candidate is a node with an
edge to every neighbour that is better. A random walk along the edges is a randomized first-improvement local
search, which ends in a local minimum. PageRank says how often it arrives in each. The proportion of
centrality at p is the share of those arrivals that end in minima of at most p times the least cost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.tune.expression import Value
from ptxbench.tune.trial import Trial

# networkx's own default, with which Kernel Tuner's authors computed theirs.
_DAMPING = 0.85
# Of fewer trials nothing is said; chosen.
_FEWEST = 3
# Chosen.
PROPORTIONS = (1.01, 1.02, 1.05, 1.10, 1.15, 1.20, 1.25, 1.50)

Point = tuple[Value, ...]


@dataclass(frozen=True)
class Minimum:
    """A local minimum of the fitness-flow graph.

    Attributes:
        name: Name of the trial.
        over_least: Its cost over the least one.
        centrality: Its share of the arrivals in all minima.
    """

    name: str
    over_least: float
    centrality: float


@dataclass(frozen=True)
class Difficulty:
    """How hard one part of a search is.

    Attributes:
        part: What was tuned, in words.
        candidates: Nodes of the graph.
        edges: Edges of the graph.
        alone: Candidates of which no neighbour was tried; each counts as a minimum.
        minima: Local minima, the least cost first.
    """

    part: str
    candidates: int
    edges: int
    alone: int
    minima: tuple[Minimum, ...]

    def proportion(self, p: float) -> float:
        """Return the proportion of centrality: the share of arrivals within p times the least cost."""
        return sum(one.centrality for one in self.minima if one.over_least <= p)


def difficulty(part: str, trials: Sequence[Trial], cost: Callable[[Trial], float]) -> Difficulty:
    """Build the fitness-flow graph of trials and rank its local minima.

    Two candidates are neighbours where they differ in one parameter (Hamming distance 1), as in the paper.

    Args:
        part: What was tuned, in words.
        trials: A full sweep; those without a cost are no nodes.
        cost: What is made small.

    Raises:
        InputError: networkx is not installed, or under three trials have a cost.
    """
    networkx = _networkx()
    costs = {t.candidate.values: cost(t) for t in trials if t.ok and math.isfinite(cost(t))}
    if len(costs) < _FEWEST:
        raise InputError(f"{part}: {len(costs)} trials have a cost, and {_FEWEST} are needed; search more")
    names = {t.candidate.values: t.name for t in trials}
    graph = networkx.DiGraph()
    graph.add_nodes_from(costs)
    graph.add_edges_from((one, other) for one, other in _neighbours(costs) if costs[other] < costs[one])
    ranks: Mapping[Point, float] = networkx.pagerank(graph, alpha=_DAMPING)
    least = min(costs.values())
    minima = [point for point in costs if graph.out_degree(point) == 0]
    arrivals = sum(ranks[point] for point in minima)
    return Difficulty(
        part=part,
        candidates=len(costs),
        edges=graph.number_of_edges(),
        alone=sum(not graph.degree(point) for point in costs),
        minima=tuple(
            sorted(
                (Minimum(names[p], costs[p] / least, ranks[p] / arrivals) for p in minima),
                key=lambda one: one.over_least,
            )
        ),
    )


def _neighbours(points: Mapping[Point, float]) -> Iterator[tuple[Point, Point]]:
    """Yield every ordered pair of points that differ in one place."""
    groups: dict[tuple[int, Point], list[Point]] = defaultdict(list)
    for point in points:
        for place in range(len(point)):
            groups[place, (*point[:place], *point[place + 1 :])].append(point)
    for group in groups.values():
        for one in group:
            for other in group:
                if one is not other:
                    yield one, other


def parts(trials: Sequence[Trial]) -> tuple[Difficulty, ...]:
    """Return the difficulty of time, of energy at the highest clock, with clocks, and with power limits.

    Those come out for which there are trials. Time is tuned at the highest clock and power limit.

    Raises:
        InputError: networkx is not installed, or there are too few trials.
    """
    highest = max((t.settings.sm_clock_mhz or 0 for t in trials), default=0)
    limit_mw = max((t.settings.power_limit_mw or 0 for t in trials), default=0)
    clocked = [t for t in trials if t.settings.sm_clock_mhz and _at(t.settings.power_limit_mw, limit_mw)]
    capped = [t for t in trials if t.settings.power_limit_mw and _at(t.settings.sm_clock_mhz, highest)]
    fast = [t for t in clocked if t.settings.sm_clock_mhz == highest] or [
        t for t in capped if t.settings.power_limit_mw == limit_mw
    ]
    plain = fast or list(trials)
    found = [
        difficulty("time", plain, lambda t: t.best_time_s),
        difficulty("energy", plain, lambda t: t.best_energy_j),
    ]
    for part, some in (("energy, SM clock", clocked), ("energy, power limit", capped)):
        if len({t.settings for t in some}) > 1:
            found.append(difficulty(part, some, lambda t: t.best_energy_j))
    return tuple(found)


def _at(value: int | None, highest: int) -> bool:
    return value is None or value == highest


def _networkx() -> Any:
    try:
        import networkx
    except ImportError as error:
        raise InputError("the fitness-flow graph needs networkx; run 'pip install networkx'") from error
    return networkx

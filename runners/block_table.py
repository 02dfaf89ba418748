"""Table IV of Guerreiro et al. (2015): what their algorithms find, beside the best of all runs.

Every combination of block sizes (and clocks) has been run before; the algorithms are then played on what was
measured. So they see the same noise as the best of all does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ptxbench.tune.blocks.concurrent import ConcurrentTrial, run_name
from ptxbench.tune.blocks.concurrent_search import concurrent_cost, cost_of
from ptxbench.tune.blocks.guerreiro import Choice, ordered_distributions, tune_blocks
from ptxbench.tune.blocks.search import BlockVariant, default_block

TIME, ENERGY = "time", "energy"


@dataclass(frozen=True)
class BlockCase:
    """One kernel, or several at once, of which every combination was run.

    Attributes:
        kernels: Names.
        sizes: Block sizes of each kernel.
        clocks_mhz: Clocks that were set, (0,) where none was.
        trials: Runs by their names.
    """

    kernels: tuple[str, ...]
    sizes: tuple[tuple[BlockVariant, ...], ...]
    clocks_mhz: tuple[int, ...]
    trials: Mapping[str, ConcurrentTrial]

    @property
    def combinations(self) -> tuple[tuple[BlockVariant, ...], ...]:
        """One block size of each kernel, in every way."""
        return tuple(itertools.product(*self.sizes))

    @property
    def default(self) -> tuple[BlockVariant, ...]:
        """256 threads in each block, or the size nearest to that."""
        return tuple(default_block(one) for one in self.sizes)

    def trial(self, chosen: Sequence[BlockVariant], clock_mhz: int) -> ConcurrentTrial:
        """Return the run of one combination."""
        return self.trials[run_name([one.variant for one in chosen], clock_mhz)]


@dataclass(frozen=True)
class BlockRow:
    """What one algorithm found of one case.

    Attributes:
        kernels: Names.
        algorithm: Number of the paper's algorithm, 1 to 4.
        objective: "time" or "energy".
        chosen: The run that it ended at.
        best: The best run of all.
        default: The run with the default blocks, at the highest clock.
        fastest: The run that the algorithm for time ends at, at the highest clock.
        iterations: Different runs that it needed.
        tried: Combinations of high occupancy.
        possible: All combinations.
        gap: Cost over that of the best of all, less 1.
        saved: Share of the default's cost that is saved.
        energy_saved: Share of the energy of `fastest` that is saved.
        slower: Time over that of `fastest`, less 1.
    """

    kernels: tuple[str, ...]
    algorithm: int
    objective: str
    chosen: ConcurrentTrial
    best: ConcurrentTrial
    default: ConcurrentTrial
    fastest: ConcurrentTrial
    iterations: int
    tried: int
    possible: int
    gap: float
    saved: float
    energy_saved: float
    slower: float


def block_rows(case: BlockCase) -> tuple[BlockRow, ...]:
    """Return what the algorithms find: by time, by energy, and by energy with clocks where there are any."""
    top = (max(case.clocks_mhz),)
    several = len(case.kernels) > 1
    fastest = _found(case, TIME, top)[0]
    rows = [
        _row(case, 3 if several else 1, TIME, top, fastest),
        _row(case, 3 if several else 1, ENERGY, top, fastest),
    ]
    if len(case.clocks_mhz) > 1:
        rows.append(_row(case, 4 if several else 2, ENERGY, case.clocks_mhz, fastest))
    return tuple(rows)


def _found(case: BlockCase, objective: str, clocks_mhz: Sequence[int]) -> tuple[ConcurrentTrial, int, int]:
    """Return the run that an algorithm ends at, its iterations, and the combinations of high occupancy."""
    ordered = [ordered_distributions(one) for one in case.sizes]

    def trial(choice: Choice, clock_mhz: int) -> ConcurrentTrial:
        return case.trial([one[n] for one, n in zip(ordered, choice, strict=True)], clock_mhz)

    found = tune_blocks(
        [len(one) for one in ordered],
        lambda choice, clock_mhz: concurrent_cost(trial(choice, clock_mhz), objective),
        clocks_mhz,
    )
    high = math.prod(len(one) for one in ordered) * len(clocks_mhz)
    return trial(found.choice, found.clock_mhz), found.iterations, high


def _row(
    case: BlockCase, algorithm: int, objective: str, clocks_mhz: Sequence[int], fastest: ConcurrentTrial
) -> BlockRow:
    chosen, iterations, high = _found(case, objective, clocks_mhz)
    cost = partial(cost_of, objective=objective)
    every = [case.trial(one, clock_mhz) for one in case.combinations for clock_mhz in clocks_mhz]
    best, default = min(every, key=cost), case.trial(case.default, max(case.clocks_mhz))
    return BlockRow(
        kernels=case.kernels,
        algorithm=algorithm,
        objective=objective,
        chosen=chosen,
        best=best,
        default=default,
        fastest=fastest,
        iterations=iterations,
        tried=high,
        possible=len(every),
        gap=cost(chosen) / cost(best) - 1,
        saved=1 - cost(chosen) / cost(default),
        energy_saved=1 - chosen.energy_j / fastest.energy_j,
        slower=chosen.time_s / fastest.time_s - 1,
    )

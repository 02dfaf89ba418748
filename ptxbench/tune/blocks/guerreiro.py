"""Block sizes and clocks by few runs: Algorithms 1 to 4 of Guerreiro et al. (2015).

J. Guerreiro, A. Ilic, N. Roma, P. Tomas, "Multi-Kernel Auto-Tuning on GPUs: Performance and Energy-Aware
Optimization" (2015), section III.

A *distribution* is a number of threads in a block. Those of high occupancy are tried in a fixed order, until
the next one is no better. Cost is what a run is judged by: time or energy. A run that was made is not made
again, as the iterations of the paper's Table IV count.

Where a listing and its text disagree, this is the text:

- Order of D. Step 5 of Algorithm 1 sorts by non-decreasing occupancy, and the text then begins with "the best
  potential to provide the highest performance (D[0])": here the highest occupancy comes first. Among equals
  the text orders by the number of blocks: here the fewest, which are the largest, come first. Table IV says
  so: StreamCluster ends at 128 threads after four runs on the K20c, at 1024 after two on the GTX680.
- Order of F. Step 2 of Algorithm 2 sorts by non-decreasing frequency, and the text reduces the frequency from
  one to the next: here the highest comes first. F[length(F)] is its last.
- Loops from 0 to length(D) end at the last distribution.
- "As long as the time is reduced" stops at an equal time; step 9 of Algorithm 1 goes on.
- Algorithm 2 returns from its last distribution at once (step 21), although it may differ from the one whose
  frequencies were examined. The text goes on with the remaining frequencies "if the determined configuration
  differs from the one previously tested".
- Algorithm 3 names steps 6 to 15 of Algorithm 1, which has 12: here 6 to 12. Its step 12 keeps the first
  kernel of K as it was found to be in the beginning; the text restarts "whenever the obtained distribution
  differs".
- Algorithm 4 returns the last distribution of each kernel (step 17), and its step 15 jumps before it takes
  over what was found; the text takes it over, restarts, and returns what was found.

Three things are in neither. K of Algorithm 4 is sorted by the energy of each kernel, which no sensor of the
board tells: the shares that a run reports serve. And the restarts of Algorithms 3 and 4 can go round in a
circle: when a choice comes back the cheapest run so far is taken. `patience` is ours: the paper ends at the
first distribution that is no better (1); with 2 the search passes one bad size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

# Section III-A: only distributions over this occupancy are tried.
HIGH_OCCUPANCY = 0.8


class Distribution(Protocol):
    """A block size of threads with its occupancy, 0 to 1."""

    @property
    def threads(self) -> int:
        """Threads of a block."""

    @property
    def occupancy(self) -> float:
        """Share of the warps that an SM may hold."""


D = TypeVar("D", bound=Distribution)
# Index of a distribution for each kernel.
Choice = tuple[int, ...]


def ordered_distributions(distributions: Sequence[D], over: float = HIGH_OCCUPANCY) -> tuple[D, ...]:
    """Return the distributions that are tried, the first to try first (Algorithm 1, steps 1 to 5).

    Where no occupancy is high, those of the highest are tried, which the paper does not say.

    Args:
        distributions: Block sizes with their occupancy.
        over: Occupancy that is high.
    """
    fitting = [one for one in distributions if one.occupancy > 0]
    high = [one for one in fitting if one.occupancy > over]
    if not high:
        most = max((one.occupancy for one in fitting), default=0.0)
        high = [one for one in fitting if one.occupancy == most]
    return tuple(sorted(high, key=lambda one: (-one.occupancy, -one.threads)))


@dataclass(frozen=True)
class Found:
    """What an algorithm found.

    Attributes:
        choice: Index of a distribution for each kernel.
        clock_mhz: Its clock; 0 where clocks are fixed.
        cost: Cost of its run.
        iterations: Different runs that were made.
    """

    choice: Choice
    clock_mhz: int
    cost: float
    iterations: int


@dataclass(frozen=True)
class ConcurrentCost:
    """What a run of several kernels at once cost.

    Attributes:
        cost: Of the whole run.
        shares: What orders the kernels, one each: their times or energies.
    """

    cost: float
    shares: tuple[float, ...]


def tune_blocks(
    counts: Sequence[int],
    run: Callable[[Choice, int], ConcurrentCost],
    clocks_mhz: Sequence[int] = (0,),
    patience: int = 1,
) -> Found:
    """Lower the clock while that pays, then change one kernel's blocks; again, until neither changes.

    This is Algorithm 1 for one kernel at one clock, 2 for one kernel at several, 3 for several kernels at one
    clock, and 4 for several at several.

    Args:
        counts: Distributions of each kernel, in the order of `ordered_distributions`; at least one each.
        run: Runs all kernels at once at a clock, each with the distribution that has this index; its cost is
            infinite where that does not run.
        clocks_mhz: Clocks that can be set; (0,): none is.
        patience: Distributions in a row that are no better, at which the search of a kernel ends.
    """
    made: dict[tuple[Choice, int], ConcurrentCost] = {}

    def once(choice: Choice, clock_mhz: int) -> ConcurrentCost:
        if (choice, clock_mhz) not in made:
            made[choice, clock_mhz] = run(choice, clock_mhz)
        return made[choice, clock_mhz]

    def anew(choice: Choice, kernel: int, clock_mhz: int) -> Choice:
        """Return the choice with one kernel's distribution found anew, the others as they are."""

        def with_index(index: int) -> Choice:
            return (*choice[:kernel], index, *choice[kernel + 1 :])

        return with_index(
            _not_beaten(counts[kernel], lambda n: once(with_index(n), clock_mhz).cost, patience)
        )

    clocks = sorted(clocks_mhz, reverse=True)
    choice, at = (0,) * len(counts), 0
    chosen: set[tuple[Choice, int]] = set()
    by_share: list[int] = []
    while (choice, at) not in chosen:
        chosen.add((choice, at))
        while at + 1 < len(clocks) and once(choice, clocks[at + 1]).cost < once(choice, clocks[at]).cost:
            at += 1
        if not by_share or len(clocks) > 1:  # Algorithm 3 sorts K once, Algorithm 4 after each restart
            shares = once(choice, clocks[at]).shares
            by_share = sorted(range(len(counts)), key=lambda kernel: -shares[kernel])
        found = (anew(choice, kernel, clocks[at]) for kernel in by_share)
        better = next((one for one in found if one != choice), None)
        if better is None:
            return Found(choice, clocks[at], once(choice, clocks[at]).cost, len(made))
        choice = better
    choice, clock_mhz = min(made, key=lambda key: made[key].cost)
    return Found(choice, clock_mhz, made[choice, clock_mhz].cost, len(made))


def _not_beaten(count: int, cost: Callable[[int], float], patience: int) -> int:
    """Return the distribution behind which so many are no better; what does not run is passed over."""
    best, best_cost, no_better = 0, math.inf, 0
    for index in range(count):
        found = cost(index)
        if math.isinf(found):
            continue
        if found < best_cost:
            best, best_cost, no_better = index, found, 0
        else:
            no_better += 1
        if no_better == patience:
            break
    return best

"""In which order a round of a batch runs its kernels: from hot to cold, or in random order of short runs.

The power of all kernels drifts in steps, among other causes with the temperature (studies/h200/power.md). In
a sweep from the hottest kernel to the coldest, neighbours have about the same temperature, so a drift level
lasts and can be found. But a step at the same kernel in every sweep would be taken for the power of that
kernel. In random order each kernel meets different levels. Short runs of neighbours are shuffled, not single
kernels: a kernel that draws 100 W more or less than the one before it meets a step two to ten times as often
as one that draws the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

# Subjects of one batch: enough that the rounds of one subject lie seconds apart and that the warm-up of a
# round costs little, few enough that a batch ends within a minute.
BATCH_SIZE = 40

# So many neighbours stay together, or fewer where that would leave fewer runs than this.
_NEIGHBOURS = 6
_RUNS = 4


def runs_by_chance(ordered: Sequence[T], rng: random.Random) -> list[T]:
    """Return the same items in random order, in which short runs of neighbours stay together.

    The end of the first run is random too, so that no two neighbours are in the same run every time.

    Args:
        ordered: Items, neighbours beside each other.
        rng: Source of random numbers.
    """
    length = max(1, min(_NEIGHBOURS, len(ordered) // _RUNS))
    first = rng.randint(1, length)
    runs = [ordered[:first], *(ordered[at : at + length] for at in range(first, len(ordered), length))]
    rng.shuffle(runs)
    return [item for run in runs for item in run]

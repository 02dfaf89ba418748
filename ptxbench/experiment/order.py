"""In which order a round of a batch runs its kernels: from hot to cold, or by chance in runs of neighbours.

The level of power that all kernels share at a time moves in steps, among other things with the temperature
(studies/h200/power.md). In a sweep from the hottest kernel to the coldest neighbours are alike in warmth,
so that a level lasts and shows; but what changes at the same kernel in every sweep would pass for its power.
In an order of chance each is met at other levels. There it is runs of neighbours that chance moves: a kernel
that draws 100 W more or less than the one before it meets a step two to ten times as often as one that draws
the same.
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


def runs_by_chance(ordered: Sequence[T], chance: random.Random) -> list[T]:
    """Return the same items in an order of chance, in which runs of neighbours stay together.

    Where the first run ends is by chance, too, so that no two neighbours are in one run every time.

    Args:
        ordered: Items in an order of theirs.
        chance: What draws.
    """
    length = max(1, min(_NEIGHBOURS, len(ordered) // _RUNS))
    first = chance.randint(1, length)
    runs = [ordered[:first], *(ordered[at : at + length] for at in range(first, len(ordered), length))]
    chance.shuffle(runs)
    return [item for run in runs for item in run]

"""Measurements of one variant taken together, so that none stands first by a lucky reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ptxbench.tune.outcome import PowerOutcome

# So many of a ranking are measured again, and as many more as come to stand there by that, so often.
FIRST, ROUNDS = 5, 3
# Two energies of a variant that differ by more standard errors, and by more of themselves, contradict.
_CHANCE, _ALIKE = 3.0, 0.01
# A third measurement decides.
_MOST = 3

R = TypeVar("R", bound=PowerOutcome)


def repeat_measurement(first: R, measure: Callable[[int], R]) -> R:
    """Measure something again; a third decides where the second contradicts the first, or failed.

    Args:
        first: The first measurement.
        measure: Makes another, given how many were made before.

    Returns:
        Those that count as one, or the last that failed where the first alone counts.
    """
    counted, failed = [first], None
    for number in range(1, _MOST):
        if len(counted) > 1 and _agree(*counted[:2]):
            break
        one = measure(number)
        if one.ok:
            counted.append(one)
        else:
            failed = one
    if failed and len(counted) == 1:
        return replace(failed, reason=f"measured again: {failed.reason}")
    return counted[-1].repeated(counted[:-1])


def _agree(one: PowerOutcome, other: PowerOutcome) -> bool:
    chance_j = _CHANCE * math.hypot(one.error_j, other.error_j)
    return abs(one.energy_j - other.energy_j) <= max(chance_j, _ALIKE * other.energy_j)


def repeat_first(
    first: Callable[[], Sequence[str]], repeats: Callable[[str], int], again: Callable[[str], None]
) -> None:
    """Measure the first of a ranking again until all that stand there were measured more than once.

    Args:
        first: Returns the names of the first `FIRST` as they stand now.
        repeats: Returns how often one was measured.
        again: Measures one again.
    """
    for _ in range(ROUNDS):
        names = [name for name in first() if repeats(name) < 2]
        if not names:
            return
        for name in names:
            again(name)

"""Measurements of one variant taken together, so that none stands first by a lucky reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, median_high, median_low, stdev
from typing import Protocol, TypeVar

# So many of a ranking are measured again, and as many more as come to stand there by that, so often.
FIRST, ROUNDS = 5, 3
# Two energies of a variant that differ by more standard errors, and by more of themselves, contradict.
_CHANCE, _ALIKE = 3.0, 0.01
_MOST = 3


@dataclass(frozen=True)
class Measured:
    """One measurement of a variant.

    Attributes:
        energy_j: Energy of a launch.
        time_s: Time of a launch while power was read.
        power_error_w: Standard error of the power.
    """

    energy_j: float
    time_s: float
    power_error_w: float

    @property
    def power_w(self) -> float:
        """Its power."""
        return self.energy_j / self.time_s

    @property
    def error_j(self) -> float:
        """Standard error of its energy."""
        return self.power_error_w * self.time_s


def together(repeats: Sequence[Measured]) -> Measured:
    """Return two or more measurements as one: the median energy, with the error that their scatter shows."""
    energies_j = [one.energy_j for one in repeats]
    middle = (median_low(energies_j), median_high(energies_j))
    time_s = fmean(one.time_s for one in repeats if one.energy_j in middle)
    error_j = max(fmean(one.error_j for one in repeats), stdev(energies_j)) / math.sqrt(len(repeats))
    return Measured(median(energies_j), time_s, error_j / time_s)


class Repeatable(Protocol):
    """What was measured once."""

    @property
    def ok(self) -> bool:
        """Whether its figures count."""
        ...

    @property
    def measured(self) -> Measured:
        """Its energy and time."""
        ...


R = TypeVar("R", bound=Repeatable)


def repeat_measurement(first: R, measure: Callable[[int], R]) -> tuple[list[R], R | None]:
    """Measure something again; a third decides where the second contradicts the first, or failed.

    Args:
        first: The first measurement.
        measure: Makes another, given how many were made before.

    Returns:
        Those that count, and the last that does not.
    """
    counted, failed = [first], None
    for number in range(1, _MOST):
        if _agree([one.measured for one in counted]):
            break
        one = measure(number)
        if one.ok:
            counted.append(one)
        else:
            failed = one
    return counted, failed


def _agree(repeats: Sequence[Measured]) -> bool:
    if len(repeats) < 2:
        return False
    one, other = repeats[0], repeats[1]
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

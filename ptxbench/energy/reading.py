"""Energy of one kernel as one method gives it, and whether two of them agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status


@dataclass(frozen=True)
class EnergyReading:
    """Energy of one kernel by one method.

    Attributes:
        energy_j: Energy, NaN unless `status` is OK.
        readings: How many readings it rests on.
        status: Validity.
        reason: One sentence where `status` is not OK.
        error_j: Standard error of `energy_j`, NaN where the method knows none. What a meter alone can
            tell, gain and offset of the sensor, is not in it.
    """

    energy_j: float
    readings: int
    status: Status = Status.OK
    reason: str = ""
    error_j: float = math.nan


def no_energy(status: Status, reason: str) -> EnergyReading:
    """Return the reading of a method that could not answer."""
    return EnergyReading(math.nan, 0, status, reason)


def disagreements(readings: Mapping[str, EnergyReading]) -> tuple[str, ...]:
    """Return a sentence for each two readings of one kernel that differ by more than their errors.

    Two energies a and b with standard errors disagree where |a - b| > 1.96 sqrt(e_a^2 + e_b^2), that is
    with 95% confidence. Readings without an energy or an error are passed over.

    Args:
        readings: Readings of the same kernel run, by the name of their source or method.
    """
    known = {
        name: r for name, r in readings.items() if math.isfinite(r.energy_j) and math.isfinite(r.error_j)
    }
    sentences = []
    for (first, a), (second, b) in combinations(known.items(), 2):
        allowed_j = COVERAGE_FACTOR * math.hypot(a.error_j, b.error_j)
        if abs(a.energy_j - b.energy_j) > allowed_j:
            sentences.append(
                f"{first} gives {a.energy_j:.4g} J and {second} {b.energy_j:.4g} J,"
                f" {100 * (b.energy_j / a.energy_j - 1):+.2g}%, where their errors allow"
                f" {100 * allowed_j / a.energy_j:.2g}%"
            )
    return tuple(sentences)

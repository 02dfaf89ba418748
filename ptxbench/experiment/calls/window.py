"""What calls of one function back to back took, once or several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ptxbench.analysis.statistics import Estimate, Uncertainty, estimate

# Rounds below which the scatter is not known well enough for a verdict.
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class CallWindow:
    """Calls of one function, back to back, while power was read.

    Attributes:
        round: Number of the round; in each, every function has one window.
        time_s: Time of one call, s.
        power_w: Mean power, W; NaN where it is not known.
        power_error_w: Standard error of it.
        clock_mhz: Mean SM clock, MHz; NaN where it was not read.
        temperature_c: GPU temperature right after it.
        at_limit: Whether the power limit or heat held the clock down.
        reason: Why it does not count; "" where it does.
        note: What must be said of its readings; "" for nothing.
    """

    round: int
    time_s: float
    power_w: float
    power_error_w: float
    clock_mhz: float = math.nan
    temperature_c: float = math.nan
    at_limit: bool = False
    reason: str = ""
    note: str = ""

    @property
    def counts(self) -> bool:
        """Whether its power is known, and had settled."""
        return not self.reason and math.isfinite(self.power_w)

    @property
    def energy_j(self) -> float:
        """Energy of one call, J."""
        return self.power_w * self.time_s

    @property
    def error_j(self) -> float:
        """Standard error of it, by the readings alone."""
        return self.power_error_w * self.time_s

    def without(self, other: CallWindow) -> CallWindow:
        """Return it less what was called beside it each time: a write of memory that empties L2."""
        time_s = self.time_s - other.time_s
        error_j = math.hypot(self.error_j, other.error_j)
        return CallWindow(
            self.round,
            time_s,
            (self.energy_j - other.energy_j) / time_s if time_s > 0 else math.nan,
            error_j / time_s if time_s > 0 else math.nan,
            self.clock_mhz,
            self.temperature_c,
            self.at_limit,
            self.reason or other.reason or ("" if time_s > 0 else "it takes no time beside emptying L2"),
            self.note,
        )


def mean_of(values: Sequence[float], errors: Sequence[float] = ()) -> Estimate:
    """Return the mean of repeats with its interval: by their scatter, but not below their own errors.

    Args:
        values: One of each repeat, shape (n,); without one the mean is NaN.
        errors: Standard error of each, where it is known.
    """
    found = estimate(values)
    known = [error for error in errors if math.isfinite(error)]
    if not values or not known:
        return found
    least = fmean(known) / math.sqrt(len(values))
    scatter = found.uncertainty
    if scatter.standard_error > least:
        return found
    return Estimate(found.mean, Uncertainty(least), found.n)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of some lies below, by linear interpolation; NaN of none."""
    return float(np.quantile(values, share)) if values else math.nan

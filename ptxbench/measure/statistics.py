"""Means, and how well they are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% confidence interval.

    Attributes:
        mean: Mean, NaN where there is no value.
        ci95: Half-width of the interval, NaN where there are fewer than two values.
        n: Number of values.
    """

    mean: float
    ci95: float
    n: int

    def times(self, factor: float) -> Estimate:
        """Return the estimate of `factor` times the quantity."""
        return Estimate(self.mean * factor, self.ci95 * factor, self.n)

    def precise(self, fraction: float) -> bool:
        """Return whether the half-width is known and at most `fraction` of the mean."""
        return self.n >= 2 and self.ci95 <= fraction * abs(self.mean)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values and Student's 95% interval of it.

    Args:
        values: Shape (n,); NaN is not allowed.
    """
    n = len(values)
    if n == 0:
        return Estimate(math.nan, math.nan, 0)
    mean = float(np.mean(values))
    if n == 1:
        return Estimate(mean, math.nan, 1)
    standard_error = float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, student95(n - 1) * standard_error, n)


@cache
def student95(degrees: float) -> float:
    """Return the two-sided 95% quantile of Student's t distribution."""
    from scipy.stats import t  # loading scipy.stats takes a second: only where a number is asked for

    return float(t.ppf(0.975, degrees))

"""Means, and how well they are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ptxbench.core.arrays import Floats
from ptxbench.core.distributions import student_quantile

_student95 = cache(student_quantile)


@dataclass(frozen=True)
class Uncertainty:
    """How far off a value may be.

    Attributes:
        standard_error: Standard error, NaN where it is not known.
        degrees: Degrees of freedom that the standard error itself is known with; infinite: exactly.
    """

    standard_error: float
    degrees: float = math.inf

    @property
    def ci95(self) -> float:
        """Half-width of the 95% interval."""
        if not self.standard_error > 0:
            return self.standard_error
        return _student95(round(self.degrees, 3)) * self.standard_error

    def times(self, factor: float) -> Uncertainty:
        """Return the uncertainty of `factor` times the quantity."""
        return Uncertainty(self.standard_error * abs(factor), self.degrees)

    def repeated(self, n: int, most: int) -> Uncertainty:
        """Return the uncertainty of the mean of `most` values, where that of `n` values is this one."""
        return Uncertainty(self.standard_error * math.sqrt(n / most), self.degrees + most - n)


UNKNOWN = Uncertainty(math.nan)


def combined(parts: Iterable[Uncertainty]) -> Uncertainty:
    """Return the uncertainty of a sum of independent quantities, by Welch and Satterthwaite.

    Intervals of few degrees of freedom, added in quadrature, would hold more than 95%. Of two or three
    degrees this one holds 93 to 95%.
    (JCGM 100:2008, "Guide to the expression of uncertainty in measurement", eq. G.2b.)
    """
    known = [(part.standard_error**2, part.degrees) for part in parts]
    variance = sum(own for own, _ in known)
    if not variance > 0:
        return Uncertainty(math.sqrt(variance))
    spread = sum((own / variance) ** 2 / degrees for own, degrees in known if own)
    return Uncertainty(math.sqrt(variance), 1 / spread if spread else math.inf)


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% confidence interval.

    Attributes:
        mean: Mean, NaN where there is no value.
        uncertainty: Of the mean; its standard error is NaN where there are fewer than two values.
        n: Number of values.
    """

    mean: float
    uncertainty: Uncertainty
    n: int

    @property
    def ci95(self) -> float:
        """Half-width of the interval."""
        return self.uncertainty.ci95

    def times(self, factor: float) -> Estimate:
        """Return the estimate of `factor` times the quantity."""
        return Estimate(self.mean * factor, self.uncertainty.times(factor), self.n)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values and Student's 95% interval of it.

    Args:
        values: Shape (n,); NaN is not allowed.
    """
    n = len(values)
    if n == 0:
        return Estimate(math.nan, UNKNOWN, 0)
    mean = float(np.mean(values))
    if n == 1:
        return Estimate(mean, UNKNOWN, 1)
    return Estimate(mean, Uncertainty(float(np.std(values, ddof=1)) / math.sqrt(n), n - 1), n)


def weighted(values: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Return the weighted mean of independent values, and the variance of a value of weight one.

    The mean's variance is that over the sum of the weights.

    Args:
        values: Shape (n,), n at least 2; NaN is not allowed.
        weights: The inverse of each value's variance, up to one factor, shape (n,).
    """
    mean = float(np.average(values, weights=weights))
    squares = np.asarray(weights) * (np.asarray(values) - mean) ** 2
    return mean, float(squares.sum()) / (len(values) - 1)


def error_of_series(values: Floats) -> float:
    """Return the standard error of the mean of values that follow each other and resemble their neighbours.

    By the sum of their autocovariances as far as pairs of these are positive: the initial positive sequence
    of Geyer, "Practical Markov chain Monte Carlo", Stat. Sci. 7, 1992, section 3.3.

    Args:
        values: In the order of time, shape (n,), n at least 1.
    """
    n = len(values)
    away = values - values.mean()
    covariance = np.append(np.correlate(away, away, "full")[n - 1 :] / n, 0.0)
    pairs = covariance[0 : 2 * ((n + 1) // 2) : 2] + covariance[1 : 2 * ((n + 1) // 2) : 2]
    ends = np.append(np.flatnonzero(pairs <= 0), len(pairs))
    variance = 2 * float(pairs[: ends[0]].sum()) - float(covariance[0])
    return math.sqrt(max(variance, float(covariance[0])) / n)

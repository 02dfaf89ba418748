"""How much rounds scatter, learnt from all kernels of a run, so that few rounds of one kernel tell enough.

Three rounds give a variance with two degrees of freedom, and Student's interval of them is 4.3
standard errors wide. But the same board, sensor and clock make the scatter of every kernel. The variances
of the kernels of one optimization level are taken to be drawn from a scaled inverse chi-square
distribution, whose scale and degrees of freedom are fitted to all of them. The variance of one kernel is
then the mean of its own and the common one, weighted by their degrees of freedom, and its t has both their
degrees (Smyth, "Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3, 2004, section
4 and section 6.2). Where kernels differ much in their scatter, the fit gives the common variance little
weight.

The common variance follows power: its logarithm is a line in the logarithm of power, fitted to all kernels
(the trend of Law et al., "voom", Genome Biol. 15:R29, 2014, where it is a smooth curve). The slope is held
to what can be: a sensor's noise is the same at every power, what changes the power itself is in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.statistics import Estimate, Uncertainty, estimate, weighted
from ptxbench.core.distributions import polygamma

# A distribution of variances cannot be estimated from fewer kernels.
_MIN_KERNELS = 8
# Units that look alike to chance would have any number of degrees; so many are believed.
_MAX_DEGREES = 30.0
# A variance of zero has no logarithm: so small a fraction of the median counts as the least.
_LEAST_VARIANCE = 1e-5
# Steps end at a change of 1e-8: after 13 at most for values of 1e-6 to 1e6 (tried).
_NEWTON_STEPS = 50
# Slopes of a variance that is a fraction of the power squared: of a scatter that is the same at every power,
# and of one that is in proportion to it.
_SLOPES = (-2.0, 0.0)


@dataclass(frozen=True)
class Scatter:
    """How much the values of one kernel scatter.

    Attributes:
        variance: Sample variance of a value of weight one, as a fraction of the power squared.
        degrees: Its degrees of freedom, at least 1.
        power_w: The kernel's power.
    """

    variance: float
    degrees: int
    power_w: float


@dataclass(frozen=True)
class ScatterPrior:
    """Prior of a kernel's variance, from the scatter of other kernels.

    Attributes:
        variance: Typical variance of one value at `power_w`, as a fraction of the power squared.
        degrees: Degrees of freedom that it counts for; 0: nothing is known.
        power_w: Power in the middle of those kernels.
        slope: The fraction goes with power to this.
    """

    variance: float
    degrees: float
    power_w: float = 1.0
    slope: float = 0.0

    def at(self, power_w: float) -> float:
        """Return the typical variance at a power, as a fraction of the power squared."""
        return self.variance * (power_w / self.power_w) ** self.slope if self.slope else self.variance


NO_PRIOR = ScatterPrior(0.0, 0.0)


def fit_prior(kernels: Sequence[Scatter]) -> ScatterPrior:
    """Fit the distribution that the kernels' variances are drawn from (Smyth 2004, section 6.2).

    Args:
        kernels: The scatter of each.

    Returns:
        `NO_PRIOR` where there are too few kernels, or none of them scatters.
    """
    variances = np.array([kernel.variance for kernel in kernels])
    if len(kernels) < _MIN_KERNELS or not np.median(variances) > 0:
        return NO_PRIOR
    half = np.array([kernel.degrees for kernel in kernels]) / 2
    own = np.maximum(variances, _LEAST_VARIANCE * np.median(variances))
    e = np.log(own) - polygamma(0, half) + np.log(half)
    log_power = np.log([kernel.power_w for kernel in kernels])
    middle = float(log_power.mean())
    away = log_power - middle
    slope = float(np.clip(away @ e / (away @ away), *_SLOPES)) if away.any() else 0.0
    # Two figures of the line are fitted.
    spread = float(np.var(e - slope * away, ddof=2) - polygamma(1, half).mean())
    common = min(2 * _inverse_trigamma(spread), _MAX_DEGREES) if spread > 0 else _MAX_DEGREES
    typical = math.exp(float(e.mean()) + float(polygamma(0, common / 2)) - math.log(common / 2))
    return ScatterPrior(typical, common, math.exp(middle), slope)


def moderated(
    values: Sequence[float],
    prior: ScatterPrior,
    power_w: float = 1.0,
    scale: float = 1.0,
    weights: Sequence[float] | None = None,
) -> Estimate:
    """Return the mean of independent values and its 95% interval, helped by the scatter of other kernels.

    Without a prior this is Student's interval. (Smyth 2004, section 4.)

    Args:
        values: Shape (n,); NaN is not allowed.
        prior: What other kernels say; its variance is of values over `scale`.
        power_w: Power that the values were taken at.
        scale: What that power is in the values' own unit.
        weights: How much each value counts, shape (n,); variances are of a value of weight one. None: alike.
    """
    n = len(values)
    if n < 2:
        return estimate(values)
    weights = weights or [1.0] * n
    mean, own = weighted(values, weights)
    degrees = prior.degrees + n - 1
    variance = (prior.degrees * prior.at(power_w) * scale**2 + (n - 1) * own) / degrees
    return Estimate(mean, Uncertainty(math.sqrt(variance / sum(weights)), degrees), n)


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = value, by Newton's steps on 1 / trigamma (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(_NEWTON_STEPS):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x

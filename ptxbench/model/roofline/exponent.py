"""How the energy of a flop goes with the clock, from kernels that a power limit slowed down.

What the SM clock drives takes E(f) = E(f0) (f / f0)^gamma (`model.clocks.law`). Of a slowed kernel whose time
is bound by the clock, f / f0 is its speed on an SM over that of the same kernel below the limit; E(f0) and
what does not go with the clock are those of the fit of kernels below the limit. The interval of gamma holds
the errors of that fit, which all kernels share, and the scatter of the kernels about the law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.arrays import Floats
from ptxbench.core.distributions import f_tail, student_quantile
from ptxbench.core.estimate import Estimate
from ptxbench.model.clocks.law import PowerLaw
from ptxbench.model.roofline.fit import RooflineFit

# Fewer kernels are not fitted; chosen.
FEWEST = 3


@dataclass(frozen=True)
class SlowedKernel:
    """One launch of a kernel that the power limit slowed down.

    Attributes:
        ratio: Its clock over the full clock.
        energy_j: Its energy, J.
        clocked: How much it has of each term of the fit that the SM clock drives.
        beside: How much of each other.
    """

    ratio: float
    energy_j: float
    clocked: Mapping[str, float]
    beside: Mapping[str, float]


@dataclass(frozen=True)
class FittedExponent:
    """gamma of some kernels.

    Attributes:
        value: With its 95% interval.
        kernels: How many kernels it rests on.
        lowest_ratio: Lowest clock among them over the full clock.
        scatter: Root mean square of the relative errors of their energies by it.
        misfit: Probability that kernels of one gamma bend as much over the clock; NaN of three.
    """

    value: Estimate
    kernels: int
    lowest_ratio: float
    scatter: float
    misfit: float


def fit_exponent(fit: RooflineFit, kernels: Sequence[SlowedKernel]) -> FittedExponent | None:
    """Return gamma of some kernels; None of fewer than three, or where the fit explains no energy of theirs.

    Args:
        fit: The fit of kernels below the limit.
        kernels: Slowed kernels of one kind.
    """
    if len(kernels) < FEWEST:
        return None
    x = np.log([one.ratio for one in kernels])
    energy_j = np.array([one.energy_j for one in kernels])
    clocked, beside = (fit.amounts([getattr(k, name) for k in kernels]) for name in ("clocked", "beside"))

    def log_energies(values: Floats) -> Floats:
        """Return the logarithm of what the clock drives over that at the full clock; NaN of no energy."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = np.log((energy_j - values @ beside.T) / (values @ clocked.T))
        return found

    y = log_energies(fit.values)
    if not np.all(np.isfinite(y)):
        return None
    law, n = PowerLaw.fitted([one.ratio for one in kernels], np.exp(y).tolist()), len(kernels)
    shared = float(np.nanstd(log_energies(fit.drawn(np.random.default_rng(0))) @ x / (x @ x)))
    own, shared = student_quantile(n - 1) * law.gamma_error, student_quantile(math.inf) * shared
    return FittedExponent(
        value=Estimate(law.gamma, math.hypot(own, shared)),
        kernels=n,
        lowest_ratio=law.lowest_ratio,
        scatter=math.sqrt(float(np.mean((y - law.gamma * x) ** 2))),
        misfit=_bends(x, y),
    )


def _bends(x: Floats, y: Floats) -> float:
    """Return the probability that points of a line lie on a bent one as much better by chance.

    The line is free to miss the origin: by how much the fit is off for all of them is no bend.
    """
    left = []
    for degree in (1, 2):
        powers = np.vander(x, degree + 1)
        left.append(float(np.sum((y - powers @ np.linalg.lstsq(powers, y, rcond=None)[0]) ** 2)))
    spare = len(x) - 3
    return (
        f_tail(1, spare, (left[0] - left[1]) / (left[1] / spare)) if spare > 0 and left[1] > 0 else math.nan
    )

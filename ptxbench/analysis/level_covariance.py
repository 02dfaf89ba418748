"""How well the powers of kernels can be compared where the drift levels of their trials are not known either.

Two kernels that were always at the same level are compared as well as the noise lets them; one that was
always at levels of its own is off by these, and its own trials do not show it. Levels c hold for stretches of
a run, and kernels have powers a of their own: trial i of kernel k in stretch s is a_k + c_s + noise. Least
squares with c around zero (a ridge; Hoerl and Kennard, Technometrics 12, 1970) give both, and the covariance
of c. From it follows what the levels leave open of any sum of kernels. What they share cancels in a
difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.arrays import Bools, Floats, Indices

# A trial that is further off than this many of its standard deviations pulls no harder: on normal scatter
# such a fit has 95% of the efficiency of least squares (Huber 1964).
_HUBER = 1.345
# Twice as many change the power of a kernel by 0.1% at most (studies/method/detail.md, "Constants of the
# fit").
_PASSES = 12


@dataclass(frozen=True)
class LevelCovariance:
    """At which levels the kernels of a run were, and how well these are known.

    Attributes:
        kernels: Number of each kernel, by name.
        away: Share of a kernel's trials in each stretch, less that of all trials, shape (kernels, stretches).
        covariance: Covariance of the stretches' levels, shape (stretches, stretches).
        shown: What of the variance that the levels leave of a kernel's mean the scatter of its own trials
            shows, shape (kernels,).
        spread: Scatter of the levels: of a kernel that is not among them nothing more is known.
    """

    kernels: Mapping[str, int]
    away: Floats
    covariance: Floats
    shown: Floats
    spread: float

    def error(self, weights: Mapping[str, float]) -> float:
        """Return the standard error that the levels leave of a weighted sum of kernels' levels.

        Args:
            weights: Weight of each kernel, by name.
        """
        known = [(self.kernels[name], weight) for name, weight in weights.items() if name in self.kernels]
        others = [weight * self.spread for name, weight in weights.items() if name not in self.kernels]
        total = np.zeros(self.away.shape[1])
        for number, weight in known:
            total += weight * self.away[number]
        return math.hypot(math.sqrt(max(float(total @ self.covariance @ total), 0.0)), *others)

    def hidden_error(self, weights: Mapping[str, float]) -> float:
        """Return what of that error the scatter of the kernels' own trials does not show.

        Trials at unlike levels are off unlike, so that their scatter holds it; trials at one level are off
        alike, and it does not.

        Args:
            weights: Weight of each kernel, by name.
        """
        shown = sum(
            weight**2 * float(self.shown[self.kernels[name]])
            for name, weight in weights.items()
            if name in self.kernels
        )
        return math.sqrt(max(self.error(weights) ** 2 - shown, 0.0))


def level_covariance(
    names: Sequence[str], stretch: Indices, tells: Bools, noise: float, spread: float
) -> LevelCovariance:
    """Return the covariance of the levels of the stretches that the kernels' trials lie in.

    Args:
        names: Kernel of each trial, shape (n,).
        stretch: Number of the stretch at one level that it lies in, from 0 without gaps, shape (n,).
        tells: Whether a trial tells of its level, shape (n,); one that does not is at one all the same.
        noise: Standard deviation of a trial.
        spread: Standard deviation of the levels.
    """
    unique, kernel = np.unique(names, return_inverse=True)
    counts = np.zeros((len(unique), stretch.max() + 1))
    np.add.at(counts, (kernel, stretch), 1.0)
    trials = counts.sum(1)
    shares = counts / trials[:, None]
    telling = np.zeros_like(counts)
    np.add.at(telling, (kernel[tells], stretch[tells]), 1.0)
    covariance = np.asarray(np.linalg.inv(_told(telling / noise**2) + np.eye(counts.shape[1]) / spread**2))
    # The sample variance of a kernel's trials is raised by this times their number.
    apart = shares @ np.diag(covariance) - np.einsum("ks,st,kt->k", shares, covariance, shares)
    return LevelCovariance(
        {str(name): number for number, name in enumerate(unique)},
        shares - telling.sum(0) / telling.sum(),
        covariance,
        apart / np.maximum(trials - 1, 1),
        spread,
    )


def powers_by_levels(
    log_power: Floats,
    errors: Floats,
    kernel: Indices,
    stretch: Indices,
    own: Floats,
    level: Floats,
    spread: float,
) -> Floats:
    """Return ln of the own power of each kernel, where whole stretches may move.

    Robust, by weights of Huber (Ann. Math. Stat. 35, 1964): a trial that saw two levels counts little.

    Args:
        log_power: ln of the power of each trial that tells, shape (n,).
        errors: Standard deviation of it, shape (n,).
        kernel: Its kernel's number, shape (n,).
        stretch: Number of its stretch, shape (n,).
        own: First guess of ln of each kernel's own power, shape (kernels,); that of a kernel without trials
            is returned as it is.
        level: First guess of each stretch's level, shape (stretches,).
        spread: Standard deviation of the levels.
    """
    for _ in range(_PASSES):
        off = np.abs(log_power - own[kernel] - level[stretch]) / errors
        weights = np.minimum(1.0, _HUBER / np.maximum(off, _HUBER)) / errors**2
        telling = np.zeros((len(own), len(level)))
        np.add.at(telling, (kernel, stretch), weights)
        total = np.where(telling.any(1), telling.sum(1), 1.0)
        mean = np.bincount(kernel, weights * log_power, len(own)) / total
        away = np.bincount(stretch, weights * (log_power - mean[kernel]), len(level))
        level = np.asarray(np.linalg.solve(_told(telling) + np.eye(len(level)) / spread**2, away))
        left = np.bincount(kernel, weights * (log_power - level[stretch]), len(own)) / total
        own = np.where(telling.any(1), left, own)
    return own


def _told(telling: Floats) -> Floats:
    """Return what trials, by weights of shape (kernels, stretches), tell of the stretches' levels alone."""
    total = telling.sum(1, keepdims=True)
    shared = telling / np.sqrt(np.where(total > 0, total, 1.0))
    return np.asarray(np.diag(telling.sum(0)) - shared.T @ shared)

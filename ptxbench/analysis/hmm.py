"""A level that stays for a while and then jumps, found from noisy observations.

A hidden Markov model on a fine grid of levels, smoothed by the forward-backward algorithm (Rabiner, "A
tutorial on hidden Markov models and selected applications in speech recognition", Proc. IEEE 77, 1989,
section III). An observation may be wrong altogether: it comes from a wide distribution then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ptxbench.core.arrays import Bools, Floats, Indices

# Levels are fractions of a power: from -5% to 4%, by 0.1%.
_LEVELS = np.arange(-0.05, 0.0401, 0.001)
# So many observations are wrong, and by so much: a level that changes within a trial shows as a mean of two.
WRONG_SHARE = 0.1
_WRONG_SPREAD = 0.006
# Least density of an observation: ten times more or less changes no power by 0.001%
# (studies/method/detail.md, "Constants of the fit").
_LEAST = 1e-12
# Where a logarithm is less, its exponential counts for nothing next to `_LEAST`.
_LEAST_LOGARITHM = -80.0
# Probabilities are scaled after so many observations. Each takes them down by `_LEAST` at most, and what lies
# before an observation and behind it is multiplied: 17 of them in all, where a double holds 25.
_RESCALE = 8


@dataclass(frozen=True)
class LevelPrior:
    """How levels follow each other before anything is seen; what it is like is a fact of the GPU.

    Attributes:
        jump: Probability that the level jumps from one observation to the next.
        spread: Standard deviation of the level behind a jump, a fraction.
        creep: Probability that it moves by one step of the grid up, and as much down.
    """

    jump: float
    spread: float
    creep: float


@dataclass(frozen=True)
class Smoothed:
    """What all observations say of the level at each of them.

    Attributes:
        others: Mean of the level by all observations but the one itself, shape (n,).
        others_error: Standard deviation of it, shape (n,).
        mean: Mean by all observations, shape (n,).
        error: Standard deviation of it, shape (n,).
        wrong: Probability that the observation itself is wrong, shape (n,).
        log_likelihood: Logarithm of the observations' probability density.
    """

    others: Floats
    others_error: Floats
    mean: Floats
    error: Floats
    wrong: Floats
    log_likelihood: float


def smooth(
    observed: Floats, errors: Floats, counts: Bools, apart: Bools, wrong: Floats, prior: LevelPrior
) -> list[Smoothed]:
    """Find the level at each observation, for several series of observations at the same times.

    Args:
        observed: What was seen, a fraction, in the order of time, shape (series, n).
        errors: Standard deviation of each, shape (series, n).
        counts: Which of them say anything, shape (n,).
        apart: Whether so much time lies before an observation that the level may be any, shape (n,); before
            the first it does.
        wrong: How probable it is that an observation is wrong before it is seen, shape (series, n).
        prior: How levels follow each other.
    """
    series = len(observed)
    order = _Order.of(apart, series)
    tells = np.tile(counts, series)[order.rows]
    right, astray = _emission(*(values.ravel()[order.rows] for values in (observed, errors, wrong)))
    # Pages of memory that are new cost as much as the arithmetic: so it is done in place.
    emission = np.maximum(np.add(right, astray, out=right), _LEAST, out=right)
    emission[~tells] = 1.0
    cavity, seen = _forward(emission, order, prior)
    cavity *= _backward(emission, order, prior)
    _, others, others_error = _moments(cavity)
    is_wrong = np.einsum("nl,nl->n", cavity, astray)
    cavity *= emission
    total, mean, error = _moments(cavity)
    by_time = np.empty((6, observed.size))
    by_time[:, order.rows] = others, others_error, mean, error, np.where(tells, is_wrong / total, 1.0), seen
    by_series = by_time.reshape(6, *observed.shape).swapaxes(0, 1)
    scales = np.log(errors[:, counts]).sum(1)
    return [
        Smoothed(f[0], f[1], f[2], f[3], f[4], float(f[5].sum() - s))
        for f, s in zip(by_series, scales, strict=True)
    ]


def likelihood_of_no_level(observed: Floats, errors: Floats, wrong: Floats) -> float:
    """Return the logarithm of the observations' probability density where the level is zero at all of them.

    Args:
        observed: What was seen, a fraction, shape (n,).
        errors: Standard deviation of each, shape (n,).
        wrong: How probable it is that an observation is wrong before it is seen, shape (n,).
    """
    right, astray = _emission(observed, errors, wrong, np.zeros(1))
    return float(np.sum(np.log(np.maximum(right + astray, _LEAST)[:, 0]) - np.log(errors)))


def _emission(
    observed: Floats, errors: Floats, wrong: Floats, levels: Floats = _LEVELS
) -> tuple[Floats, Floats]:
    """Return how probable each observation is at each level, right or wrong, shape (n, levels).

    Both are over the density of one that is right.
    """
    wide = 4 * errors + _WRONG_SPREAD
    right = _normal(observed, errors, 1 - wrong, levels)
    return right, _normal(observed, wide, wrong * errors / wide, levels)


def _normal(observed: Floats, errors: Floats, height: Floats, levels: Floats) -> Floats:
    """Return height exp(-((observed - level) / error)^2 / 2); its logarithm is a polynomial of the level."""
    precision = errors**-2
    constant = np.log(height) - 0.5 * precision * observed**2
    powers = np.stack([constant, precision * observed, -0.5 * precision], 1)
    logarithm = powers @ np.stack([np.ones_like(levels), levels, levels**2])
    return np.asarray(np.exp(np.maximum(logarithm, _LEAST_LOGARITHM, out=logarithm), out=logarithm))


@dataclass(frozen=True)
class _Order:
    """Observations of all series and all stretches without a pause: the first of each, then the second.

    What lies before a pause tells nothing of what lies behind it.

    Attributes:
        rows: Number of each observation in the order of series and time, shape (series * n,).
        ends: Behind the last of the first ones, of the second ones, and so on; longer stretches come first.
    """

    rows: Indices
    ends: Indices

    @classmethod
    def of(cls, apart: Bools, series: int) -> _Order:
        n = len(apart)
        begins = np.flatnonzero(np.concatenate(([True], apart[1:])))
        lengths = np.diff(begins, append=n)
        place = np.arange(n) - np.repeat(begins, lengths)
        times = np.lexsort((np.repeat(-lengths, lengths), place))
        rows = (times[:, None] + n * np.arange(series)).ravel()
        return cls(rows, series * np.cumsum(np.bincount(place)))

    def steps(self) -> list[tuple[slice, slice]]:
        """Return where observations with one before them lie, behind where these lie: one pair a step."""
        ends = self.ends.tolist()
        return [
            (slice(a, a + e - b), slice(b, e)) for a, b, e in zip([0, *ends], ends, ends[1:], strict=False)
        ]


@cache
def _anywhere(prior: LevelPrior) -> Floats:
    """Return how probable each level is behind a jump."""
    density = np.exp(-0.5 * (_LEVELS / prior.spread) ** 2)
    return np.asarray(density / density.sum(), dtype=np.float64)


@cache
def _next(prior: LevelPrior) -> Floats:
    """Return how levels follow each other from one observation to the next, [from, to]."""
    n, creep = len(_LEVELS), prior.creep
    stays = np.diag(np.full(n, 1 - 2 * creep)) + creep * (np.eye(n, k=1) + np.eye(n, k=-1))
    return np.asarray((1 - prior.jump) * stays + prior.jump * _anywhere(prior), dtype=np.float64)


def _forward(emission: Floats, order: _Order, prior: LevelPrior) -> tuple[Floats, Floats]:
    """Return what the observations before each say of its level, up to a factor, and parts of the likelihood.

    The second sums up to the logarithm of the likelihood, over the observations of a series.
    """
    before, scale = np.empty_like(emission), np.ones(len(emission))
    before[: order.ends[0]] = _anywhere(prior)
    is_last, follows = np.ones(len(emission), dtype=bool), _next(prior)
    for i, (last, now) in enumerate(order.steps(), start=1):
        state = np.dot(before[last] * emission[last], follows, out=before[now])
        is_last[last] = False
        if i % _RESCALE == 0:
            scale[now] = state.sum(1)
            state /= scale[now, None]
    scale[is_last] *= np.einsum("nl,nl->n", before[is_last], emission[is_last])
    return before, np.log(scale)


def _backward(emission: Floats, order: _Order, prior: LevelPrior) -> Floats:
    """Return what the observations after each say of its level, up to a factor."""
    after = np.ones_like(emission)
    steps, precedes = order.steps(), _next(prior).T
    for i in range(len(steps), 0, -1):
        last, now = steps[i - 1]
        state = np.dot(after[now] * emission[now], precedes, out=after[last])
        if i % _RESCALE == 0:
            state /= state.sum(1, keepdims=True)
    return after


def _moments(weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the sum of such weights of the levels, their mean and their standard deviation."""
    total, mean, square = np.stack([np.ones_like(_LEVELS), _LEVELS, _LEVELS**2]) @ weights.T
    mean = mean / total
    return total, mean, np.sqrt(np.maximum(square / total - mean**2, 0.0))

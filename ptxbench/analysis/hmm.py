"""A level that stays for a while and then jumps, found from noisy looks at it.

A hidden Markov model on a fine grid of levels, smoothed by the forward-backward algorithm (Rabiner, "A
tutorial on hidden Markov models and selected applications in speech recognition", Proc. IEEE 77, 1989,
section III). A look may be wrong altogether: it comes from a wide distribution then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Levels are fractions of a power: from -5% to 4%, by 0.1%.
_LEVELS = np.arange(-0.05, 0.0401, 0.001)
# From one look to the next: how often the level jumps, how far from zero it comes out, and how often it
# creeps by one step of the grid. On an H200 a level holds for some fifteen trials (studies/h200/power.md).
_JUMP = 0.06
_SPREAD = 0.012
_CREEP = 0.02
# So many looks are wrong, and by so much: a level that changes within a trial shows as a mean of two.
WRONG_SHARE = 0.1
_WRONG_SPREAD = 0.006
_LEAST = 1e-12
# Probabilities are scaled after so many looks. Each takes them down by `_LEAST` at most, and what lies before
# a look and behind it is multiplied: 17 looks in all, where a double holds 25.
_RESCALE = 8


@dataclass(frozen=True)
class Smoothed:
    """What all looks say of the level at each of them.

    Attributes:
        others: Mean of the level by all looks but the one itself, shape (n,).
        others_error: Standard deviation of it, shape (n,).
        mean: Mean by all looks, shape (n,).
        error: Standard deviation of it, shape (n,).
        wrong: Probability that the look itself is wrong, shape (n,).
        log_likelihood: Logarithm of the looks' probability density.
    """

    others: Floats
    others_error: Floats
    mean: Floats
    error: Floats
    wrong: Floats
    log_likelihood: float


def smooth(
    looks: Floats, errors: Floats, counts: Bools, apart: Bools, wrong: Floats | float = WRONG_SHARE
) -> Smoothed:
    """Find the level at each look.

    Args:
        looks: What was seen, a fraction, in the order of time, shape (n,).
        errors: Standard deviation of each, shape (n,).
        counts: Which of them say anything, shape (n,).
        apart: Whether so much time lies before a look that the level may be any, shape (n,).
        wrong: How probable it is that a look is wrong before it is seen, shape (n,), or that of all.
    """
    shares = np.broadcast_to(wrong, looks.shape)[:, None]
    right, astray = _emission(looks[:, None] - _LEVELS, errors[:, None], shares)
    emission = np.where(counts[:, None], np.maximum(right + astray, _LEAST), 1.0)
    before, log_likelihood = _forward(emission, apart)
    log_likelihood -= float(np.sum(np.log(errors[counts])))
    after = _backward(emission, apart)

    cavity = before * after
    others, others_error = _moments(cavity)
    posterior = cavity * emission
    mean, error = _moments(posterior)
    is_wrong = np.where(counts, (cavity * astray).sum(1) / posterior.sum(1), 1.0)
    return Smoothed(others, others_error, mean, error, is_wrong, log_likelihood)


def likelihood_of_no_level(looks: Floats, errors: Floats, wrong: Floats | float = WRONG_SHARE) -> float:
    """Return the logarithm of the looks' probability density where the level is zero at all of them.

    Args:
        looks: What was seen, a fraction, shape (n,).
        errors: Standard deviation of each, shape (n,).
        wrong: As in `smooth`.
    """
    right, astray = _emission(looks, errors, np.asarray(wrong))
    return float(np.sum(np.log(np.maximum(right + astray, _LEAST)) - np.log(errors)))


def _emission(away: Floats, errors: Floats, wrong: Floats) -> tuple[Floats, Floats]:
    """Return how probable a look so far away is, right or wrong, over the density of one that is right."""
    wide = 4 * errors + _WRONG_SPREAD
    right = (1 - wrong) * np.exp(-0.5 * (away / errors) ** 2)
    return right, wrong * np.exp(-0.5 * (away / wide) ** 2) * errors / wide


def _transitions() -> tuple[Floats, Floats]:
    """Return how levels follow each other from one look to the next, [from, to]: without and with a pause."""
    n = len(_LEVELS)
    stays = np.diag(np.full(n, 1 - 2 * _CREEP)) + _CREEP * (np.eye(n, k=1) + np.eye(n, k=-1))
    anywhere = np.exp(-0.5 * (_LEVELS / _SPREAD) ** 2)
    jumps = np.tile(anywhere / anywhere.sum(), (n, 1))
    return (1 - _JUMP) * stays + _JUMP * jumps, jumps


_NEXT, _NEXT_APART = _transitions()


def _forward(emission: Floats, apart: Bools) -> tuple[Floats, float]:
    """Return what the looks before each say of its level, up to a factor, and the likelihood's logarithm."""
    before = np.empty_like(emission)
    state, log_likelihood = _NEXT_APART[0], 0.0
    for i, seen in enumerate(emission):
        np.dot(state, _NEXT_APART if apart[i] else _NEXT, out=before[i])
        state = before[i] * seen
        if i % _RESCALE == 0:
            total = state.sum()
            log_likelihood += math.log(total)
            state /= total
    return before, log_likelihood + math.log(state.sum())


def _backward(emission: Floats, apart: Bools) -> Floats:
    """Return what the looks after each say of its level, up to a factor."""
    after = np.empty_like(emission)
    after[-1] = 1.0
    for i in range(len(emission) - 1, 0, -1):
        np.dot(_NEXT_APART if apart[i] else _NEXT, after[i] * emission[i], out=after[i - 1])
        if i % _RESCALE == 0:
            after[i - 1] /= after[i - 1].sum()
    return after


def _moments(weights: Floats) -> tuple[Floats, Floats]:
    shares = weights / weights.sum(1, keepdims=True)
    mean = shares @ _LEVELS
    return mean, np.sqrt(np.maximum(shares @ _LEVELS**2 - mean**2, 0.0))

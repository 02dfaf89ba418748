"""A level that stays for a while and then jumps, found from noisy looks at it.

A hidden Markov model on a fine grid of levels, smoothed by the forward-backward algorithm (Rabiner, "A
tutorial on hidden Markov models and selected applications in speech recognition", Proc. IEEE 77, 1989,
section III). A look may be wrong altogether: it comes from a wide distribution then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Levels are fractions of a power: from -5% to 4%, by 0.1%.
_LEVELS = np.arange(-0.05, 0.0401, 0.001)
# From one look to the next: how often the level jumps, how far from zero it comes out, and how often it
# creeps by one step of the grid. On an H200 a level holds for some fifteen trials (docs/accuracy.md).
_JUMP = 0.06
_SPREAD = 0.012
_CREEP = 0.02
# So many looks are wrong, and by so much: a level that changes within a trial shows as a mean of two.
_WRONG = 0.1
_WRONG_SPREAD = 0.006
_LEAST = 1e-12


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


def smooth(looks: Floats, errors: Floats, counts: Bools, apart: Bools) -> Smoothed:
    """Find the level at each look.

    Args:
        looks: What was seen, a fraction, in the order of time, shape (n,).
        errors: Standard deviation of each, shape (n,).
        counts: Which of them say anything, shape (n,).
        apart: Whether so much time lies before a look that the level may be any, shape (n,).
    """
    right, wrong = _emission(looks[:, None] - _LEVELS, errors[:, None])
    emission = np.where(counts[:, None], np.maximum(right + wrong, _LEAST), 1.0)
    anywhere = np.exp(-0.5 * (_LEVELS / _SPREAD) ** 2)
    anywhere /= anywhere.sum()
    jump = np.where(apart, 1.0, _JUMP)

    before = np.empty_like(emission)
    state, log_likelihood = anywhere, 0.0
    for i, seen in enumerate(emission):
        before[i] = state = (1 - jump[i]) * _crept(state) + jump[i] * anywhere
        state = state * seen
        total = float(state.sum())
        log_likelihood += float(np.log(total)) - (float(np.log(errors[i])) if counts[i] else 0.0)
        state = state / total
    after = np.empty_like(emission)
    state = np.ones(len(_LEVELS))
    for i in range(len(emission) - 1, -1, -1):
        after[i] = state
        state = state * emission[i]
        state = (1 - jump[i]) * _crept(state) + jump[i] * float(anywhere @ state)
        state = state / state.sum()

    cavity = before * after
    others, others_error = _moments(cavity)
    posterior = cavity * emission
    mean, error = _moments(posterior)
    is_wrong = np.where(counts, (cavity * wrong).sum(1) / posterior.sum(1), 1.0)
    return Smoothed(others, others_error, mean, error, is_wrong, log_likelihood)


def likelihood_of_no_level(looks: Floats, errors: Floats) -> float:
    """Return the logarithm of the looks' probability density where the level is zero at all of them.

    Args:
        looks: What was seen, a fraction, shape (n,).
        errors: Standard deviation of each, shape (n,).
    """
    right, wrong = _emission(looks, errors)
    return float(np.sum(np.log(np.maximum(right + wrong, _LEAST)) - np.log(errors)))


def _emission(away: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Return how probable a look so far away is, right or wrong, over the density of one that is right."""
    wide = 4 * errors + _WRONG_SPREAD
    right = (1 - _WRONG) * np.exp(-0.5 * (away / errors) ** 2)
    return right, _WRONG * np.exp(-0.5 * (away / wide) ** 2) * errors / wide


def _crept(state: Floats) -> Floats:
    moved = (1 - 2 * _CREEP) * state
    moved[1:] += _CREEP * state[:-1]
    moved[:-1] += _CREEP * state[1:]
    return moved


def _moments(weights: Floats) -> tuple[Floats, Floats]:
    shares = weights / weights.sum(1, keepdims=True)
    mean = shares @ _LEVELS
    return mean, np.sqrt(np.maximum(shares @ _LEVELS**2 - mean**2, 0.0))

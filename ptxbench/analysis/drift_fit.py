"""A level that all kernels of a run share, and each kernel's own power, fitted to the powers of its trials.

Expectation and maximization (Dempster et al., J. R. Stat. Soc. B 39, 1977) go kernel by kernel; what takes
many kernels at once is tried from outside, and the likeliest of all such fits counts (docs/method.md,
section 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from threadpoolctl import threadpool_limits

from ptxbench.analysis.clock_dips import Dips
from ptxbench.analysis.hmm import LevelPrior, Smoothed, likelihood_of_no_level, smooth
from ptxbench.analysis.level_covariance import powers_by_levels
from ptxbench.core.arrays import Bools, Floats, Indices

# Noise of one trial, as a fraction of its power: the likeliest of these.
_NOISES = (0.0005, 0.0008, 0.0012, 0.002, 0.0035, 0.006, 0.01)
# Steps of the fit: to choose the noise, and with it; tries to begin again; largest change of a kernel's
# logarithm that ends them. What other values of these and of the next ones give: studies/method/detail.md,
# "Constants of the fit".
_FIRST_STEPS = 8
_STEPS = 15
_TURNS = 10
_CONVERGED = 2e-5
# A fit is better whose likelihood is larger by this, in logarithms.
_WORTH = 0.5
# Neighbouring trials whose levels differ by less are on one.
STRETCH = 0.002
# Trials in a piece of a stretch, where stretches may be of two batches.
_PIECE = 10
# Overrelaxation: plain steps are cautious.
_STRIDE = 1.5
# By how much the logarithm of the likelihood must gain before there are steps at all.
_GAIN = 10.0
# Where a fit begins again: the kernels above these quantiles of temperature move by a step.
_HOT = (0.35, 0.6, 0.85)


@dataclass(frozen=True)
class Observations:
    """Trials of a run as arrays of shape (n,), in the order of time.

    Attributes:
        log_power: Natural logarithm of the power that the supply feeds, at one temperature.
        power_ratio: All power over what the supply feeds.
        kernel: Number of the kernel.
        informative: Whether the trial tells of the supply.
        after_pause: Whether a pause lies before it, so that its level may be any.
        dips: In which trials the clock dipped.
        temperature_c: Temperature above any one.
        prior: How levels follow each other.
    """

    log_power: Floats
    power_ratio: Floats
    kernel: Indices
    informative: Bools
    after_pause: Bools
    dips: Dips
    temperature_c: Floats
    prior: LevelPrior

    def by_kernel(self, weights: Floats, values: Floats) -> Floats:
        """Return the weighted mean of values of each kernel, 0 where none of its trials has any weight."""
        total = np.bincount(self.kernel, weights)
        return np.bincount(self.kernel, weights * values) / np.where(total > 0, total, 1.0)


@dataclass(frozen=True)
class Guess:
    """Where a fit begins.

    Attributes:
        own: ln of each kernel's power at level zero, shape (kernels,).
        noise: Scatter of one trial, as a fraction of its power.
        dips: In which trials the clock dipped, and what that says in this run.
    """

    own: Floats
    noise: float
    dips: Dips


@dataclass(frozen=True)
class Fit(Guess):
    """A fit of the trials of a run: also the guess from which it goes on.

    Attributes:
        levels: The level at each trial, as all trials tell it.
    """

    levels: Smoothed

    @property
    def log_likelihood(self) -> float:
        """Logarithm of the trials' probability density."""
        return self.levels.log_likelihood


def fit_levels(observed: Observations, near: Floats | None = None, *, step: float = 0.0) -> Fit | None:
    """Fit the kernels' powers and the levels.

    Args:
        observed: The trials.
        near: Levels that a fit may be near to, shape (n,), NaN where not known.
        step: By how much the levels may go with the temperature in another way, a fraction; 0: not tried.

    Returns:
        The likeliest fit that is found, None where the trials are explained as well without levels.
    """
    # Several threads wait for each other longer than these small matrices take.
    with threadpool_limits(1, user_api="blas"):
        return _likeliest(observed, near, step)


def _likeliest(observed: Observations, near: Floats | None, step: float) -> Fit | None:
    own = observed.by_kernel(observed.informative.astype(float), observed.log_power)
    beginnings = [own]
    if near is not None:
        known = (observed.informative & np.isfinite(near)).astype(float)
        at_level_zero = observed.by_kernel(known, observed.log_power - np.nan_to_num(near))
        beginnings.append(np.where(np.bincount(observed.kernel, known) > 0, at_level_zero, own))
    guesses = [Guess(begun, noise, observed.dips) for begun in beginnings for noise in _NOISES]
    likeliest = max(_fitted(observed, guesses, _FIRST_STEPS), key=attrgetter("log_likelihood"))
    (found,) = _climbed(observed, [likeliest])
    if found.log_likelihood < _without_steps(observed, own, found.dips) + _GAIN:
        return None
    return _rebegun(observed, found, step) if step else found


def _climbed(observed: Observations, fits: Sequence[Fit]) -> list[Fit]:
    """Return the likeliest fits that small changes lead to, from each of these."""
    reached = list(fits)
    climbing = list(range(len(fits)))
    for _ in range(_TURNS):
        better = _better(observed, [reached[i] for i in climbing])
        for i, fit in zip(climbing, better, strict=True):
            reached[i] = fit or reached[i]
        climbing = [i for i, fit in zip(climbing, better, strict=True) if fit]
    return reached


def _rebegun(observed: Observations, fit: Fit, step: float) -> Fit:
    """Return the likeliest fit from beginnings at which hot kernels stand on other levels than in this one.

    Where levels go with the temperature, hot kernels are always at the upper one: what they draw there and
    what the level adds are told apart by few trials alone, and no small change leads from one to the other.
    """
    starts = [replace(fit, own=own) for own in _by_warmth(observed, fit, step)]
    best = fit
    for tried in _climbed(observed, _fitted(observed, starts, _STEPS)):
        if tried.log_likelihood > best.log_likelihood + _WORTH:
            best = tried
    return best


def _by_warmth(observed: Observations, fit: Fit, step: float) -> Iterator[Floats]:
    """Yield ln of each kernel's power where those that ran hot have moved by a step of the supply."""
    warmth_c = observed.by_kernel(observed.informative.astype(float), observed.temperature_c)
    for warmer_c in np.quantile(warmth_c, _HOT):
        for shift in (-step, step):
            yield fit.own + np.where(warmth_c > warmer_c, shift, 0.0)


def _fitted(observed: Observations, guesses: Sequence[Guess], steps: int) -> list[Fit]:
    """Fit the kernels' powers, the levels and what dips say in turns, from each guess on."""
    fits: dict[int, Fit] = {}
    going: dict[int, Guess] = dict(enumerate(guesses))
    for _ in range(steps):
        if not going:
            break
        stepped = dict(zip(going, _stepped(observed, list(going.values())), strict=True))
        fits |= stepped
        moved = {i: np.abs(fit.own - going[i].own).max() / _STRIDE for i, fit in stepped.items()}
        going = {i: fit for i, fit in stepped.items() if moved[i] >= _CONVERGED}
    return [fits[i] for i in range(len(guesses))]


def _stepped(observed: Observations, guesses: Sequence[Guess]) -> Iterator[Fit]:
    """Yield each guess with its levels, and with powers and dips as these tell them."""
    seen = np.stack([observed.log_power - guess.own[observed.kernel] for guess in guesses])
    errors = np.stack([guess.noise * observed.power_ratio for guess in guesses])
    expected = np.stack([guess.dips.expected for guess in guesses])
    found = smooth(seen, errors, observed.informative, observed.after_pause, expected, observed.prior)
    for guess, levels, left, error in zip(guesses, found, seen, errors, strict=True):
        right = np.where(observed.informative, 1 - levels.wrong, 0.0)
        weights = right / (error**2 + levels.error**2)
        own = guess.own + _STRIDE * observed.by_kernel(weights, left - levels.mean)
        yield Fit(own, guess.noise, guess.dips.learnt(levels.wrong, observed.informative), levels)


def _better(observed: Observations, fits: Sequence[Fit]) -> list[Fit | None]:
    """Return a likelier fit for each, None where none is found.

    Steps go kernel by kernel: what takes many at once, or one against its own weights, is tried from outside.
    """
    better: list[Fit | None] = [None] * len(fits)
    for change in (_by_stretches, _by_majority, _by_pieces):
        left = [i for i, found in enumerate(better) if found is None]
        starts = [replace(fits[i], own=change(observed, fits[i])) for i in left]
        for i, tried in zip(left, _fitted(observed, starts, _STEPS), strict=True):
            if tried.log_likelihood > fits[i].log_likelihood + _WORTH:
                better[i] = tried
    return better


def _by_stretches(observed: Observations, fit: Fit) -> Floats:
    """Return ln of each kernel's power as trials tell it where whole stretches at one level may move.

    A batch of kernels that came at no other time fits at any level: only those few tell that all batches run.
    """
    return _powers_across(observed, fit, observed.after_pause)


def _by_pieces(observed: Observations, fit: Fit) -> Floats:
    """Return the same where stretches are cut in pieces: two batches may be wrongly on one stretch."""
    cut = observed.after_pause.copy()
    cut[::_PIECE] = True
    return _powers_across(observed, fit, cut)


def _powers_across(observed: Observations, fit: Fit, apart: Bools) -> Floats:
    tells, mean = observed.informative, fit.levels.mean
    stretch = stretches(mean, apart)
    level = np.bincount(stretch, tells * mean) / np.maximum(np.bincount(stretch, tells), 1.0)
    return powers_by_levels(
        observed.log_power[tells],
        (fit.noise * observed.power_ratio)[tells],
        observed.kernel[tells],
        stretch[tells],
        fit.own,
        level,
        float(mean.std()) + fit.noise,
    )


def stretches(mean: Floats, apart: Bools) -> Indices:
    """Return the number of the stretch at one level that each trial lies in, from 0 without gaps.

    Args:
        mean: Level at each trial, in the order of time, shape (n,).
        apart: Whether a pause lies before it, shape (n,).
    """
    jumped = (np.abs(np.diff(mean)) > STRETCH) | apart[1:]
    return np.concatenate(([0], np.cumsum(jumped)))


def _by_majority(observed: Observations, fit: Fit) -> Floats:
    """Return ln of each kernel's power as most of its trials tell it, which the fit alone may miss."""
    told = observed.log_power - fit.levels.others
    weights = observed.informative / ((fit.noise * observed.power_ratio) ** 2 + fit.levels.others_error**2)
    own = fit.own.copy()
    for kernel in np.unique(observed.kernel[observed.informative]):
        mine = np.flatnonzero((observed.kernel == kernel) & observed.informative)
        mine = mine[np.argsort(told[mine])]
        share = np.cumsum(weights[mine])
        own[kernel] = told[mine[np.searchsorted(share, share[-1] / 2)]]
    return own


def _without_steps(observed: Observations, own: Floats, dips: Dips) -> float:
    """Return the logarithm of the likelihood where the level is always the same, of the best noise."""
    seen = (observed.log_power - own[observed.kernel])[observed.informative]
    scale = observed.power_ratio[observed.informative]
    off = dips.expected[observed.informative]
    noises = np.geomspace(_NOISES[0], 0.1, 40)
    return max(likelihood_of_no_level(seen, noise * scale, off) for noise in noises)

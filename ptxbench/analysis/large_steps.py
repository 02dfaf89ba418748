"""Steps of a board's power that are far larger than those that drift makes all the time.

From the first product of sparse matrices on a GPU draws a tenth more, whatever it runs, at the same clock
(docs/accuracy.md, "Sparse products"). The kernels that every batch runs show it.
"""

from __future__ import annotations

import numpy as np

from ptxbench.analysis.hmm import Bools, Floats, Ints

# A step is large from here on; common ones are 1 to 2%.
_LARGE = 0.03
# A level counts where kernels that ran at others, too, ran in so many trials.
_FEWEST = 5


def large_steps(log_power: Floats, kernel: Ints, counts: Bools, apart: Bools) -> Floats:
    """Return by how much each trial ran above the lowest level of the run, shape (n,): ln of a power.

    Stretches between two pauses are compared by the kernels that several of them ran. All is zero where no
    two stretches differ by 3%; one that cannot be compared is taken to be as the one before.

    Args:
        log_power: ln of the power that the supply feeds, in the order of time, shape (n,).
        kernel: Number of the kernel, shape (n,).
        counts: Whether a trial tells of the supply, shape (n,).
        apart: Whether a pause lies before it, shape (n,).
    """
    stretch = np.cumsum(apart) - apart[0]
    tells = counts & (_spread(kernel, stretch)[kernel] > 1)
    count = int(stretch[-1]) + 1
    trials = np.bincount(stretch[tells], minlength=count)
    # One kernel alone may be wrong.
    told = np.flatnonzero(_spread(stretch[tells], kernel[tells]) > 1)
    if len(told) < 2:
        return np.zeros(len(log_power))
    tells &= np.isin(stretch, told)
    offsets = _offsets(log_power[tells], kernel[tells], stretch[tells])[told]
    levels = _levels(offsets, trials[told])
    before = np.maximum(np.searchsorted(told, np.arange(count), side="right") - 1, 0)
    return np.asarray(levels[before][stretch])


def _spread(of: Ints, over: Ints) -> Ints:
    """Return for each number of the first how many of the second it goes with."""
    return np.bincount(np.unique(np.stack([of, over]), axis=1)[0])


def _offsets(log_power: Floats, kernel: Ints, stretch: Ints) -> Floats:
    """Return the level of each stretch against the others: least squares of the medians of its kernels.

    The powers of kernels are eliminated: what is left has as many unknowns as stretches.
    """
    _, kernel = np.unique(kernel, return_inverse=True)
    shape = int(kernel.max()) + 1, int(stretch.max()) + 1
    medians = _medians(
        log_power, np.ravel_multi_index((kernel, stretch), shape), shape[0] * shape[1]
    ).reshape(shape)
    ran = np.isfinite(medians)
    share = ran / ran.sum(1, keepdims=True)
    above = np.where(ran, medians - np.nanmean(medians, 1, keepdims=True), 0.0)
    coupling = np.diag(ran.sum(0).astype(float)) - share.T @ ran
    return np.asarray(np.linalg.lstsq(coupling, above.sum(0), rcond=None)[0])


def _medians(values: Floats, group: Ints, count: int) -> Floats:
    """Return the median of each group, NaN for one without any; of two in the middle the lower one."""
    order = np.lexsort((values, group))
    groups, first, size = np.unique(group[order], return_index=True, return_counts=True)
    medians = np.full(count, np.nan)
    medians[groups] = values[order][first + (size - 1) // 2]
    return medians


def _levels(offsets: Floats, trials: Ints) -> Floats:
    """Return the large level that each stretch is at, above the lowest."""
    order = np.argsort(offsets)
    parts = np.split(order, np.flatnonzero(np.diff(offsets[order]) > _LARGE) + 1)
    told = [part for part in parts if trials[part].sum() >= _FEWEST]
    means = np.array([np.average(offsets[part], weights=trials[part]) for part in told])
    if len(means) < 2:
        return np.zeros(len(offsets))
    nearest = np.abs(offsets[:, None] - means).argmin(1)
    return np.asarray(means[nearest] - means[0])

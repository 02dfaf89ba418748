"""Steps of a board's power that are far larger than those that drift makes all the time.

From the first product of sparse matrices on a GPU draws a tenth more, whatever it runs, at the same clock
(docs/accuracy.md, "Sparse products"). The kernels that every batch runs show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.operating_point import kernel_of
from ptxbench.core.arrays import Bools, Floats, Indices
from ptxbench.storage.schema import Role, TrialRecord

# A step is large from here on, as ln of a power; common ones are 1 to 2%.
LARGE = 0.03
# A level counts where two kernels or more that ran at others, too, ran in so many trials together.
_FEWEST = 3
# Less dynamic power tells no factor.
_LEAST_W = 20.0


@dataclass(frozen=True)
class Lowering:
    """What the power of a trial at an upper level would have been at the lowest one.

    The step is not one factor on all power: what instructions add rises by more than what the chip draws
    without them.

    Attributes:
        upper_w: Static power at the trial's level and temperature.
        lower_w: That at the lowest level.
        factor: Dynamic power at the lowest level over that at the trial's.
    """

    upper_w: float
    lower_w: float
    factor: float

    def of(self, power_w: float) -> float:
        """Return a power at the lowest level, W."""
        return self.lower_w + (power_w - self.upper_w) * self.factor


def large_steps(log_power: Floats, kernel: Indices, counts: Bools, apart: Bools) -> Floats:
    """Return by how much each trial ran above the lowest level of the run, shape (n,): ln of a power.

    Stretches between two pauses are compared by the kernels that several of them ran. All is zero where no
    two stretches differ by 3%; one that cannot be compared is taken to be as the one before.

    Args:
        log_power: ln of the power that the supply feeds, in the order of time, shape (n,).
        kernel: Number of the kernel, shape (n,).
        counts: Whether a trial tells of the supply, shape (n,).
        apart: Whether a pause lies before it, shape (n,).
    """
    stretch = np.cumsum(apart, dtype=np.int64)
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


def lowerings(records: Sequence[TrialRecord], above: Floats, unfed_w: float) -> dict[str, Lowering]:
    """Return how trials at an upper level are brought to the lowest one, by id.

    Static power at each level is that of the sleeping kernel. The factor on the rest is the mean over the
    kernels that ran at both, weighted by their dynamic power. Where no kernel slept at one of them, all power
    that the supply feeds has the factor that `large_steps` found.

    Args:
        records: Trials with a steady power, sleeping ones among them.
        above: What `large_steps` returned for them, shape (n,).
        unfed_w: Power that the supply of the SMs does not feed.
    """
    power_w = np.array([r.steady_power_w for r in records])
    warmth_c = np.nan_to_num(np.array([r.temperature_c for r in records]))
    asleep = np.array([r.role is Role.STATIC for r in records])
    _, kernel = np.unique([kernel_of(r) for r in records], return_inverse=True)
    found: dict[str, Lowering] = {}
    for level in np.unique(above[above > 0]):
        lower, upper = above == 0, above == level
        both = asleep & (lower | upper)
        lower_w = upper_w = unfed_w
        slope, factor = 0.0, math.exp(-level)
        if (lower & asleep).any() and (upper & asleep).any():
            of_level = np.stack([lower, upper, warmth_c], axis=1)[both]
            lower_w, upper_w, slope = np.linalg.lstsq(of_level, power_w[both], rcond=None)[0]
            dynamic_w = power_w - slope * warmth_c - np.where(upper, upper_w, lower_w)
            factor = _factor(dynamic_w, kernel, lower & ~asleep, upper & ~asleep) or factor
        for n in map(int, np.flatnonzero(upper)):
            warm_w = slope * warmth_c[n]
            found[records[n].trial_id] = Lowering(float(upper_w + warm_w), float(lower_w + warm_w), factor)
    return found


def _factor(dynamic_w: Floats, kernel: Indices, lower: Bools, upper: Bools) -> float:
    """Return the dynamic power at the lower level over that at the upper one, 0 where no kernel tells it."""
    logs, weights = [], []
    telling = dynamic_w > _LEAST_W
    for number in np.intersect1d(kernel[lower & telling], kernel[upper & telling]):
        mine = telling & (kernel == number)
        low_w, high_w = (float(np.median(dynamic_w[mine & level])) for level in (lower, upper))
        logs.append(math.log(low_w / high_w))
        weights.append(low_w)
    return math.exp(np.average(logs, weights=weights)) if logs else 0.0


def _spread(of: Indices, over: Indices) -> Indices:
    """Return for each number of the first how many of the second it goes with."""
    return np.bincount(np.unique(np.stack([of, over]), axis=1)[0])


def _offsets(log_power: Floats, kernel: Indices, stretch: Indices) -> Floats:
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


def _medians(values: Floats, group: Indices, count: int) -> Floats:
    """Return the median of each group, NaN for one without any; of two in the middle the lower one."""
    order = np.lexsort((values, group))
    groups, first, size = np.unique(group[order], return_index=True, return_counts=True)
    medians = np.full(count, np.nan)
    medians[groups] = values[order][first + (size - 1) // 2]
    return medians


def _levels(offsets: Floats, trials: Indices) -> Floats:
    """Return the large level that each stretch is at, above the lowest."""
    order = np.argsort(offsets)
    parts = np.split(order, np.flatnonzero(np.diff(offsets[order]) > LARGE) + 1)
    told = [part for part in parts if trials[part].sum() >= _FEWEST]
    means = np.array([np.average(offsets[part], weights=trials[part]) for part in told])
    if len(means) < 2:
        return np.zeros(len(offsets))
    nearest = np.abs(offsets[:, None] - means).argmin(1)
    return np.asarray(means[nearest] - means[0])

"""How the power of a busy chip goes with its temperature, from kernels that came again at other temperatures.

A sleeping chip does not tell: it cools while it sleeps, fast at first, and on H200s the slope of its power
came out between 0.2 and 0.5 W a degree, that of busy kernels between 0.4 and 0.5 (studies/h200/power.md). So
energies are those at one temperature, the mean of the busy trials, and to there every trial, of the sleeping
kernel too, is brought by the slope of the busy ones:

    P_i = P_k + slope (T_i - T_k) + noise

for trial i of kernel k with the means P_k and T_k, by least squares over all kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import numpy as np

from ptxbench.analysis.operating_point import kernel_of
from ptxbench.analysis.static_power import StaticPower
from ptxbench.analysis.statistics import Uncertainty
from ptxbench.core.arrays import Floats, Indices
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role, TrialRecord

# Fewer trials, or temperatures that spread less, tell no slope.
# Chosen; what other values give: studies/method/detail.md, "Constants of the fit".
_FEWEST = 30
_FEWEST_ASLEEP = 2
_LEAST_SPREAD_C = 0.3
# What is further off than so many times the median distance is no noise: the fit goes on without it.
_OUTLYING = 5.0
_PASSES = 3
# Drift levels take up part of what temperature does, or add to it, and last for up to a minute. How
# much shows in pieces of about that, of so many trials, where there are so many of them; else it is taken to
# be a tenth: runs of one H200 differed by 5 to 12%.
_PIECE = 150
_FEWEST_PIECES = 5
_CONFOUNDED = 0.1


def busy_static(
    sleeping: StaticPower,
    records: Iterable[TrialRecord],
    power_w: Callable[[TrialRecord], float],
    *,
    by_levels: bool,
    upper: Collection[str] = (),
) -> StaticPower:
    """Return static power as busy trials need it: known at their mean temperature, with their own slope.

    Args:
        sleeping: Static power from the sleeping kernel.
        records: Trials of a run whose power is that of their kernel.
        power_w: The power of a trial at the mean drift level.
        by_levels: Whether drift levels were taken out of the powers: they may have taken up part of
            what temperature does.
        upper: Ids of trials that were brought down from an upper level (`large_steps`). The board was warmer
            there: what is left of the step would pass for a slope. So each level of a kernel counts as one.

    Returns:
        `sleeping` itself where they tell no slope, or one that is known less well than its own.
    """
    known = [
        r
        for r in sorted(records, key=lambda r: r.start_ns)
        if r.repeat >= 0 and r.protocol == DYNAMIC and r.status is Status.OK
        if np.isfinite(r.temperature_c) and np.isfinite(r.steady_power_w)
    ]
    trials = [r for r in known if r.role is not Role.STATIC]
    asleep = [r for r in known if r.role is Role.STATIC]
    if len(trials) < _FEWEST or len(asleep) < _FEWEST_ASLEEP:
        return sleeping
    busy_w = np.array([power_w(r) for r in trials])
    temperature_c = np.array([r.temperature_c for r in trials])
    named = [f"{kernel_of(r)}/{r.trial_id in upper}" for r in trials]
    _, kernel = np.unique(named, return_inverse=True)
    found = _slope(busy_w, temperature_c, kernel)
    if found is None:
        return sleeping
    slope, error = found
    if error > sleeping.slope_error_w_per_c > 0:
        return sleeping
    degrees: float = len(asleep) - 1
    if by_levels:
        by_pieces = _error_by_pieces(busy_w, temperature_c, kernel)
        if by_pieces is None:
            error = math.hypot(error, _CONFOUNDED * slope)
        else:
            error = max(error, by_pieces.standard_error)
            degrees = min(degrees, by_pieces.degrees)
    mean_c = float(temperature_c.mean())
    at_mean_w = np.array(
        [power_w(r) - sleeping.shift_w(r.start_ns) - slope * (r.temperature_c - mean_c) for r in asleep]
    )
    far_c = float(np.mean([r.temperature_c for r in asleep])) - mean_c
    return replace(
        sleeping,
        power_w=float(at_mean_w.mean()),
        temperature_c=mean_c,
        slope_w_per_c=slope,
        error_w=math.hypot(float(at_mean_w.std(ddof=1)) / math.sqrt(len(asleep)), error * far_c),
        slope_error_w_per_c=error,
        degrees=degrees,
    )


def _error_by_pieces(power_w: Floats, temperature_c: Floats, kernel: Indices) -> Uncertainty | None:
    """Return how well pieces of the run know the slope, W per degree, None where there are too few.

    The jackknife that leaves out a piece of the series at a time, because what follows each other is not
    independent (Kuensch, "The jackknife and the bootstrap for general stationary observations",
    Ann. Stat. 17, 1989; pieces do not overlap here).
    """
    count = len(power_w) // _PIECE
    if count < _FEWEST_PIECES:
        return None
    piece = np.arange(len(power_w)) * count // len(power_w)
    without = [
        _slope(power_w[kept], temperature_c[kept], kernel[kept])
        for kept in (piece != n for n in range(count))
    ]
    slopes = np.array([found[0] for found in without if found is not None])
    if len(slopes) < count:
        return None
    return Uncertainty(math.sqrt((count - 1) * float(slopes.var())), count - 1)


def _slope(power_w: Floats, temperature_c: Floats, kernel: Indices) -> tuple[float, float] | None:
    """Return the slope within kernels and its standard error, W per degree; None where there is none.

    A trial counts by the inverse square of its power, in proportion to which trials scatter.
    """
    kept = np.ones(len(power_w), dtype=bool)
    slope, error = 0.0, 0.0
    for _ in range(_PASSES):
        weight = np.where(kept, power_w**-2.0, 0.0)
        away_w, away_c = (_within(values, weight, kernel) for values in (power_w, temperature_c))
        told = float(weight @ away_c**2)
        if not told > _LEAST_SPREAD_C**2 * float(weight.sum()):
            return None
        slope = float(weight @ (away_w * away_c)) / told
        left = (away_w - slope * away_c) / power_w
        degrees = np.count_nonzero(kept) - len(np.unique(kernel[kept])) - 1
        if degrees < 1:
            return None
        error = float(np.sqrt(np.sum(left[kept] ** 2) / degrees / told))
        several = np.bincount(kernel, kept)[kernel] > 1
        typical = float(np.median(np.abs(left[kept & several])))
        kept = kept & (np.abs(left) <= _OUTLYING * typical)
    return slope, error


def _within(values: Floats, weight: Floats, kernel: Indices) -> Floats:
    """Return each value less the weighted mean of its kernel."""
    total = np.bincount(kernel, weight)
    mean = np.bincount(kernel, weight * values) / np.where(total > 0, total, 1.0)
    away: Floats = values - mean[kernel]
    return away

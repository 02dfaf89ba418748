"""How the power of a busy chip goes with its temperature, from kernels that came again at other temperatures.

A sleeping chip does not tell: it cools while it sleeps, fast at first, and on H200s the slope of its power
came out between 0.2 and 0.5 W a degree, that of busy kernels between 0.4 and 0.5 (docs/accuracy.md). So
energies are those at one temperature, the mean of the busy trials, and to there every trial, of the sleeping
kernel too, is brought by the slope of the busy ones:

    P_i = P_k + slope (F_i - F_k) + noise,  F = T + b (T_before - T) + a (T_after - T)

for trial i of kernel k with the means P_k and F_k, by least squares over all kernels. T is read while power
is, T_before before the launch and T_after behind the kernel. The thermometer warms with the kernel while part
of the chip does not, and is late: on H200s 0.1 to 0.4 of the slope goes with the temperature before, up to a
half with that after (docs/accuracy.md). A share that is not surely told is none. The sleeping kernel, which
warms nothing, is brought to the mean by the slope with T alone (b = a = 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ptxbench.measure.operating_point import kernel_of
from ptxbench.measure.static import Beside, Moment, StaticPower
from ptxbench.measure.statistics import Uncertainty
from ptxbench.status import Status
from ptxbench.store.schema import Protocol, Role, TrialRecord

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

# Fewer trials, or temperatures that spread less, tell no slope.
_FEWEST = 30
_FEWEST_ASLEEP = 2
_LEAST_SPREAD_C = 0.3
# The share of a temperature beside counts where it is so many standard errors.
_SURE_ERRORS = 3.0
# Columns that say the same, but for rounding, tell nothing apart.
_COLLINEAR = 1e6
# What is further off than so many times the median distance is no noise: the fit goes on without it.
_OUTLYING = 5.0
_PASSES = 3
# Levels of the supply take up part of what temperature does, or add to it, and last for up to a minute. How
# much shows in pieces of about that, of so many trials, where there are so many of them; else it is taken to
# be a tenth: runs of one H200 differed by 5 to 12%.
_PIECE = 150
_FEWEST_PIECES = 5
_CONFOUNDED = 0.1


@dataclass(frozen=True)
class _Slope:
    """How power goes with temperature, and how well that is known."""

    slope_w_per_c: float
    error_w_per_c: float
    degrees: float


def busy_static(
    sleeping: StaticPower,
    records: Iterable[TrialRecord],
    power_w: Callable[[TrialRecord], float],
    left_out: Collection[str],
    *,
    by_levels: bool,
) -> StaticPower:
    """Return static power as busy trials need it: known at their mean temperature, with their own slope.

    Args:
        sleeping: Static power from the sleeping kernel.
        records: Trials of a run.
        power_w: The power of a trial at the mean level of the supply.
        left_out: Ids of trials whose power is not that of their kernel.
        by_levels: Whether levels of the supply were taken out of the powers: they may have taken up part of
            what temperature does.

    Returns:
        `sleeping` itself where they tell no slope, or one that is known less well than its own.
    """
    known = [
        r
        for r in sorted(records, key=lambda r: r.start_ns)
        if r.repeat >= 0 and r.protocol is Protocol.DYNAMIC and r.status is Status.OK
        if r.trial_id not in left_out and np.isfinite(r.temperature_c) and np.isfinite(r.steady_power_w)
    ]
    trials = [r for r in known if r.role is not Role.STATIC]
    asleep = [r for r in known if r.role is Role.STATIC]
    if len(trials) < _FEWEST or len(asleep) < _FEWEST_ASLEEP:
        return sleeping
    busy_w = np.array([power_w(r) for r in trials])
    _, kernel = np.unique([kernel_of(r) for r in trials], return_inverse=True)
    now_c = np.array([r.temperature_c for r in trials])
    alone = _slope(busy_w, now_c[:, None], kernel, by_levels=by_levels)
    if alone is None or alone.error_w_per_c > sleeping.slope_error_w_per_c > 0:
        return sleeping
    beside, columns_c = _beside(busy_w, trials, kernel)
    slope = _slope(busy_w, columns_c, kernel, by_levels=by_levels) if beside else None
    mean_c = float(now_c.mean())
    # What lies beside was read off busy trials, and says nothing of a chip that sleeps.
    at_mean_w = np.array(
        [
            power_w(r) - sleeping.shift_w(r.start_ns) - alone.slope_w_per_c * (r.temperature_c - mean_c)
            for r in asleep
        ]
    )
    far_c = float(np.mean([r.temperature_c for r in asleep])) - mean_c
    return replace(
        sleeping,
        power_w=float(at_mean_w.mean()),
        temperature_c=mean_c,
        slope_w_per_c=(slope or alone).slope_w_per_c,
        error_w=math.hypot(
            float(at_mean_w.std(ddof=1)) / math.sqrt(len(asleep)), alone.error_w_per_c * far_c
        ),
        slope_error_w_per_c=(slope or alone).error_w_per_c,
        degrees=min(len(asleep) - 1, alone.degrees),
        beside=beside if slope else (),
    )


def _slope(power_w: Floats, columns_c: Floats, kernel: Ints, *, by_levels: bool) -> _Slope | None:
    """Return the first column's slope with its error, None where it is not told."""
    found = _slopes(power_w, columns_c, kernel)
    if found is None:
        return None
    slope, error = (float(one[0]) for one in found)
    if not by_levels:
        return _Slope(slope, error, math.inf)
    by_pieces = _error_by_pieces(power_w, columns_c, kernel)
    if by_pieces is None:
        return _Slope(slope, math.hypot(error, _CONFOUNDED * slope), math.inf)
    return _Slope(slope, max(error, by_pieces.standard_error), by_pieces.degrees)


def _error_by_pieces(power_w: Floats, columns_c: Floats, kernel: Ints) -> Uncertainty | None:
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
        _slopes(power_w[kept], columns_c[kept], kernel[kept]) for kept in (piece != n for n in range(count))
    ]
    slopes = np.array([found[0][0] for found in without if found is not None])
    if len(slopes) < count:
        return None
    return Uncertainty(math.sqrt((count - 1) * float(slopes.var())), count - 1)


def _beside(
    power_w: Floats, trials: Sequence[TrialRecord], kernel: Ints
) -> tuple[tuple[Beside, ...], Floats]:
    """Return the temperatures beside whose shares are sure, and what to fit them with, shape (n, m)."""
    now_c = np.array([r.temperature_c for r in trials])
    away_c = {moment: np.array([moment.of(r) for r in trials]) - now_c for moment in Moment}
    moments = [moment for moment in Moment if np.isfinite(away_c[moment]).all()]
    while moments:
        columns_c = np.column_stack([now_c, *(away_c[moment] for moment in moments)])
        found = _slopes(power_w, columns_c, kernel)
        if found is None:
            break
        slopes, errors = found
        in_errors = slopes[1:] / errors[1:]
        if in_errors.min() > _SURE_ERRORS and slopes[1:].sum() < slopes[0]:
            shares = (slopes[1:] / slopes[0]).tolist()
            usual_c = [float(away_c[moment].mean()) for moment in moments]
            return tuple(map(Beside, moments, shares, usual_c)), columns_c
        moments.pop(int(np.argmin(in_errors)))
    return (), now_c[:, None]


def _slopes(power_w: Floats, temperature_c: Floats, kernel: Ints) -> tuple[Floats, Floats] | None:
    """Return the slopes within kernels and their standard errors, W per degree; None where not all are told.

    A trial counts by the inverse square of its power, in proportion to which trials scatter.

    Args:
        power_w: Power of each trial, shape (n,).
        temperature_c: What it goes with, shape (n, m).
        kernel: Number of the kernel of each trial, shape (n,).
    """
    kept = np.ones(len(power_w), dtype=bool)
    slopes = errors = np.zeros(temperature_c.shape[1])
    for _ in range(_PASSES):
        weight = np.where(kept, power_w**-2.0, 0.0)
        away_w = _within(power_w, weight, kernel)
        away_c = np.column_stack([_within(column, weight, kernel) for column in temperature_c.T])
        told = away_c.T @ (weight[:, None] * away_c)
        if not np.diag(told).min() > _LEAST_SPREAD_C**2 * float(weight.sum()):
            return None
        if np.linalg.cond(told) > _COLLINEAR:
            return None
        slopes = np.linalg.solve(told, away_c.T @ (weight * away_w)).astype(np.float64)
        left = (away_w - away_c @ slopes) / power_w
        degrees = np.count_nonzero(kept) - len(np.unique(kernel[kept])) - len(slopes)
        if degrees < 1:
            return None
        variance = float(np.sum(left[kept] ** 2)) / degrees
        errors = np.sqrt(variance * np.diag(np.linalg.inv(told))).astype(np.float64)
        several = np.bincount(kernel, kept)[kernel] > 1
        typical = float(np.median(np.abs(left[kept & several])))
        kept = kept & (np.abs(left) <= _OUTLYING * typical)
    return slopes, errors


def _within(values: Floats, weight: Floats, kernel: Ints) -> Floats:
    """Return each value less the weighted mean of its kernel."""
    total = np.bincount(kernel, weight)
    mean = np.bincount(kernel, weight * values) / np.where(total > 0, total, 1.0)
    away: Floats = values - mean[kernel]
    return away

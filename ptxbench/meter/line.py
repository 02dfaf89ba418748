"""Steps of power at the edges of kernels, and the line through their lateness: a clock's offset and drift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares, linprog

from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s

# A step must stand this many standard errors above the noise on either side of it.
_MIN_SIGNIFICANCE = 6.0
# A scatter of fewer samples on a side says little.
_MIN_SIDE = 3
# With fewer edges a start that is seen late and an end that is seen early would pass for drift.
_MIN_EDGES_FOR_DRIFT = 4
# Steps are sharp; an edge further off than this is another event.
_ROBUST_SCALE_S = 0.5e-3
# From the median absolute deviation to the standard deviation of a normal distribution.
_MAD_TO_SIGMA = 1 / 0.6745
# A step at the very edge of its interval is inside in spite of rounding.
_ROUNDING = 1.001
# A step of the clock: edges on either side of it, half-widths of its interval, and least size.
_MIN_EDGES_FOR_STEP = 4
_CLEAR_STEP = 3.0
_LEAST_STEP_S = 1e-3
# Places at which a step is tried, at most: so that a long capture takes no longer.
_MAX_SPLITS = 400


@dataclass(frozen=True)
class Line:
    """Lateness of steps: offset_s + drift x time.

    Attributes:
        offset_s: Lateness at time 0.
        drift: Its change with time.
        offset_half_s: Half-width of the 95% interval of the offset.
        drift_half_s: The same of the drift, NaN where the edges cannot tell.
        edges: How many steps it rests on.
    """

    offset_s: float
    drift: float
    offset_half_s: float
    drift_half_s: float
    edges: int

    def at_s(self, time_s: Float64s) -> Float64s:
        """Return the lateness at `time_s`."""
        return self.offset_s + self.drift * time_s


def find_steps(signal: PowerSignal, expected_s: Float64s, radius_s: Float64s) -> Float64s:
    """Return the time of the step near each expected time by the signal's clock, NaN where there is none.

    Args:
        signal: The meter's samples.
        expected_s: Times at which steps are expected, shape (n,).
        radius_s: How far off each may be, shape (n,).
    """
    times_s = (_step_s(signal, *one) for one in zip(expected_s.tolist(), radius_s.tolist(), strict=True))
    return np.fromiter(times_s, np.float64, len(expected_s))


def fit_line(time_s: Float64s, late_s: Float64s, is_start: npt.NDArray[np.bool_], period_s: float) -> Line:
    """Fit the lateness of steps.

    Where every step agrees with one line to within half a sample, the line is known
    better than by least squares: any line that misses no sample interval will do, and the
    middle of their range is returned. Otherwise a robust least-squares fit.

    Args:
        time_s: When each step should be, shape (n,).
        late_s: How much later it was seen, shape (n,).
        is_start: Whether it is the start of a kernel, shape (n,).
        period_s: Time between two of the meter's samples.
    """
    count = len(late_s)
    if not count:
        return Line(0.0, 0.0, np.inf, np.nan, 0)
    has_drift = count >= _MIN_EDGES_FOR_DRIFT
    design = np.stack([np.ones(count), time_s], axis=1) if has_drift else np.ones((count, 1))
    exact = _within_samples(design, late_s, period_s / 2) if has_drift else None
    if exact is not None:
        return Line(*exact, count)
    return _robust(design, time_s, late_s, is_start, period_s)


@dataclass(frozen=True)
class ClockStep:
    """A step of a clock that a straight line does not describe.

    Attributes:
        after_s: How long after the first edge it came.
        size_s: By how much, with its 95% interval.
    """

    after_s: float
    size_s: Estimate


def find_clock_step(
    time_s: Float64s, late_s: Float64s, is_start: npt.NDArray[np.bool_], period_s: float
) -> ClockStep | None:
    """Find one step in the lateness of edges: late = offset + drift x time + step after some edge.

    Starts and ends may be late by different times. The step that leaves the least sum of squares is taken.

    Args:
        time_s: When each edge should be, increasing, shape (n,).
        late_s: How much later it was seen, shape (n,).
        is_start: Whether it is the start of a kernel, shape (n,).
        period_s: Time between two of the meter's samples.

    Returns:
        The step; None where there is none that stands clear of the edges' scatter.
    """
    count = len(late_s)
    if count < 2 * _MIN_EDGES_FOR_STEP:
        return None
    columns = [np.ones(count), time_s, is_start.astype(np.float64)]
    basis, _ = np.linalg.qr(np.stack(columns[: 3 if 0 < is_start.sum() < count else 2], axis=1))
    splits = np.unique(
        np.linspace(_MIN_EDGES_FOR_STEP, count - _MIN_EDGES_FOR_STEP, min(count, _MAX_SPLITS)).astype(int)
    )
    after = (np.arange(count)[:, None] >= splits).astype(np.float64)
    after -= basis @ (basis.T @ after)
    left_s = late_s - basis @ (basis.T @ late_s)
    power = np.maximum((after**2).sum(axis=0), 1e-9)
    sizes_s = left_s @ after / power
    best = int(np.argmax(sizes_s**2 * power))
    rest_s = left_s - sizes_s[best] * after[:, best]
    degrees = max(1, count - basis.shape[1] - 1)
    noise_s = max(float(np.sqrt(np.sum(rest_s**2) / degrees)), period_s / np.sqrt(12))
    half_s = COVERAGE_FACTOR * noise_s / float(np.sqrt(power[best]))
    size_s = float(sizes_s[best])
    if abs(size_s) < max(_CLEAR_STEP * half_s, _LEAST_STEP_S, 2 * period_s):
        return None
    return ClockStep(float(time_s[splits[best]] - time_s[0]), Estimate(size_s, half_s))


def _step_s(signal: PowerSignal, expected_s: float, radius_s: float) -> float:
    """Return the change point of a two-level fit: the split that leaves the least sum of squares."""
    first, last = np.searchsorted(signal.time_s, [expected_s - radius_s, expected_s + radius_s])
    # An edge whose surroundings the capture cuts off is no edge: its two levels are not seen.
    if signal.time_s[0] > expected_s - radius_s or signal.time_s[-1] < expected_s + radius_s:
        return np.nan
    power_w = signal.power_w[first:last]
    count = len(power_w)
    if count < 2 * _MIN_SIDE:
        return np.nan
    before = np.arange(_MIN_SIDE, count - _MIN_SIDE + 1)
    sums = np.cumsum(power_w)
    mean_before = sums[before - 1] / before
    mean_after = (sums[-1] - sums[before - 1]) / (count - before)
    explained = before * (count - before) / count * (mean_after - mean_before) ** 2
    best = int(np.argmax(explained))
    split = int(before[best])
    residual = np.concatenate([power_w[:split] - mean_before[best], power_w[split:] - mean_after[best]])
    error_w = float(residual.std()) * np.sqrt(1 / split + 1 / (count - split))
    if abs(mean_after[best] - mean_before[best]) <= _MIN_SIGNIFICANCE * error_w:
        return np.nan
    return float(signal.time_s[first + split - 1] + signal.time_s[first + split]) / 2


def _within_samples(
    design: npt.NDArray[np.float64], late_s: Float64s, half_s: float
) -> tuple[float, float, float, float] | None:
    """Return offset, drift and their half-ranges over all lines within `half_s` of every step."""
    rows = np.concatenate([design, -design])
    # In units of half a sample: the solver's tolerances are absolute.
    unit = half_s * _ROUNDING
    scale = np.array([unit, unit / max(float(np.abs(design[:, 1]).max()), 1e-9)])
    limits = np.concatenate([late_s, -late_s]) / unit
    rows = rows * scale / unit
    middle, half = [], []
    for goal in ([1.0, 0.0], [0.0, 1.0]):
        low, high = (
            linprog(sign * np.array(goal), A_ub=rows, b_ub=limits + 1, bounds=(None, None))
            for sign in (1, -1)
        )
        if low.fun is None or high.fun is None:
            return None
        middle.append((low.fun - high.fun) / 2)
        half.append((-high.fun - low.fun) / 2)
    return (
        float(middle[0] * scale[0]),
        float(middle[1] * scale[1]),
        float(half[0] * scale[0]),
        float(half[1] * scale[1]),
    )


def _robust(
    design: npt.NDArray[np.float64],
    time_s: Float64s,
    late_s: Float64s,
    is_start: npt.NDArray[np.bool_],
    period_s: float,
) -> Line:
    count, width = design.shape

    def residual_s(x: Float64s) -> Float64s:
        return np.asarray(design @ x - late_s, dtype=np.float64)

    start, *_ = np.linalg.lstsq(design, late_s, rcond=None)
    fit = least_squares(
        residual_s, start, loss="soft_l1", f_scale=_ROBUST_SCALE_S, x_scale=[1e-3, 1e-5][:width]
    )
    # A step lies between two samples: no edge is known better than that.
    noise_s = float(np.hypot(_MAD_TO_SIGMA * np.median(np.abs(fit.fun)), period_s / np.sqrt(12)))
    error = noise_s * np.sqrt(np.diag(np.linalg.pinv(design.T @ design)))
    # Launch and completion are stamped late by unknown, unequal times: that does not average out.
    both = 0 < is_start.sum() < count
    lean_s = float(abs(fit.fun[is_start].mean() - fit.fun[~is_start].mean())) / 2 if both else noise_s
    offset_half_s = COVERAGE_FACTOR * float(np.hypot(error[0], lean_s))
    if width > 1:
        return Line(float(fit.x[0]), float(fit.x[1]), offset_half_s, COVERAGE_FACTOR * float(error[1]), count)
    span_s = float(np.ptp(time_s))
    drift_half_s = COVERAGE_FACTOR * (2 * lean_s + noise_s) / span_s if span_s > 0 else float("nan")
    return Line(float(fit.x[0]), 0.0, offset_half_s, drift_half_s, count)

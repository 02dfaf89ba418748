"""Gain, offset, lag and averaging of one power source, fitted to the meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.response import Response, delay_s, respond, span_s
from ptxbench.sensors.description import Shape
from ptxbench.sensors.refresh import HoldInterval, hypotheses
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s

# Chosen: a fit has four figures, gain, offset, lag and width.
MIN_READINGS = 8
_SCANNED_LAGS_S = np.arange(-0.2, 2.0, 0.01)
# Where the fit begins: lags and widths that are tried on so many readings and so coarse a signal, the best of
# which are begun from; and what a width and a lag can be. Up to a second was seen (usage); the rest is
# chosen.
_SCANNED_WIDTHS_S = (0.001, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 1.5)
_SCANNED_READINGS = 400
_SCAN_PERIOD_S = 2e-3
_STARTS = 3
_WIDTH_LIMITS_S = (2e-4, 5.0)
_LAG_LIMITS_S = (-0.5, 5.0)
# Wide enough to see past the steps of a sum of squares over a handful of edges.
_DIFFERENCE_S = 5e-4
_POLISH_S = np.arange(-0.015, 0.0150001, 1e-4)
# Every so many of these are tried before their neighbours.
_POLISH_STRIDE = 10
# Steps after which starts are compared: the best goes on to its end.
_FIRST_STEPS = 4
# Scatter of a response, over its mean, that is no more than rounding.
_STANDS_STILL = 1e-13
# A hypothesis with more to it must fit better by this much to be preferred.
_CLEARLY = 0.95


@dataclass(frozen=True)
class SensorFit:
    """A source as the meter sees it: reading(t) = gain x response(power)(t - lag) + offset.

    Attributes:
        source: Which source.
        shape: How it weighs the past.
        gain: Watts read for each watt drawn.
        offset_w: Watts read at no power.
        lag_s: Age of the newest instant that a fresh value covers.
        width_s: Averaging window, or the time constant of an EXPONENTIAL.
        refresh_s: Time between two new values, 0 where every call gave one.
        residual_w: Root mean square of the residuals of the readings.
        explained: Share of the readings' variance that the model explains.
        made_s: When each fresh value was made, aligned host time, shape (n,).
        value_w: Fresh values, shape (n,).
    """

    source: SourceName
    shape: Shape
    gain: Estimate
    offset_w: Estimate
    lag_s: Estimate
    width_s: Estimate
    refresh_s: float
    residual_w: float
    explained: float
    made_s: Float64s
    value_w: Float64s

    @property
    def delay_s(self) -> float:
        """Mean age of the power that a value measures."""
        return delay_s(self.shape, self.lag_s.value, self.width_s.value)

    @property
    def span_s(self) -> float:
        """How long a stretch of the past a value covers."""
        return span_s(self.shape, self.width_s.value)

    @property
    def seen_fraction(self) -> float:
        """Share of the time that enters any value."""
        if self.refresh_s <= 0:
            return 1.0
        return min(1.0, self.span_s / self.refresh_s)

    def response_w(self, signal: PowerSignal) -> Float64s:
        """Return what a sensor of gain 1 and offset 0 would have read at each fresh value."""
        return respond(signal, self.shape, self.width_s.value)(self.made_s - self.lag_s.value)

    def corrected_w(self) -> Float64s:
        """Return the fresh values with gain and offset undone."""
        return (self.value_w - self.offset_w.value) / self.gain.value


@dataclass(frozen=True)
class _Trial:
    shape: Shape
    held: HoldInterval
    lag_s: float
    width_s: float
    rms_w: float


def fit_sensor(
    source: SourceName, signal: PowerSignal, read_s: Float64s, value_w: Float64s
) -> SensorFit | None:
    """Fit one source.

    For every way in which its readings may have been held and both shapes of response,
    lag and width are scanned and then refined by least squares, with gain and offset solved
    in closed form at each step (variable projection). The simplest that fits is taken.

    Args:
        source: Which source.
        signal: The meter's power, aligned host time.
        read_s: Times of the readings, increasing, shape (n,).
        value_w: The readings, shape (n,).

    Returns:
        The fit, None where the readings within the meter's capture are too few or all equal.
    """
    inside = (read_s >= signal.time_s[0]) & (read_s <= signal.time_s[-1])
    read_s, value_w = read_s[inside], value_w[inside]
    if len(read_s) < MIN_READINGS or not np.ptp(value_w) > 0:
        return None
    return fit_held(source, signal, hypotheses(read_s, value_w))


def fit_held(source: SourceName, signal: PowerSignal, ways: Sequence[HoldInterval]) -> SensorFit:
    """Fit one source whose readings were held in one of several ways; see `fit_sensor`.

    Args:
        source: Which source.
        signal: The true power, or what it is proportional to.
        ways: How the readings may have been held, the simplest first; each has `MIN_READINGS` or more.
    """
    trials = [_fit(signal, held, shape) for shape in Shape for held in ways]
    best = trials[0]
    for trial in trials[1:]:
        if trial.rms_w < _CLEARLY * best.rms_w:
            best = trial
    return _with_uncertainty(source, signal, best)


def refit(signal: PowerSignal, fit: SensorFit, keep: npt.NDArray[np.bool_]) -> SensorFit:
    """Fit a source again to a part of its fresh values, in the shape and from the lag and width of `fit`.

    Args:
        signal: The meter's power, aligned host time.
        fit: A fit to all fresh values.
        keep: Which of them to take, shape (n,); `MIN_READINGS` or more.

    Returns:
        The fit to the part: gain, offset, lag and width, its fresh values those of the part.
    """
    part = HoldInterval(fit.made_s[keep], fit.made_s[keep], fit.value_w[keep], fit.refresh_s)
    lag_s, width_s = _refine(signal, part, fit.shape, fit.lag_s.value, fit.width_s.value)
    response = respond(signal, fit.shape, width_s)
    lag_s = _polish(response, part, lag_s)
    rms_w = _rms_w(response, part, lag_s)
    return _with_uncertainty(fit.source, signal, _Trial(fit.shape, part, lag_s, width_s, rms_w))


def solve_gain(response_w: Float64s, value_w: Float64s) -> tuple[float, float]:
    """Return gain and offset of value = gain x response + offset by least squares."""
    middle_w, mean_w = float(response_w.mean()), float(value_w.mean())
    away_w = response_w - middle_w
    scatter = float(away_w @ away_w)
    # Of a response that stands still only the shortest of the solutions is defined.
    if scatter <= len(away_w) * (_STANDS_STILL * middle_w) ** 2:
        gain = mean_w * middle_w / (middle_w**2 + 1)
    else:
        gain = float(away_w @ (value_w - mean_w)) / scatter
    return gain, mean_w - gain * middle_w


def _fit(signal: PowerSignal, held: HoldInterval, shape: Shape) -> _Trial:
    fresh = held.fresh()
    starts = _scan(signal, fresh, shape)
    begun = [_refine(signal, fresh, shape, *start, _FIRST_STEPS) for start in starts]
    best = min(begun, key=lambda x: _rms_w(respond(signal, shape, x[1]), fresh, x[0]))
    lag_s, width_s = _refine(signal, fresh, shape, *best)
    response = respond(signal, shape, width_s)
    lag_s = _polish(response, fresh, lag_s)
    # Compared on all calls, so that hypotheses with more and with fewer fresh values meet on the same ground.
    return _Trial(shape, held, lag_s, width_s, _rms_w(response, held, lag_s))


def _scan(signal: PowerSignal, fresh: HoldInterval, shape: Shape) -> list[tuple[float, float]]:
    """Return the best lag and width of each scanned width, best first."""
    period_s = max(_SCAN_PERIOD_S, signal.period_s)
    count = int((signal.time_s[-1] - signal.time_s[0]) / period_s)
    middle_s = signal.time_s[0] + period_s * (np.arange(count) + 0.5)
    coarse = PowerSignal(middle_s, signal.resample(float(signal.time_s[0]), period_s, count))
    take = slice(None, None, max(1, len(fresh.made_s) // _SCANNED_READINGS))
    at_s = fresh.made_s[take] - _SCANNED_LAGS_S[:, None]
    value = fresh.value_w[take] - fresh.value_w[take].mean()
    until_j = coarse.until_j(at_s) if shape is Shape.BOXCAR else None
    found = []
    for width_s in _SCANNED_WIDTHS_S:
        if until_j is None:
            reads = respond(coarse, shape, width_s)(at_s)
        else:  # what `respond` does, with the end of every width looked up once
            reads = (until_j - coarse.until_j(at_s - width_s)) / width_s
        reads = reads - reads.mean(axis=1, keepdims=True)
        power = np.maximum((reads**2).sum(axis=1), 1e-12)
        # What a straight line through (response, value) explains, for every lag at once.
        along = reads @ value
        explained = np.where(along > 0, along**2 / power, 0.0)
        best = int(np.argmax(explained))
        found.append((float(explained[best]), float(_SCANNED_LAGS_S[best]), width_s))
    found.sort(reverse=True)
    return [(lag_s, width_s) for _, lag_s, width_s in found[:_STARTS]]


def _refine(
    signal: PowerSignal,
    fresh: HoldInterval,
    shape: Shape,
    lag_s: float,
    width_s: float,
    steps: int | None = None,
) -> tuple[float, float]:
    from scipy.optimize import least_squares  # takes half a second to load

    # Steps along the lag keep the width, whose response is the dear part.
    response = lru_cache(maxsize=1)(partial(respond, signal, shape))

    def residual_w(x: Float64s) -> Float64s:
        return _residual_w(response(float(x[1])), fresh, float(x[0]))

    def jacobian(x: Float64s) -> Float64s:
        up, down = x + np.diag([_DIFFERENCE_S] * 2), x - np.diag([_DIFFERENCE_S] * 2)
        down[1, 1] = max(down[1, 1], _WIDTH_LIMITS_S[0])
        columns = [(residual_w(a) - residual_w(b)) / np.sum(a - b) for a, b in zip(up, down, strict=True)]
        return np.stack(columns, axis=1)

    low, high = zip(_LAG_LIMITS_S, _WIDTH_LIMITS_S, strict=True)
    fit = least_squares(
        residual_w, [lag_s, width_s], jac=jacobian, bounds=(low, high), x_scale=[0.01, 0.01], max_nfev=steps
    )
    return float(fit.x[0]), float(fit.x[1])


def _polish(response: Response, fresh: HoldInterval, lag_s: float) -> float:
    """Return the middle of the lags that fit best: a point sensor fits equally well over a range."""

    def best(moves_s: Float64s) -> tuple[float, float]:
        rms_w = np.array([_rms_w(response, fresh, lag_s + move_s) for move_s in moves_s])
        alike = moves_s[rms_w <= rms_w.min() * (1 + 1e-9) + 1e-12]
        return float(alike.min()), float(alike.max())

    moves_s = _POLISH_S
    low_s, high_s = best(moves_s[::_POLISH_STRIDE])
    reach_s = _POLISH_STRIDE * float(moves_s[1] - moves_s[0])
    near = (moves_s > low_s - reach_s) & (moves_s < high_s + reach_s)
    return lag_s + sum(best(moves_s[near])) / 2


def _residual_w(response: Response, held: HoldInterval, lag_s: float) -> Float64s:
    response_w = response(held.made_s - lag_s)
    gain, offset_w = solve_gain(response_w, held.value_w)
    return np.asarray(gain * response_w + offset_w - held.value_w)


def _rms_w(response: Response, held: HoldInterval, lag_s: float) -> float:
    return float(np.sqrt(np.mean(_residual_w(response, held, lag_s) ** 2)))


def _with_uncertainty(source: SourceName, signal: PowerSignal, trial: _Trial) -> SensorFit:
    fresh = trial.held.fresh()

    def response_w(lag_s: float, width_s: float) -> Float64s:
        return respond(signal, trial.shape, max(width_s, _WIDTH_LIMITS_S[0]))(fresh.made_s - lag_s)

    lag_s, width_s, step_s = trial.lag_s, trial.width_s, _DIFFERENCE_S
    here = response_w(lag_s, width_s)
    gain, offset_w = solve_gain(here, fresh.value_w)
    by_lag = (response_w(lag_s + step_s, width_s) - response_w(lag_s - step_s, width_s)) / (2 * step_s)
    by_width = (response_w(lag_s, width_s + step_s) - here) / step_s
    jacobian = np.stack([here, np.ones_like(here), gain * by_lag, gain * by_width], axis=1)
    residual_w = gain * here + offset_w - fresh.value_w
    errors = [COVERAGE_FACTOR * error for error in _standard_errors(jacobian, residual_w)]
    variance = float(np.mean((fresh.value_w - fresh.value_w.mean()) ** 2))
    return SensorFit(
        source=source,
        shape=trial.shape,
        gain=Estimate(gain, errors[0]),
        offset_w=Estimate(offset_w, errors[1]),
        lag_s=Estimate(lag_s, errors[2]),
        width_s=Estimate(width_s, errors[3]),
        refresh_s=trial.held.refresh_s,
        residual_w=float(np.sqrt(np.mean(residual_w**2))),
        explained=1.0 - float(np.mean(residual_w**2)) / variance,
        made_s=fresh.made_s,
        value_w=fresh.value_w,
    )


def _standard_errors(jacobian: npt.NDArray[np.float64], residual: Float64s) -> list[float]:
    """Return the standard errors of a least-squares fit, NaN for what it does not depend on."""
    rows, columns = jacobian.shape
    scale = np.sqrt((jacobian**2).sum(axis=0))
    free = scale > 0
    unit = jacobian[:, free] / scale[free]
    variance = float((residual**2).sum()) / max(1, rows - columns)
    errors = np.full(columns, np.nan)
    errors[free] = np.sqrt(variance * np.diag(np.linalg.pinv(unit.T @ unit))) / scale[free]
    return [float(x) for x in errors]


def fit_all(
    signal: PowerSignal, readings: Sequence[tuple[SourceName, Float64s, Float64s]]
) -> tuple[SensorFit, ...]:
    """Fit every source that can be fitted, best explained first."""
    fits = [fit_sensor(source, signal, time_s, value_w) for source, time_s, value_w in readings]
    return tuple(sorted((fit for fit in fits if fit is not None), key=lambda fit: -fit.explained))

"""The first, rough place of the kernels in the meter's capture, at any offset of the clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.signal

from ptxbench.meter.capture import MeterCapture
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s, KernelWindow, Series

# Step of the correlation, and the most samples of it, 8 MB as doubles.
_FINEST_S = 1e-3
_MAX_SAMPLES = 1 << 20
# Idle time that belongs to the pattern on either side of the windows.
_MARGIN_S = 0.5
# How far a placement by windows, and one by a sensor that lags, may be off.
_WINDOWS_REACH_S = 0.025
_SIGNAL_REACH_S = 1.5
# Around an edge so much is looked at, or so many samples of a slow meter; less than half of the way to the
# next edge, so that the two do not meet.
_EDGE_RADIUS_S = 0.010
_MIN_EDGE_SAMPLES = 6
_MAX_EDGE_SHARE = 0.45
# Steps at another offset that are this large beside the largest: noise and different kernels may do that.
_LIKE_CONTRAST = 0.8
# A few windows lie elsewhere only where the steps here are this small beside those there.
_SAME_CONTRAST = 0.5
# Below this share of the template a match is too small to mean anything.
_MIN_OVERLAP = 0.1
# A peak of this share of the highest is as good: noise could make it the higher one.
_RIVAL_SHARE = 0.97
# Edges that are looked at together: some tens of MB.
_MAX_AT_ONCE = 500_000


@dataclass(frozen=True)
class Placement:
    """A rough alignment.

    Attributes:
        host_ns: A host time.
        offset_ns: Meter clock less host clock at that time.
        correlation: Pearson's r of the pattern and the meter.
        rivals: Other offsets that match about as well.
        resolution_s: Spacing of the samples that it was found with.
        reach_s: How far the offset may still be off.
    """

    host_ns: int
    offset_ns: int
    correlation: float
    rivals: int = 0
    resolution_s: float = _FINEST_S
    reach_s: float = _WINDOWS_REACH_S


@dataclass(frozen=True)
class Match:
    """The best place of a template within a signal.

    Attributes:
        lag: Index in the signal of the template's first sample (negative: before its begin).
        correlation: Pearson's r of the two over their overlap, -1 to 1.
        rivals: Other lags that match about as well, as where both signals are periodic.
    """

    lag: int
    correlation: float
    rivals: int = 0


def place_windows(
    capture: MeterCapture,
    windows: Sequence[KernelWindow],
    limits_s: tuple[float, float],
    near_s: float = np.inf,
) -> Placement | None:
    """Place the pattern "on in the windows, off between" in the capture.

    Args:
        capture: The meter's capture.
        windows: Kernel windows, host time, in order.
        limits_s: Smallest and largest offset.
        near_s: Time farther than this from every window may be busy or idle.

    Returns:
        The placement, None where nothing matches.
    """
    origin_ns = windows[0].start_ns
    edges_s = np.array([[w.start_ns - origin_ns, w.end_ns - origin_ns] for w in windows]) / 1e9
    period_s = _period_s(capture, float(edges_s[-1, 1]) + 2 * _MARGIN_S)
    count = int(np.ceil((edges_s[-1, 1] + 2 * _MARGIN_S) / period_s))
    grid_s = period_s * np.arange(count + 1) - _MARGIN_S
    lengths_s = np.diff(edges_s, axis=1)[:, 0]
    on_s = np.cumsum(lengths_s)
    done_s = np.interp(grid_s, edges_s.ravel(), np.stack([on_s - lengths_s, on_s], axis=1).ravel())
    share_on = np.diff(done_s) / period_s
    middles_s = np.asarray(grid_s[:-1] + period_s / 2, dtype=np.float64)
    known = (_distance_s(middles_s, edges_s) <= near_s).astype(np.float64)
    return _place(capture, share_on, known, grid_s[0], period_s, origin_ns, limits_s, _WINDOWS_REACH_S)


def place_signal(capture: MeterCapture, series: Series, limits_s: tuple[float, float]) -> Placement | None:
    """Place the readings of one power source in the capture; its lag becomes part of the offset.

    Returns:
        The placement, None where nothing matches or the source is no power of the board.
    """
    good = series.good()
    if series.source in (SourceName.COUNTER, SourceName.MEMORY) or len(good) < 2:
        return None
    time_ns, first = np.unique(good.time_ns, return_index=True)
    origin_ns = int(time_ns[0])
    time_s = (time_ns - origin_ns) / 1e9
    if len(time_s) < 2:
        return None
    period_s = _period_s(capture, float(time_s[-1]))
    grid_s = np.arange(0.0, time_s[-1], period_s)
    last = np.searchsorted(time_s, grid_s, side="right") - 1
    # Between two recordings of a run nothing was read, and the template says nothing.
    age_s = grid_s - time_s[last]
    known = (age_s <= 5 * max(float(np.median(np.diff(time_s))), period_s)).astype(np.float64)
    template = good.value[first][last]
    return _place(capture, template, known, 0.0, period_s, origin_ns, limits_s, _SIGNAL_REACH_S)


def sharpen(capture: MeterCapture, windows: Sequence[KernelWindow], placement: Placement) -> Placement:
    """Move a placement to the offset at which the power steps most at the windows' edges.

    At each edge the mean powers just before and just after are compared. Nothing is assumed
    about the levels, so that kernels of different power, and a load that dies away in stairs
    before its last block ends, serve as well. Kernels at even distances step nearly as much one distance
    farther: of moves that are about as good the smallest is taken, and the others counted as rivals.
    """
    moves_s, contrasts = _contrasts(capture, windows, placement)
    good = np.flatnonzero(contrasts >= _LIKE_CONTRAST * contrasts.max())
    peaks = np.split(good, np.flatnonzero(np.diff(moves_s[good]) > _EDGE_RADIUS_S) + 1)
    nearest = min(peaks, key=lambda peak: float(np.abs(moves_s[peak]).min()))
    best_s = float(moves_s[nearest[int(np.argmax(contrasts[nearest]))]])
    return Placement(
        windows[0].start_ns,
        placement.offset_ns + round(best_s * 1e9),
        placement.correlation,
        placement.rivals + len(peaks) - 1,
        placement.resolution_s,
        _step_s(capture, placement),
    )


def locate(capture: MeterCapture, windows: Sequence[KernelWindow], placement: Placement) -> int:
    """Return the offset at which the power steps most at the edges of a few windows, ns.

    It is that of `placement` unless the steps are much clearer elsewhere within its reach.
    """
    moves_s, contrasts = _contrasts(capture, windows, placement)
    here = np.abs(moves_s) <= _EDGE_RADIUS_S / 2
    if contrasts[here].max() >= _SAME_CONTRAST * contrasts.max():
        moves_s, contrasts = moves_s[here], contrasts[here]
    return placement.offset_ns + round(1e9 * float(moves_s[np.argmax(contrasts)]))


def best_match(signal: Float64s, template: Float64s, weight: Float64s, first: int, last: int) -> Match | None:
    """Find the lag at which the template explains most of the signal.

    Pearson's r of the overlapping parts is computed for all lags by FFT (masked normalized
    cross-correlation, D. Padfield, IEEE Trans. Image Process. 21(5), 2012). The lag with the
    largest r^2 times overlap is taken, so that a short chance match does not win.

    Args:
        signal: Evenly spaced samples, shape (n,).
        template: Samples of the same spacing, shape (m,).
        weight: 1 where the template counts and 0 where it is not known, shape (m,).
        first: Smallest lag to consider.
        last: Largest lag to consider.

    Returns:
        The match, None where no lag overlaps enough or nothing correlates above zero.
    """
    lags = scipy.signal.correlation_lags(len(signal), len(template))
    here = np.ones(len(signal))
    centred = signal - signal.mean()
    template = (template - np.average(template, weights=weight)) * weight
    count = _correlate(here, weight)
    sum_f, sum_ff = _correlate(centred, weight), _correlate(centred**2, weight)
    sum_g, sum_gg = _correlate(here, template), _correlate(here, template**2)
    covariance = _correlate(centred, template) - sum_f * sum_g / np.maximum(count, 1.0)
    variance_f = sum_ff - sum_f**2 / np.maximum(count, 1.0)
    variance_g = sum_gg - sum_g**2 / np.maximum(count, 1.0)
    # The template's own variance decides whether enough of its ups and downs overlap.
    usable = (lags >= first) & (lags <= last) & (count >= _MIN_OVERLAP * weight.sum())
    usable &= (variance_g >= _MIN_OVERLAP * float(np.sum(template**2))) & (variance_f > 1e-9 * sum_ff.max())
    if not usable.any():
        return None
    r = np.zeros(len(lags))
    r[usable] = np.clip(covariance[usable] / np.sqrt(variance_f[usable] * variance_g[usable]), -1.0, 1.0)
    score = np.where(r > 0, r * r * count, 0.0)
    best = int(np.argmax(score))
    if not r[best] > 0:
        return None
    least = _RIVAL_SHARE * float(score[best])
    peaks, _ = scipy.signal.find_peaks(score, height=least, prominence=(1 - _RIVAL_SHARE) * score[best])
    return Match(int(lags[best]), float(r[best]), int(np.sum(peaks != best)))


def _correlate(signal: Float64s, template: Float64s) -> Float64s:
    return np.asarray(scipy.signal.correlate(signal, template, mode="full", method="fft"), dtype=np.float64)


def _contrasts(
    capture: MeterCapture, windows: Sequence[KernelWindow], placement: Placement
) -> tuple[Float64s, Float64s]:
    """Return moves of a placement within its reach, and how much the power steps at the edges at each."""
    origin_ns = windows[0].start_ns
    meter = PowerSignal((capture.time_ns - (origin_ns + placement.offset_ns)) / 1e9, capture.power_w)
    edges_s = np.array([[w.start_ns - origin_ns, w.end_ns - origin_ns] for w in windows]).ravel() / 1e9
    # Where one kernel follows the other at once, the meter sees one edge.
    edges_s = edges_s[np.diff(edges_s, prepend=-np.inf) > 2 * capture.period_s]
    step_s = _step_s(capture, placement)
    moves_s = np.arange(-placement.reach_s, placement.reach_s + step_s, step_s)
    sides_s = edge_radii_s(edges_s, capture.period_s)
    parts = np.array_split(moves_s, 1 + len(moves_s) * len(edges_s) // _MAX_AT_ONCE)
    return moves_s, np.concatenate([_contrast(meter, edges_s + part[:, None], sides_s) for part in parts])


def _step_s(capture: MeterCapture, placement: Placement) -> float:
    """Return how finely a placement is moved."""
    return max(placement.resolution_s, capture.period_s / 2)


def edge_radii_s(edges_s: Float64s, period_s: float) -> Float64s:
    """Return how much of the time around each edge to look at: never as far as the next edge."""
    spacing_s = np.diff(edges_s, prepend=-np.inf, append=np.inf)
    nearest_s = np.minimum(spacing_s[:-1], spacing_s[1:])
    return np.minimum(max(_EDGE_RADIUS_S, _MIN_EDGE_SAMPLES * period_s), _MAX_EDGE_SHARE * nearest_s)


def _contrast(meter: PowerSignal, edges_s: Float64s, sides_s: Float64s) -> Float64s:
    """Return the sums of the squared steps of power at the edges, shape (m, n), that the capture shows."""
    seen = (edges_s - sides_s >= meter.time_s[0]) & (edges_s + sides_s <= meter.time_s[-1])
    step_w = meter.mean_w(edges_s, edges_s + sides_s) - meter.mean_w(edges_s - sides_s, edges_s)
    return np.asarray(np.sum(np.where(seen, step_w, 0.0) ** 2, axis=1))


def _place(
    capture: MeterCapture,
    template: Float64s,
    weight: Float64s,
    template_start_s: float,
    period_s: float,
    origin_ns: int,
    limits_s: tuple[float, float],
    reach_s: float,
) -> Placement | None:
    meter_ns = int(capture.time_ns[0])
    signal = PowerSignal((capture.time_ns - meter_ns) / 1e9, capture.power_w)
    count = int(signal.time_s[-1] / period_s)
    if count < 2 or not np.ptp(template[weight > 0]) > 0:
        return None
    # Offset = (meter_ns + lag x period) - (origin_ns + template_start), by definition of the lag.
    base_ns = meter_ns - origin_ns - round(template_start_s * 1e9)
    first, last = ((limit - base_ns / 1e9) / period_s for limit in limits_s)
    samples = signal.resample(0.0, period_s, count)
    match = best_match(
        samples, template, weight, int(max(first, -len(template))), int(min(last, len(samples)))
    )
    if match is None:
        return None
    return Placement(
        origin_ns,
        base_ns + round(match.lag * period_s * 1e9),
        match.correlation,
        match.rivals,
        period_s,
        reach_s,
    )


def _period_s(capture: MeterCapture, pattern_s: float) -> float:
    longest_s = max(float(capture.time_ns[-1] - capture.time_ns[0]) / 1e9, pattern_s)
    return max(_FINEST_S, capture.period_s, longest_s / _MAX_SAMPLES)


def _distance_s(time_s: Float64s, edges_s: Float64s) -> Float64s:
    """Return how far each time is from the nearest window, shape (n,)."""
    begun = np.searchsorted(edges_s[:, 0], time_s, side="right")
    ends_s = np.concatenate([[-np.inf], edges_s[:, 1]])
    starts_s = np.concatenate([edges_s[:, 0], [np.inf]])
    return np.asarray(np.maximum(np.minimum(time_s - ends_s[begun], starts_s[begun] - time_s), 0.0))

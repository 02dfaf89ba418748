"""The first, rough place of the kernels in the meter's capture, at any offset of the clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.correlate import best_match
from ptxbench.meter.signal import PowerSignal
from ptxbench.power.source import SourceName
from ptxbench.power.trace import Float64s, KernelWindow, Series

_FINEST_S = 1e-3
_MAX_SAMPLES = 1 << 20
# Idle time that belongs to the pattern on either side of the windows.
_MARGIN_S = 0.5
# How far a placement by windows, and one by a sensor that lags, may be off.
_WINDOWS_REACH_S = 0.025
_SIGNAL_REACH_S = 1.5


@dataclass(frozen=True)
class Placement:
    """A rough alignment.

    Attributes:
        host_ns: A host time.
        offset_ns: Meter clock less host clock at that time.
        correlation: Pearson's r of the pattern and the meter.
        resolution_s: Spacing of the samples that it was found with.
        reach_s: How far the offset may still be off.
    """

    host_ns: int
    offset_ns: int
    correlation: float
    resolution_s: float = _FINEST_S
    reach_s: float = _WINDOWS_REACH_S


def place_windows(
    capture: MeterCapture, windows: Sequence[KernelWindow], limits_s: tuple[float, float]
) -> Placement | None:
    """Place the pattern "on in the windows, off between" in the capture.

    Args:
        capture: The meter's capture.
        windows: Kernel windows, host time, in order.
        limits_s: Smallest and largest offset.

    Returns:
        The placement, None where nothing matches.
    """
    origin_ns = windows[0].start_ns
    edges_s = np.array([[w.start_ns - origin_ns, w.end_ns - origin_ns] for w in windows]) / 1e9
    period_s = _period_s(capture, float(edges_s[-1, 1]) + 2 * _MARGIN_S)
    count = int(np.ceil((edges_s[-1, 1] + 2 * _MARGIN_S) / period_s))
    grid_s = period_s * np.arange(count + 1) - _MARGIN_S
    done_s = np.interp(grid_s, edges_s.ravel(), np.stack([_before(edges_s), _after(edges_s)], axis=1).ravel())
    share_on = np.diff(done_s) / period_s
    return _place(
        capture, share_on, np.ones(count), grid_s[0], period_s, origin_ns, limits_s, _WINDOWS_REACH_S
    )


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
    """Move a placement to the offset at which windows and gaps differ most in power.

    Every window and every gap gets its own mean; the sum of squares that these means
    explain is largest where the edges fit. Nothing is assumed about the levels, so that
    kernels of unlike power serve as well.
    """
    origin_ns = windows[0].start_ns
    meter = PowerSignal((capture.time_ns - (origin_ns + placement.offset_ns)) / 1e9, capture.power_w)
    edges_s = np.array([[w.start_ns - origin_ns, w.end_ns - origin_ns] for w in windows]).ravel() / 1e9
    edges_s = np.concatenate([[edges_s[0] - _MARGIN_S], edges_s, [edges_s[-1] + _MARGIN_S]])
    step_s = max(placement.resolution_s, capture.period_s / 2)
    moves_s = np.arange(-placement.reach_s, placement.reach_s + step_s, step_s)
    explained = np.array([_explained(meter, edges_s + move_s) for move_s in moves_s])
    best_s = float(moves_s[int(np.argmax(explained))])
    return Placement(
        origin_ns,
        placement.offset_ns + round(best_s * 1e9),
        placement.correlation,
        placement.resolution_s,
        step_s,
    )


def _explained(meter: PowerSignal, edges_s: Float64s) -> float:
    edges_s = np.clip(edges_s, meter.time_s[0], meter.time_s[-1])
    lengths_s = np.diff(edges_s)
    seen = lengths_s > 0
    if not seen.any():
        return 0.0
    energy_j = np.diff(meter.until_j(edges_s))[seen]
    mean_w = energy_j.sum() / lengths_s[seen].sum()
    return float(np.sum((energy_j - mean_w * lengths_s[seen]) ** 2 / lengths_s[seen]))


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
        origin_ns, base_ns + round(match.lag * period_s * 1e9), match.correlation, period_s, reach_s
    )


def _period_s(capture: MeterCapture, pattern_s: float) -> float:
    longest_s = max(float(capture.time_ns[-1] - capture.time_ns[0]) / 1e9, pattern_s)
    return max(_FINEST_S, capture.period_s, longest_s / _MAX_SAMPLES)


def _before(edges_s: Float64s) -> Float64s:
    """Return the on-time that has passed at the start of each window."""
    return _after(edges_s) - np.diff(edges_s, axis=1)[:, 0]


def _after(edges_s: Float64s) -> Float64s:
    return np.asarray(np.cumsum(np.diff(edges_s, axis=1)[:, 0]), dtype=np.float64)

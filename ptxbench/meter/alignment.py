"""How the meter's clock relates to the host's: offset and drift, with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.meter.capture import MeterCapture, is_epoch
from ptxbench.meter.coarse import Placement, edge_radii_s, place_signal, place_windows, sharpen
from ptxbench.meter.line import ClockStep, Line, find_clock_step, find_steps, fit_line
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow, Series

# Below it the meter is taken to be of another session or GPU; chosen.
MIN_CORRELATION = 0.4
# Two clocks that both count from 1970 may be a time zone apart, not more.
_MAX_EPOCH_OFFSET_S = 15 * 3600.0
# The clocks' drift is told by the edges that lie so near first, then by ever more of them.
_FIRST_SPAN_S = 4.0
# How well a meter that is read live is dated.
_HOST_CLOCK_NS = 1e6


class Basis(StrEnum):
    """What the two clocks were aligned by."""

    WINDOWS = "windows"
    SIGNALS = "signals"
    HOST = "host clock"


@dataclass(frozen=True)
class ClockAlignment:
    """The meter's clock against the host's: meter = host + offset + drift x (host - reference).

    Attributes:
        reference_ns: Host time at which `offset_ns` holds.
        offset_ns: Meter clock less host clock.
        offset_uncertainty_ns: Half-width of its 95% interval.
        drift: How much faster the meter's clock runs, as a fraction.
        drift_uncertainty: Half-width of its 95% interval, NaN where the edges cannot tell.
        correlation: Pearson's r of the load pattern (or the sensor) and the meter.
        rivals: Other offsets at which the pattern matches about as well.
        edges: How many edges of windows the fit rests on.
        basis: What was aligned; by signals the sensor's lag is part of the offset.
        step: A step of one of the clocks that the line does not describe, None where none shows.
    """

    reference_ns: int
    offset_ns: int
    offset_uncertainty_ns: float
    drift: float
    drift_uncertainty: float
    correlation: float
    rivals: int
    edges: int
    basis: Basis
    step: ClockStep | None = None

    def to_host_s(self, meter_ns: Int64s) -> Float64s:
        """Return meter times as seconds of host time after the reference."""
        return (meter_ns - (self.reference_ns + self.offset_ns)) / 1e9 / (1.0 + self.drift)

    def host_s(self, host_ns: Int64s) -> Float64s:
        """Return host times as seconds after the reference."""
        return np.asarray((host_ns - self.reference_ns) / 1e9, dtype=np.float64)

    def offset_at_ns(self, host_ns: int) -> float:
        """Return meter clock less host clock at one host time."""
        return self.offset_ns + self.drift * (host_ns - self.reference_ns)

    @property
    def offset_ms(self) -> Estimate:
        """The offset at the reference, ms."""
        return Estimate(self.offset_ns / 1e6, self.offset_uncertainty_ns / 1e6)

    @property
    def drift_ppm(self) -> Estimate:
        """The drift, parts in a million."""
        return Estimate(self.drift * 1e6, self.drift_uncertainty * 1e6)


def same_clock(reference_ns: int) -> ClockAlignment:
    """Return the alignment of a capture whose times are the host's already, right to a millisecond or so."""
    return ClockAlignment(reference_ns, 0, _HOST_CLOCK_NS, 0.0, 0.0, 1.0, 0, 0, Basis.HOST)


def align(
    capture: MeterCapture, windows: Sequence[KernelWindow], series: Sequence[Series], reference_ns: int
) -> ClockAlignment:
    """Find the meter's clock from the kernels that it saw and the sensor that saw them too.

    The windows' pattern of load is placed by cross-correlation over all lags (and the
    sensor's readings, where these fit better), then where the power steps most at the
    windows' edges, and at last by a straight line through these steps. A lag of the
    sensor does not enter the result.

    Args:
        capture: The meter's capture.
        windows: Kernel windows, host time, in order.
        series: Power readings, host time.
        reference_ns: Host time at which the offset is to hold.

    Raises:
        InputError: The captures have nothing in common.
    """
    limits_s = _offset_limits_s(capture, windows)
    placements = [place_windows(capture, windows, limits_s)]
    placements += [place_signal(capture, one, limits_s) for one in series]
    found = [p for p in placements if p is not None]
    best = max(found, key=lambda p: p.correlation, default=None)
    if best is None or best.correlation < MIN_CORRELATION:
        r = f"; the best correlation is {best.correlation:.2f}" if best is not None else ""
        raise InputError(
            f"the meter's power does not follow the kernels at any offset{r}: is it the same session and GPU?"
        )
    placement = sharpen(capture, windows, best)
    edges = fit_edges(capture, windows, placement, reference_ns)
    return edges if edges is not None else _by_signals(capture, best, reference_ns)


def fit_edges(
    capture: MeterCapture, windows: Sequence[KernelWindow], placement: Placement, reference_ns: int
) -> ClockAlignment | None:
    """Fit offset and drift to the steps at the windows' edges.

    It begins with the edges near the middle and widens, so that each step of the way
    knows the clock well enough to take the right step for each edge.

    Returns:
        The alignment, None where no edge shows a step.
    """
    origin_ns = placement.host_ns
    signal = PowerSignal((capture.time_ns - (origin_ns + placement.offset_ns)) / 1e9, capture.power_w)
    edges_s = np.array([[w.start_ns - origin_ns, w.end_ns - origin_ns] for w in windows]).ravel() / 1e9
    radius_s = edge_radii_s(edges_s, capture.period_s)
    inside = (edges_s > signal.time_s[0]) & (edges_s < signal.time_s[-1])
    if not inside.any():
        return None
    middle_s = float(np.median(edges_s[inside]))
    distance_s = np.abs(edges_s - middle_s)
    line = Line(0.0, 0.0, np.inf, np.nan, 0)
    span_s = max(_FIRST_SPAN_S, float(np.sort(distance_s)[min(3, len(distance_s) - 1)]))
    while True:
        near = inside & (distance_s <= span_s)
        away_s = edges_s[near] - middle_s
        late_s = find_steps(signal, edges_s[near] + line.at_s(away_s), radius_s[near]) - edges_s[near]
        found = np.isfinite(late_s)
        shown = (away_s[found], late_s[found], (np.flatnonzero(near) % 2 == 0)[found], signal.period_s)
        line = fit_line(*shown)
        if span_s >= distance_s.max():
            break
        span_s *= 2
    if not line.edges:
        return None
    ahead_s = (reference_ns - origin_ns) / 1e9 - middle_s
    spread_s = line.drift_half_s * ahead_s if line.drift else 0.0
    return ClockAlignment(
        reference_ns,
        placement.offset_ns + round(1e9 * (line.offset_s + line.drift * ahead_s)),
        1e9 * float(np.hypot(line.offset_half_s, spread_s)),
        line.drift,
        line.drift_half_s,
        placement.correlation,
        placement.rivals,
        line.edges,
        Basis.WINDOWS,
        find_clock_step(*shown),
    )


def halves(
    capture: MeterCapture, windows: Sequence[KernelWindow], alignment: ClockAlignment
) -> tuple[ClockAlignment, ClockAlignment] | None:
    """Align the first and the second half of the capture, each by its own edges alone.

    The capture is cut in the middle of the time from the first window to the last, and
    both offsets are given at the cut.

    Returns:
        Both alignments, None where one half shows no step.
    """
    cut_ns = (windows[0].start_ns + windows[-1].end_ns) // 2
    meter_cut_ns = cut_ns + round(alignment.offset_at_ns(cut_ns))
    start = Placement(cut_ns, round(alignment.offset_at_ns(cut_ns)), alignment.correlation)
    parts = (
        capture.between(int(capture.time_ns[0]), meter_cut_ns),
        capture.between(meter_cut_ns, int(capture.time_ns[-1])),
    )
    first, second = (fit_edges(part, windows, start, cut_ns) if len(part) > 1 else None for part in parts)
    return (first, second) if first is not None and second is not None else None


def _offset_limits_s(capture: MeterCapture, windows: Sequence[KernelWindow]) -> tuple[float, float]:
    """Return the smallest and largest offset to consider."""
    if not (capture.is_epoch and is_epoch(windows[0].start_ns)):
        return -np.inf, np.inf
    between_s = max(capture.time_ns[0] - windows[-1].end_ns, windows[0].start_ns - capture.time_ns[-1]) / 1e9
    if between_s > _MAX_EPOCH_OFFSET_S:
        raise InputError(
            f"the meter's capture and the windows are {between_s / 3600:.1f} h apart: not of one session"
        )
    return -_MAX_EPOCH_OFFSET_S, _MAX_EPOCH_OFFSET_S


def _by_signals(capture: MeterCapture, placement: Placement, reference_ns: int) -> ClockAlignment:
    return ClockAlignment(
        reference_ns,
        placement.offset_ns,
        1e9 * COVERAGE_FACTOR * max(capture.period_s, placement.resolution_s),
        0.0,
        np.nan,
        placement.correlation,
        placement.rivals,
        0,
        Basis.SIGNALS,
    )

"""What a sensor that sees only part of the time cannot know, worked out on the meter's own signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.sensors.characterize.response import delay_s, respond
from ptxbench.sensors.characterize.sensor_fit import SensorFit
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s

_PHASES = 24


@dataclass(frozen=True)
class ViewBound:
    """The error that a sensor of this kind makes even at the right gain, offset and lag.

    Attributes:
        window_pct: Largest error of the energy of one window, over all windows and all
            phases of the refresh.
        half_pct: Largest error of the energy of either half of the capture.
    """

    window_pct: float
    half_pct: float


def view_bound(
    signal: PowerSignal, fit: SensorFit, windows_s: Float64s, halves_s: Sequence[Float64s]
) -> ViewBound:
    """Read the meter's signal as the sensor does, at every phase, and integrate that.

    Args:
        signal: The meter's power, aligned host time.
        fit: The sensor; its gain, offset and lag do not enter.
        windows_s: Start and end of each window, shape (n, 2).
        halves_s: Start and end of each recorded span of either half, shape (k, 2) each.
    """
    refresh_s = fit.refresh_s if fit.refresh_s > 0 else float(np.median(np.diff(fit.made_s)))
    reads = respond(signal, fit.shape, fit.width_s.value)
    count = int((signal.time_s[-1] - signal.time_s[0]) / refresh_s) + 2
    worst_window = worst_half = 0.0
    for phase_s in refresh_s * np.arange(_PHASES) / _PHASES:
        made_s = signal.time_s[0] + phase_s + refresh_s * np.arange(count)
        seen = PowerSignal(made_s - delay_s(fit.shape, 0.0, fit.width_s.value), reads(made_s))
        worst_window = max(worst_window, _worst_pct(signal, seen, windows_s))
        worst_half = max(worst_half, *(abs(_error_pct(signal, seen, half)) for half in halves_s))
    return ViewBound(worst_window, worst_half)


def _worst_pct(signal: PowerSignal, seen: PowerSignal, spans_s: Float64s) -> float:
    return max(abs(_error_pct(signal, seen, span[None])) for span in spans_s)


def _error_pct(signal: PowerSignal, seen: PowerSignal, spans_s: Float64s) -> float:
    true_j = signal.total_j(spans_s)
    return 100 * (seen.total_j(spans_s) - true_j) / true_j

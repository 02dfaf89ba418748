"""How well a source predicts energies: one half of a capture from the other, and at best.

The best is worked out on the meter's own signal: what a sensor that sees only part of the time cannot know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.sensors.characterize.response import delay_s, respond
from ptxbench.sensors.characterize.sensor_fit import MIN_READINGS, SensorFit, refit
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s

HALVES = ("first", "second")
# Phases of the refresh that the bound is taken over.
_PHASES = 24
# A half whose power hardly changes cannot tell a gain from an offset.
_MIN_SWING = 0.1


@dataclass(frozen=True)
class CrossCheck:
    """One half predicted from the other.

    Attributes:
        fitted_on: Half that the fit comes from: "first" or "second".
        fit: The source with gain, offset, lag and width of that half; its fresh values are those of the
            whole capture.
        energy_pct: Error of the predicted energy of all that was recorded in the other half.
        windows_pct: The same for the kernels' windows alone.
    """

    fitted_on: str
    fit: SensorFit
    energy_pct: float
    windows_pct: float


@dataclass(frozen=True)
class Halves:
    """A capture cut in two, between two windows where it has two.

    Attributes:
        cut_s: Where.
        spans_s: Starts and ends of what was recorded in each half, shape (k, 2) each.
        windows_s: Starts and ends of the windows in each half, shape (k, 2) each.
    """

    cut_s: float
    spans_s: tuple[Float64s, Float64s]
    windows_s: tuple[Float64s, Float64s]


def split_in_halves(
    signal: PowerSignal, fit: SensorFit, windows_s: Float64s, recordings_s: Float64s
) -> Halves:
    """Cut what meter and sensor both saw in two, as near to the middle of the windows as a gap allows.

    A single window is cut in its middle.

    Args:
        signal: The meter's power, aligned host time.
        fit: The sensor.
        windows_s: Start and end of each window, shape (n, 2).
        recordings_s: Start and end of each recording, shape (m, 2).
    """
    cut_s = float(windows_s[0, 0] + windows_s[-1, 1]) / 2
    gaps_s = (windows_s[:-1, 1] + windows_s[1:, 0]) / 2
    if len(gaps_s):
        cut_s = float(gaps_s[np.argmin(np.abs(gaps_s - cut_s))])
    begin_s = max(float(signal.time_s[0]), float(fit.made_s[0]) - fit.delay_s)
    end_s = min(float(signal.time_s[-1]), float(fit.made_s[-1]) - fit.delay_s)
    limits = ((begin_s, cut_s), (cut_s, end_s))
    spans = [_clip(recordings_s, *limit) for limit in limits]
    windows = [_clip(windows_s, *limit) for limit in limits]
    return Halves(cut_s, (spans[0], spans[1]), (windows[0], windows[1]))


def cross_validate(signal: PowerSignal, fit: SensorFit, halves: Halves) -> tuple[CrossCheck, ...]:
    """Predict the energy of each half by a fit to the other.

    Args:
        signal: The meter's power, aligned host time.
        fit: The sensor; its shape and refresh are kept, and all else is fitted again.
        halves: The two halves.

    Returns:
        One check for each half that a gain can be fitted to.
    """
    response_w = fit.response_w(signal)
    spoken_of_s = fit.made_s - fit.delay_s
    checks = []
    for number, name in enumerate(HALVES):
        inside = np.zeros(len(spoken_of_s), dtype=np.bool_)
        for start_s, end_s in halves.spans_s[number]:
            inside |= (spoken_of_s >= start_s) & (spoken_of_s <= end_s)
        swing = np.ptp(response_w[inside]) if inside.any() else 0.0
        other_s, other_windows_s = halves.spans_s[1 - number], halves.windows_s[1 - number]
        if inside.sum() < MIN_READINGS or swing < _MIN_SWING * np.ptp(response_w) or not len(other_windows_s):
            continue
        half = refit(signal, fit, inside)
        applied = replace(fit, gain=half.gain, offset_w=half.offset_w, lag_s=half.lag_s, width_s=half.width_s)
        predicted = corrected_signal(applied)
        errors = [_error_pct(signal, predicted, spans_s) for spans_s in (other_s, other_windows_s)]
        checks.append(CrossCheck(name, applied, *errors))
    return tuple(checks)


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
        worst_window = max(worst_window, *(abs(_error_pct(signal, seen, span[None])) for span in windows_s))
        worst_half = max(worst_half, *(abs(_error_pct(signal, seen, half)) for half in halves_s))
    return ViewBound(worst_window, worst_half)


def corrected_signal(fit: SensorFit) -> PowerSignal:
    """Return the sensor's readings as true power at the moments that they measure."""
    return PowerSignal(fit.made_s - fit.delay_s, fit.corrected_w())


def _clip(spans_s: Float64s, start_s: float, end_s: float) -> Float64s:
    clipped = np.clip(spans_s, start_s, end_s)
    return clipped[clipped[:, 1] > clipped[:, 0]]


def _error_pct(signal: PowerSignal, predicted: PowerSignal, spans_s: Float64s) -> float:
    true_j = signal.total_j(spans_s)
    return 100 * (predicted.total_j(spans_s) - true_j) / true_j

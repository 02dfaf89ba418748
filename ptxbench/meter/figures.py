"""Each method's energy of each window against the meter's: MAPE and RMSE, as Arafa et al. 2020, VI-A."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import numpy as np

from ptxbench.energy.corrected import corrected_j
from ptxbench.energy.methods import counter_j, mtsm_j, papi_j, sma_j
from ptxbench.energy.reading import EnergyReading
from ptxbench.meter.alignment import ClockAlignment
from ptxbench.meter.cross import HALVES, CrossCheck, Halves, corrected_signal
from ptxbench.meter.host import Trial
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.sensor_fit import SensorFit
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s, KernelWindow, Series, Trace

# NVML gives whole mJ.
_COUNTER_QUANTUM_J = 1e-3
# The sensor's fresh values joined by straight lines and integrated from edge to edge.
INTEGRAL = "integral"


class FittedOn(StrEnum):
    """What the correction of a window was fitted to."""

    OTHER_HALF = "other half"
    SAME_WINDOWS = "same windows"


@dataclass(frozen=True)
class WindowEnergies:
    """Energies of all windows by one method on one source; NaN where it gave none.

    Attributes:
        method: "sma", "papi", "mtsm", "corrected" (MTSM corrected), "counter" or "integral".
        source: Source.
        energy_j: As the readings are, shape (n,).
        corrected_j: With gain, offset and lag undone, shape (n,).
        fitted_on: What gain, offset and lag were fitted to.
    """

    method: str
    source: SourceName
    energy_j: Float64s
    corrected_j: Float64s
    fitted_on: FittedOn


@dataclass(frozen=True)
class MethodFigures:
    """Errors of one method on one source against the meter.

    Attributes:
        method: Method.
        source: Source.
        mape_pct: Mean absolute percentage error, NaN where no window has an energy.
        rmse_j: Root mean square error.
        mape_corrected_pct: The first after correction by gain, offset and lag.
        rmse_corrected_j: The second after correction.
        windows: Windows that the uncorrected errors rest on.
        windows_corrected: Windows that the corrected errors rest on.
        fitted_on: What the correction was fitted to.
    """

    method: str
    source: SourceName
    mape_pct: float
    rmse_j: float
    mape_corrected_pct: float
    rmse_corrected_j: float
    windows: int
    windows_corrected: int
    fitted_on: FittedOn


def window_energies(
    trials: Sequence[Trial],
    fit: SensorFit,
    halves: Halves,
    checks: Sequence[CrossCheck],
    alignment: ClockAlignment,
) -> tuple[WindowEnergies, ...]:
    """Return the energy of each window by every method that one source allows.

    Each window is corrected by the fit to the half of the capture that it is not in. Where a half
    cannot be fitted, or there is one window only, all are corrected by the fit to the whole capture.

    Args:
        trials: Kernel runs.
        fit: The source's fit.
        halves: Where the capture is cut.
        checks: The fits to either half.
        alignment: Of the meter's clock; it gives the host time of the fit's seconds.
    """
    spans_s = window_spans_s([trial.window for trial in trials], alignment)
    fits = {check.fitted_on: check.fit for check in checks}
    crossed = len(fits) == len(HALVES) and len(trials) > 1
    in_first = spans_s[:, 1] <= halves.cut_s
    used = [fits[HALVES[int(first)]] if crossed else fit for first in in_first.tolist()]
    fitted_on = FittedOn.OTHER_HALF if crossed else FittedOn.SAME_WINDOWS
    seen = [_Seen(trial, one, alignment) for trial, one in zip(trials, used, strict=True)]
    methods = _OF_COUNTER if fit.source is SourceName.COUNTER else _OF_POWER
    result = [
        WindowEnergies(name, fit.source, *_by_method(method, seen), fitted_on)
        for name, method in methods.items()
    ]
    plain_j = _integral_j(PowerSignal(fit.made_s, fit.value_w), spans_s)
    integrals_j = [
        _integral_j(corrected_signal(one), span[None])[0] for one, span in zip(used, spans_s, strict=True)
    ]
    result.append(WindowEnergies(INTEGRAL, fit.source, plain_j, np.array(integrals_j), fitted_on))
    return tuple(result)


def figures(
    energies: WindowEnergies, meter_j: Float64s, chosen: Sequence[int] | None = None
) -> MethodFigures:
    """Return the errors over all windows, or over the chosen ones.

    MAPE = mean |E - E_meter| / E_meter; RMSE = sqrt(mean (E - E_meter)^2).
    """
    take = slice(None) if chosen is None else list(chosen)
    mape_pct, rmse_j, windows = _errors(energies.energy_j[take], meter_j[take])
    corrected_pct, rmse_corrected_j, corrected = _errors(energies.corrected_j[take], meter_j[take])
    errors = (mape_pct, rmse_j, corrected_pct, rmse_corrected_j, windows, corrected)
    return MethodFigures(energies.method, energies.source, *errors, energies.fitted_on)


def window_spans_s(windows: Sequence[KernelWindow], alignment: ClockAlignment) -> Float64s:
    """Return start and end of each window in seconds of aligned host time, shape (n, 2)."""
    return alignment.host_s(np.array([[w.start_ns, w.end_ns] for w in windows], dtype=np.int64))


def _errors(energy_j: Float64s, meter_j: Float64s) -> tuple[float, float, int]:
    known = np.isfinite(energy_j)
    if not known.any():
        return float("nan"), float("nan"), 0
    error_j = energy_j[known] - meter_j[known]
    mape_pct = 100 * float(np.mean(np.abs(error_j) / meter_j[known]))
    return mape_pct, float(np.sqrt(np.mean(error_j**2))), int(known.sum())


@dataclass(frozen=True)
class _Seen:
    """One window with the readings of one source, as they are and with its calibration undone.

    Attributes:
        trial: The window and its recordings.
        fit: The source, by the part of the capture that calibrates this window.
        alignment: Which host time the fit's seconds are.
    """

    trial: Trial
    fit: SensorFit
    alignment: ClockAlignment

    def plain(self, recording: Trace) -> Series | None:
        """Return the readings of a recording."""
        return recording.of(self.fit.source)

    def corrected(self, recording: Trace) -> Series | None:
        """Return fresh values with gain, offset and lag undone, at the moments that they measure."""
        if self.fit.source is SourceName.COUNTER:
            return _corrected_counter(self.plain(recording), self.fit)
        spoken_of_s = self.fit.made_s - self.fit.delay_s
        time_ns = self.alignment.reference_ns + np.round(spoken_of_s * 1e9).astype(np.int64)
        inside = (time_ns >= recording.begin_ns) & (time_ns <= recording.end_ns)
        return Series.unstamped(self.fit.source, time_ns[inside], self.fit.corrected_w()[inside])

    def scaled(self) -> Series | None:
        """Return the readings around the window with gain and offset undone, and the lag left in."""
        series = self.plain(self.trial.trace)
        if series is None or self.fit.source is SourceName.COUNTER:
            return self.corrected(self.trial.trace)
        return replace(series, value=(series.value - self.fit.offset_w.value) / self.fit.gain.value)

    def description(self, *, lag_s: float) -> SensorDescription:
        """Return what the source is like by its fit; the power between two steps of a counter is no mean."""
        is_counter = self.fit.source is SourceName.COUNTER
        averaging_s, quantum = (0.0, _COUNTER_QUANTUM_J) if is_counter else (self.fit.span_s, 0.0)
        return SensorDescription(
            self.fit.source, self.fit.refresh_s, averaging_s, lag_s, quantum, "measured", self.fit.shape
        )


Method = Callable[[_Seen], tuple[float, float]]


def _by_method(method: Method, seen: Sequence[_Seen]) -> tuple[Float64s, Float64s]:
    pairs = np.array([method(one) for one in seen], dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _around(method: Callable[[Series, KernelWindow], EnergyReading]) -> Method:
    """Return a method that looks at the readings around the window."""
    return lambda one: _both(method, one, one.trial.trace)


def _both(
    method: Callable[[Series, KernelWindow], EnergyReading], one: _Seen, recording: Trace
) -> tuple[float, float]:
    plain, corrected = one.plain(recording), one.corrected(recording)
    return _energy_j(method, plain, one.trial.window), _energy_j(method, corrected, one.trial.window)


def _mtsm_corrected(one: _Seen) -> tuple[float, float]:
    """Apply MTSM corrected, which takes averaging, lag and edges out by itself, without and with gain."""
    lag_s = one.fit.lag_s.value
    # The times of a corrected counter are moved by its lag already.
    left_s = 0.0 if one.fit.source is SourceName.COUNTER else lag_s
    pairs = ((one.plain(one.trial.trace), lag_s), (one.scaled(), left_s))
    first, second = (
        _energy_j(partial(corrected_j, sensor=one.description(lag_s=lag)), series, one.trial.window)
        for series, lag in pairs
    )
    return first, second


# The names are those of `ptxbench doctor methods`.
_OF_POWER: dict[str, Method] = {
    # As published: it has no window and reads through the whole recording.
    "sma": lambda one: _both(sma_j, one, one.trial.recording),
    "papi": _around(papi_j),
    "mtsm": _around(mtsm_j),
    "corrected": _mtsm_corrected,
}
_OF_COUNTER: dict[str, Method] = {"counter": _around(counter_j), "corrected": _mtsm_corrected}


def _energy_j(
    method: Callable[[Series, KernelWindow], EnergyReading], series: Series | None, window: KernelWindow
) -> float:
    return method(series, window).energy_j if series is not None and len(series) else float("nan")


def _corrected_counter(series: Series | None, fit: SensorFit) -> Series | None:
    """Undo the gain of a counter, and its offset, which adds up with time from step to step."""
    if series is None or not len(series):
        return None
    time_ns = series.time_ns - round(fit.lag_s.value * 1e9)
    steps = np.flatnonzero(np.diff(series.value, prepend=series.value[0] - 1))
    stepped_ns = time_ns[steps[np.searchsorted(steps, np.arange(len(series)), side="right") - 1]]
    passed_s = (stepped_ns - time_ns[0]) / 1e9
    value_j = (series.value - fit.offset_w.value * passed_s) / fit.gain.value
    return Series.unstamped(series.source, time_ns, value_j)


def _integral_j(signal: PowerSignal, spans_s: Float64s) -> Float64s:
    covered = (spans_s[:, 0] >= signal.time_s[0]) & (spans_s[:, 1] <= signal.time_s[-1])
    return np.where(covered, signal.energy_j(spans_s[:, 0], spans_s[:, 1]), np.nan)

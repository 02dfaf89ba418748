"""Each method's energy of each window against the meter's: MAPE and RMSE, as Arafa et al. 2020, VI-A."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.energy.methods import counter_j, mtsm_j, papi_j, sma_j
from ptxbench.energy.reading import EnergyReading
from ptxbench.meter.alignment import ClockAlignment
from ptxbench.meter.cross import corrected_signal
from ptxbench.meter.host import Trial
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.sensor_fit import SensorFit
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow, Series

Method = Callable[[Series, KernelWindow], EnergyReading]
_OF_POWER: dict[str, Method] = {"sma": sma_j, "papi": papi_j, "mtsm": mtsm_j}
_OF_COUNTER: dict[str, Method] = {"counter": counter_j}
# The sensor's fresh values joined by straight lines and integrated from edge to edge.
INTEGRAL = "integral"


@dataclass(frozen=True)
class WindowEnergies:
    """Energies of all windows by one method on one source; NaN where it gave none.

    Attributes:
        method: "sma", "papi", "mtsm", "counter" or "integral".
        source: Source.
        energy_j: As the readings are, shape (n,).
        corrected_j: With gain, offset and lag undone, shape (n,).
    """

    method: str
    source: SourceName
    energy_j: Float64s
    corrected_j: Float64s


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
    """

    method: str
    source: SourceName
    mape_pct: float
    rmse_j: float
    mape_corrected_pct: float
    rmse_corrected_j: float
    windows: int
    windows_corrected: int


def window_energies(
    trials: Sequence[Trial], fit: SensorFit, alignment: ClockAlignment
) -> tuple[WindowEnergies, ...]:
    """Return the energy of each window by every method that one source allows.

    Args:
        trials: Kernel runs.
        fit: The source's fit.
        alignment: Of the meter's clock; it says which host time the fit's seconds are.
    """
    is_counter = fit.source is SourceName.COUNTER
    methods = _OF_COUNTER if is_counter else _OF_POWER
    corrected = [_corrected(trial, fit, alignment) for trial in trials]
    result = []
    for name, method in methods.items():
        plain_j = [_energy_j(method, trial.trace.of(fit.source), trial.window) for trial in trials]
        corrected_j = [
            _energy_j(method, series, t.window) for series, t in zip(corrected, trials, strict=True)
        ]
        result.append(WindowEnergies(name, fit.source, np.array(plain_j), np.array(corrected_j)))
    spans_s = window_spans_s([trial.window for trial in trials], alignment)
    plain_signal = PowerSignal(fit.made_s, fit.value_w)
    result.append(
        WindowEnergies(
            INTEGRAL, fit.source, *(_integral_j(s, spans_s) for s in (plain_signal, corrected_signal(fit)))
        )
    )
    return tuple(result)


def figures(
    energies: WindowEnergies, meter_j: Float64s, chosen: Sequence[int] | None = None
) -> MethodFigures:
    """Return the errors over all windows, or over the chosen ones.

    MAPE = mean |E - E_meter| / E_meter; RMSE = sqrt(mean (E - E_meter)^2).
    """
    take = slice(None) if chosen is None else list(chosen)
    plain = _errors(energies.energy_j[take], meter_j[take])
    corrected = _errors(energies.corrected_j[take], meter_j[take])
    return MethodFigures(
        energies.method,
        energies.source,
        plain[0],
        plain[1],
        corrected[0],
        corrected[1],
        plain[2],
        corrected[2],
    )


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


def _energy_j(method: Method, series: Series | None, window: KernelWindow) -> float:
    return method(series, window).energy_j if series is not None and len(series) else float("nan")


def _corrected(trial: Trial, fit: SensorFit, alignment: ClockAlignment) -> Series | None:
    """Return a recording with gain, offset and lag undone: fresh values at the moments they speak of."""
    if fit.source is SourceName.COUNTER:
        return _corrected_counter(trial.trace.of(fit.source), fit)
    time_ns = alignment.reference_ns + np.round((fit.made_s - fit.delay_s) * 1e9).astype(np.int64)
    inside = (time_ns >= trial.trace.begin_ns) & (time_ns <= trial.trace.end_ns)
    return _series(fit.source, time_ns[inside], fit.corrected_w()[inside])


def _corrected_counter(series: Series | None, fit: SensorFit) -> Series | None:
    """Undo the gain of a counter, and its offset, which adds up with time from step to step."""
    if series is None or not len(series):
        return None
    time_ns = series.time_ns - round(fit.lag_s.value * 1e9)
    steps = np.flatnonzero(np.diff(series.value, prepend=series.value[0] - 1))
    stepped_ns = time_ns[steps[np.searchsorted(steps, np.arange(len(series)), side="right") - 1]]
    passed_s = (stepped_ns - time_ns[0]) / 1e9
    return _series(series.source, time_ns, (series.value - fit.offset_w.value * passed_s) / fit.gain.value)


def _series(source: SourceName, time_ns: Int64s, value: Float64s) -> Series:
    count = len(value)
    return Series(
        source, time_ns, time_ns, value, np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    )


def _integral_j(signal: PowerSignal, spans_s: Float64s) -> Float64s:
    covered = (spans_s[:, 0] >= signal.time_s[0]) & (spans_s[:, 1] <= signal.time_s[-1])
    return np.where(covered, signal.energy_j(spans_s[:, 0], spans_s[:, 1]), np.nan)

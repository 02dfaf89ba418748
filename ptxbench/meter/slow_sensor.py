"""Energies of kernels by the readings of a slow sensor, corrected by Eq. 6 of Guerreiro et al. (2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.estimate import Estimate
from ptxbench.energy.capacitance import capacitance_j, fit_capacitance
from ptxbench.energy.methods import mtsm_j
from ptxbench.energy.reading import EnergyReading
from ptxbench.meter.host import HostLog
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription, Shape
from ptxbench.sensors.trace import Series


@dataclass(frozen=True)
class CorrectedKernel:
    """A kernel by one source.

    Attributes:
        label: What ran; "" where the file of windows does not say it.
        source: Whose readings.
        time_s: Its duration.
        capacitance: C, s: as it was given, or fitted to the longest kernel.
        uncorrected: Energy by the readings as they are, Eq. 2 of Arafa et al. (2020).
        corrected: Energy by Eq. 6.
    """

    label: str
    source: SourceName
    time_s: float
    capacitance: Estimate
    uncorrected: EnergyReading
    corrected: EnergyReading


def corrected_kernels(log: HostLog, capacitance_s: float | None = None) -> list[CorrectedKernel]:
    """Return the energies of all kernels of a log by each source of power.

    Args:
        log: Readings and windows.
        capacitance_s: C; None: it is fitted, so that the longest kernel comes out even.

    Raises:
        InputError: There is no power, or nothing that C can be fitted to.
    """
    powers = [one for one in log.series if not one.counts_energy]
    if not powers:
        raise InputError("the log has no power, only an energy counter, which needs no correction")
    return [kernel for one in powers for kernel in _of_source(log, one, capacitance_s)]


def _of_source(log: HostLog, series: Series, capacitance_s: float | None) -> Sequence[CorrectedKernel]:
    sensor = SensorDescription(
        series.source, _refresh_s(series), 0.0, 0.0, 0.0, "documented", Shape.EXPONENTIAL
    )
    longest = max((trial.window for trial in log.trials), key=lambda window: window.elapsed_s)
    found = Estimate(capacitance_s, 0.0) if capacitance_s is not None else None
    found = found or fit_capacitance(series, longest, sensor)
    if not found.value > 0:
        raise InputError(
            f"{series.source}: a kernel of {longest.elapsed_s:.3g} s gives no C; give `capacitance`"
        )
    return [
        CorrectedKernel(
            trial.label,
            series.source,
            trial.window.elapsed_s,
            found,
            mtsm_j(series, trial.window),
            capacitance_j(series, trial.window, sensor, found.value),
        )
        for trial in log.trials
    ]


def _refresh_s(series: Series) -> float:
    """Return how far apart the values are made: a value that comes again is not a new one."""
    good = series.good()
    change_ns = good.time_ns[1:][np.diff(good.value) != 0]
    return float(np.median(np.diff(change_ns))) * 1e-9 if len(change_ns) > 1 else 0.0

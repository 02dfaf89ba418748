"""Energy and power of one kernel from one recorded series.

The methods are pure functions of the same record, so that they are compared on the
same run of a kernel. None of them returns a zero for what it cannot answer: the value
is then NaN, with a status and a sentence; so too where the source's time stamps went backwards.

Sources: Y. Arafa et al., "Verified Instruction-Level Energy Consumption Measurement for
NVIDIA GPUs" (2020), sections IV-A to IV-C and Eq. 2. Ways of other tools: as their code has them.
"""

from __future__ import annotations

import math

import numpy as np

from ptxbench.core.status import Status
from ptxbench.energy.reading import EnergyReading, no_energy
from ptxbench.energy.steady import nothing_read, power_between_edges, stepped_back, taken_between
from ptxbench.sensors.trace import NS_PER_S, KernelWindow, Series

# Between two readings: 66.7 Hz (section IV-A); aiconfigurator's collector; Kernel Tuner 1.5's NVMLObserver.
_SMA_PERIOD_S = 0.015
_COLLECTOR_PERIOD_S = 0.1
_TUNER_PERIOD_S = 0.01


def sma_j(series: Series, window: KernelWindow) -> EnergyReading:
    """Energy by the Sampling Monitoring Approach (section IV-A).

    The paper reads power every 15 ms (66.7 Hz) in the background, does not know when the
    kernel runs, and gives no formula. Chosen here: the mean of those readings over the
    whole recording, idle time before and after included, times the kernel's duration. The
    readings are taken from the series as a call every 15 ms would have seen them.

    Args:
        series: Readings of one power source, shape (n,).
        window: The kernel's window, of which only `elapsed_s` is used.

    Returns:
        Energy in J; SENSOR_STALE where no reading succeeded.
    """
    problem = _unusable(series)
    if problem is not None:
        return problem
    good = series.good()
    if len(good):
        # The driver's buffer begins before the recording does.
        good = good.select(good.time_ns >= series.begin_ns[0])
    if not len(good):
        return no_energy(Status.SENSOR_STALE, nothing_read(series))
    time_ns = good.time_ns
    at_ns = np.arange(time_ns[0], time_ns[-1] + 1, round(_SMA_PERIOD_S * NS_PER_S))
    seen_w = good.value[np.searchsorted(time_ns, at_ns, side="right") - 1]
    return EnergyReading(float(seen_w.mean()) * window.elapsed_s, len(seen_w))


def papi_j(series: Series, window: KernelWindow) -> EnergyReading:
    """Energy as PAPI's NVML component gives it: one reading at the end (section IV-B).

    Args:
        series: Readings of one power source, shape (n,).
        window: The kernel's window.

    Returns:
        Energy in J: the last reading up to the kernel's end times its duration;
        WINDOW_TOO_SHORT where nothing was read by then, SENSOR_STALE where that
        reading failed.
    """
    problem = _unusable(series)
    if problem is not None:
        return problem
    before = series.select(series.time_ns <= window.end_ns)
    if not len(before):
        reason = f"no reading of {series.source} was taken before the kernel ended"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    last = before.select(np.arange(len(before)) == np.argmax(before.time_ns))
    if not len(last.good()):
        reason = f"the reading of {series.source} at the kernel's end failed (NVML code {last.code[0]})"
        return no_energy(Status.SENSOR_STALE, reason)
    return EnergyReading(float(last.value[0]) * window.elapsed_s, 1)


def mtsm_j(series: Series, window: KernelWindow) -> EnergyReading:
    """Energy by Multi-Threaded Synchronized Monitoring (section IV-C, Eq. 2).

    Eq. 2: E = elapsed / N x sum of the N power readings. As published, every reading
    that was taken within the window counts, a repeated one too.

    Args:
        series: Readings of one power source, shape (n,).
        window: The kernel's window.

    Returns:
        Energy in J; WINDOW_TOO_SHORT where no reading lies in the window, SENSOR_STALE
        where all of them failed.
    """
    problem = _unusable(series)
    if problem is not None:
        return problem
    inside = series.select(taken_between(series, window.start_ns, window.end_ns))
    if not len(inside):
        reason = f"no reading of {series.source} lies in the {window.elapsed_s:.3g} s window"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    good = inside.good()
    if not len(good):
        return no_energy(Status.SENSOR_STALE, nothing_read(inside))
    return EnergyReading(window.elapsed_s / len(good) * float(good.value.sum()), len(good))


def collector_j(series: Series, window: KernelWindow) -> EnergyReading:
    """Energy as collectors of tables take it: the mean of a reading every 100 ms within the window.

    aiconfigurator's collector reads from the begin of its loop on (collector/helper.py), as
    `nvidia-smi -lms 100` does at any time; the mean is taken times the loop's duration.

    Args:
        series: Readings of one power source, shape (n,).
        window: The kernel's window.

    Returns:
        Energy in J; WINDOW_TOO_SHORT where nothing was read by its begin, SENSOR_STALE where no reading
        succeeded.
    """
    problem = _unusable(series)
    if problem is not None:
        return problem
    good = series.good()
    if not len(good):
        return no_energy(Status.SENSOR_STALE, nothing_read(series))
    at_ns = np.arange(window.start_ns, window.end_ns + 1, round(_COLLECTOR_PERIOD_S * NS_PER_S))
    seen = np.searchsorted(good.time_ns, at_ns, side="right") - 1
    if seen[0] < 0:
        reason = f"no reading of {series.source} was taken before the kernel began"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    return EnergyReading(float(good.value[seen].mean()) * window.elapsed_s, len(seen))


def median_j(series: Series, window: KernelWindow) -> EnergyReading:
    """Energy as Kernel Tuner's NVMLObserver gives it: the median of the readings in the window, times T.

    It keeps a reading that differs from the one before, or that is 10 ms younger (version 1.5), while it
    launches the kernel for a second.

    Args:
        series: Readings of one power source, shape (n,).
        window: The kernel's window.

    Returns:
        Energy in J; as `mtsm_j` where there is none.
    """
    problem = _unusable(series)
    if problem is not None:
        return problem
    inside = series.select(taken_between(series, window.start_ns, window.end_ns))
    good = inside.good()
    if not len(good):
        return mtsm_j(series, window)
    at_ns = np.arange(good.time_ns[0], good.time_ns[-1] + 1, round(_TUNER_PERIOD_S * NS_PER_S))
    changed_ns = good.time_ns[np.flatnonzero(np.diff(good.value, prepend=np.nan) != 0)]
    seen = np.searchsorted(good.time_ns, np.union1d(at_ns, changed_ns), side="right") - 1
    return EnergyReading(float(np.median(good.value[seen])) * window.elapsed_s, len(seen))


def difference_j(series: Series, window: KernelWindow) -> EnergyReading:
    """Energy as Zeus and codecarbon take it: the energy counter at the window's end less at its begin.

    Args:
        series: Readings of the counter, shape (n,), J.
        window: The kernel's window.

    Returns:
        Energy in J; WINDOW_TOO_SHORT where nothing was read before the window, SENSOR_STALE where no reading
        succeeded, NOT_SUPPORTED for another source.
    """
    if not series.counts_energy:
        return no_energy(Status.NOT_SUPPORTED, f"{series.source} gives watts, not joules")
    good = series.good()
    if not len(good):
        return no_energy(Status.SENSOR_STALE, nothing_read(series))
    first, last = np.searchsorted(good.end_ns, [window.start_ns, window.end_ns], side="right") - 1
    if first < 0:
        reason = "the counter was not read before the kernel began"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    return EnergyReading(float(good.value[last] - good.value[first]), 2)


def counter_j(series: Series, window: KernelWindow, quantum_j: float = 1e-3) -> EnergyReading:
    """Energy by the energy counter, read at its edges.

    Between two refreshes the counter stands still, so that its value is right only where it steps. The energy
    between the first and the last step within the window is scaled to the kernel's duration. This assumes
    that the kernel draws the same power in the part of a refresh at either end. Nothing from outside the
    window enters.

    Args:
        series: Readings of the counter, shape (n,), J.
        window: The kernel's window.
        quantum_j: Smallest step of the counter (NVML counts whole mJ); it enters the error.

    Returns:
        Energy in J, its error from the counter's quantum and from not knowing when between two polls
        a step came; WINDOW_TOO_SHORT where fewer than two steps lie in the window, SENSOR_STALE where
        no reading succeeded, NOT_SUPPORTED for another source.
    """
    if not series.counts_energy:
        reason = f"{series.source} gives watts, not the joules of an energy counter"
        return no_energy(Status.NOT_SUPPORTED, reason)
    power = power_between_edges(series, window.start_ns, window.end_ns, quantum_j)
    if power.status is not Status.OK:
        return EnergyReading(math.nan, power.readings, power.status, power.reason)
    error_j = power.standard_error_w * window.elapsed_s
    return EnergyReading(power.power_w * window.elapsed_s, power.readings, error_j=error_j)


def _unusable(series: Series) -> EnergyReading | None:
    if series.counts_energy:
        reason = "the energy counter gives joules; use the counter method"
        return no_energy(Status.NOT_SUPPORTED, reason)
    reason = stepped_back(series)
    return no_energy(Status.SENSOR_STALE, reason) if reason else None

"""Power over the settled part of a kernel, from the readings that its sensor had refreshed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ptxbench.core.arrays import Bools, Floats
from ptxbench.core.status import Status
from ptxbench.energy.excursion import behind_excursion
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# Standard deviation of an error that is spread evenly over one unit.
UNIFORM_SD = 1 / math.sqrt(12)
# A scatter needs two readings, and so does a difference.
_MIN_READINGS = 2
# A change of so many standard errors, and of more than one step of the source, is one.
_SIGNIFICANT = 3.0
_QUANTA = 1.5
# So many refreshes of a real sensor do not repeat one value to the last digit.
_STALE_REFRESHES = 5


@dataclass(frozen=True)
class PowerReading:
    """Mean power over the settled part of one kernel.

    Attributes:
        power_w: Power, NaN unless `status` is OK.
        standard_error_w: Standard error of `power_w`, NaN unless `status` is OK.
        readings: How many fresh readings (edges, for the counter) it rests on.
        status: Validity.
        reason: One sentence where `status` is not OK.
    """

    power_w: float
    standard_error_w: float
    readings: int
    status: Status = Status.OK
    reason: str = ""


def fresh(series: Series, refresh_s: float) -> Series:
    """Reduce a polled series to the readings that the sensor had just refreshed.

    Polling a cached source repeats each value until the next refresh. A value that is
    held for about k refresh periods is k refreshes to the same value, and counts k times.
    Readings with a driver stamp are fresh where their stamp is new.

    Args:
        series: Readings of one source, shape (n,).
        refresh_s: Refresh period of the source; 0: every reading is fresh.

    Returns:
        The fresh ones of its good readings, shape (m,), m <= n.
    """
    good = series.good()
    if not len(good):
        return good
    if good.stamp_ns[0] >= 0:
        return good.select(np.diff(good.stamp_ns, prepend=-1) != 0)
    if refresh_s <= 0:
        return good
    changed = _changes(good.value)
    run = np.cumsum(changed) - 1
    held_s = (good.end_ns - good.end_ns[changed][run]) / NS_PER_S
    repeat = np.maximum(np.floor(held_s / refresh_s - 0.5), 0)
    return good.select(changed | (np.diff(repeat, prepend=0) > 0))


def steady_power_w(
    series: Series, window: KernelWindow, sensor: SensorDescription, period_s: float = 0.0
) -> PowerReading:
    """Mean power over the part of the window that readings cover wholly.

    A reading taken at t covers, at the earliest, what was drawn at t - lag - refresh - averaging. So readings
    count from that long after the kernel's start until its end. They count from later on where the GPU's
    regulation takes longer (`settled_after_s`), or where the power leaves its steady value
    (`behind_excursion`). For the counter: the energy between the first and the last step that lie there, over
    the time between them.

    The standard error comes from the scatter of the fresh readings, widened where they
    overlap (averaging longer than refresh), and is never under the quantum's own; for
    the counter, from not knowing when between two polls a step came.

    Args:
        series: Readings of one source, shape (n,).
        window: The kernel's window.
        sensor: What that source is like.
        period_s: After how long the power repeats itself, where that is longer than a refresh; it is then the
            mean of as many whole periods as the settled readings span. 0 for even power.

    Returns:
        Power in W; WINDOW_TOO_SHORT where the window holds fewer than two settled
        readings, SENSOR_STALE where the source gave none, still repeats a value from
        before the kernel, or went backwards.
    """
    if series.counts_energy:
        return _counter_power_w(series, window, sensor)
    if reason := stepped_back(series):
        return _no_power(Status.SENSOR_STALE, reason)
    start_ns = _settled_ns(window, sensor)
    usable_s = (window.end_ns - start_ns) / NS_PER_S
    if usable_s < max((_MIN_READINGS - 1) * sensor.refresh_s, 0):
        return _too_short(series, window, sensor)
    good = series.good()
    settled = _settled(good, window, sensor)
    if not len(settled):
        return _no_power(Status.SENSOR_STALE, nothing_read(series))
    held_s = _held_from_before_s(good, window, start_ns)
    if held_s > _STALE_REFRESHES * sensor.refresh_s > 0:
        reason = f"{series.source} gave a value from before the kernel for {held_s:.2g} s"
        return _no_power(Status.SENSOR_STALE, reason)
    distinct = fresh(settled, sensor.refresh_s)
    values_w = distinct.value
    if len(values_w) < _MIN_READINGS:
        return _too_short(series, window, sensor, len(values_w))
    if period_s > 0:
        return _periodic_power(distinct, sensor, period_s)
    if sensor.excursion > 0:
        begin_ns = window.start_ns + round(sensor.settle_s * NS_PER_S)
        course = fresh(good.select(taken_between(good, begin_ns, window.end_ns)), sensor.refresh_s)
        values_w = behind_excursion(course.value, values_w, sensor)
    # Running means that overlap share most of their noise.
    scatter_w = float(values_w.std(ddof=1)) * math.sqrt(sensor.overlap / len(values_w))
    error_w = max(scatter_w, sensor.quantum * UNIFORM_SD)
    return PowerReading(float(values_w.mean()), error_w, len(values_w))


def _periodic_power(settled: Series, sensor: SensorDescription, period_s: float) -> PowerReading:
    means_w = _period_means_w(settled, period_s)
    if not len(means_w):
        reason = f"the settled readings span no whole launch of {period_s:.3g} s"
        return _no_power(Status.WINDOW_TOO_SHORT, reason, len(settled))
    # When between two readings the power changed is not known.
    time_s = _read_s(settled)
    moved_j = np.diff(settled.value) * np.diff(time_s) * UNIFORM_SD
    unseen_w = math.sqrt(float((moved_j**2).sum())) / float(time_s[-1] - time_s[0])
    scatter_w = float(means_w.std(ddof=1)) / math.sqrt(len(means_w)) if len(means_w) > 1 else 0.0
    error_w = max(unseen_w, scatter_w, sensor.quantum * UNIFORM_SD)
    return PowerReading(float(means_w.mean()), error_w, len(settled))


def _period_means_w(settled: Series, period_s: float) -> Float64s:
    """Return the mean power of each whole period up to the last reading, W; between readings it is linear."""
    before_last_s = _read_s(settled)
    steps_j = np.diff(before_last_s) * (settled.value[1:] + settled.value[:-1]) / 2
    energy_j = np.concatenate(([0.0], np.cumsum(steps_j)))
    periods = int(-before_last_s[0] / period_s)
    edges_s = -period_s * np.arange(periods, -1, -1)
    means_w: Float64s = np.diff(np.interp(edges_s, before_last_s, energy_j)) / period_s
    return means_w


def _read_s(series: Series) -> Float64s:
    """Return when each reading was made, s from the last one on, shape (n,)."""
    time_ns = np.where(series.stamp_ns >= 0, series.stamp_ns, series.time_ns)
    before_last_s: Float64s = (time_ns - time_ns[-1]) / NS_PER_S
    return before_last_s


def settled_after_s(window: KernelWindow, sensor: SensorDescription) -> float:
    """Return how long after its start the settled part of a kernel begins.

    The sensor must have settled; the GPU's regulation is waited for as far as half the kernel is left.

    Args:
        window: The kernel's window.
        sensor: What the source is like.
    """
    return max(sensor.settle_s, min(sensor.regulation_s, window.elapsed_s / 2))


def power_change(
    series: Series, window: KernelWindow, sensor: SensorDescription, period_s: float = 0.0
) -> float:
    """Return by what fraction the power of a kernel's later half differs from that of its earlier one.

    A difference that the readings' noise explains, or one step of a coarse source, is none. The noise is
    taken from the differences of neighbouring readings, which a slow change hardly adds to (von Neumann,
    "Distribution of the ratio of the mean square successive difference to the variance", Ann. Math. Stat.
    12, 1941).

    Args:
        series: Readings of one source, not of the counter.
        window: The kernel's window.
        sensor: What that source is like.
        period_s: After how long the power repeats itself (`steady_power_w`); 0 for even power.

    Returns:
        Later over earlier settled readings, or whole periods, less one; 0 where there is no change, or fewer
        than four of them.
    """
    settled = fresh(_settled(series.good(), window, sensor), sensor.refresh_s)
    values_w = _period_means_w(settled, period_s) if period_s > 0 and len(settled) else settled.value
    half = len(values_w) // 2
    if half < _MIN_READINGS:
        return 0.0
    early_w, late_w = float(values_w[:half].mean()), float(values_w[-half:].mean())
    noise_w = math.sqrt(float((np.diff(values_w) ** 2).mean()) / 2)
    if abs(late_w - early_w) <= max(_SIGNIFICANT * noise_w * math.sqrt(2 / half), _QUANTA * sensor.quantum):
        return 0.0
    return late_w / early_w - 1


def _counter_power_w(series: Series, window: KernelWindow, sensor: SensorDescription) -> PowerReading:
    # A step is seen when it comes, so that a refresh need not be waited for.
    settled_s = max(sensor.memory_s + sensor.lag_s, settled_after_s(window, sensor) - sensor.refresh_s)
    start_ns = window.start_ns + round(settled_s * NS_PER_S)
    power = power_between_edges(series, start_ns, window.end_ns, sensor.quantum)
    usable_s = (window.end_ns - start_ns) / NS_PER_S
    is_silent = power.status is Status.WINDOW_TOO_SHORT and power.readings == 0
    if is_silent and usable_s > _STALE_REFRESHES * sensor.refresh_s:
        return _no_power(Status.SENSOR_STALE, nothing_read(series))
    return power


def power_between_edges(series: Series, start_ns: int, end_ns: int, quantum_j: float) -> PowerReading:
    """Energy between the first and the last step of the counter in an interval, over their time.

    Args:
        series: Readings of the counter, shape (n,), J.
        start_ns: Begin of the interval, host time.
        end_ns: End of the interval, host time.
        quantum_j: Smallest step of the counter.

    Returns:
        Power in W; WINDOW_TOO_SHORT where fewer than two steps lie in the interval,
        SENSOR_STALE where no reading succeeded or the counter fell within the interval.
    """
    good = series.good()
    if not len(good):
        return _no_power(Status.SENSOR_STALE, nothing_read(series))
    # What wrapped outside of the interval does not matter.
    if reason := stepped_back(good.select((good.end_ns >= start_ns) & (good.begin_ns <= end_ns))):
        return _no_power(Status.SENSOR_STALE, reason)
    # The first reading is no edge: nobody saw the value before it.
    edge = np.flatnonzero(_changes(good.value))[1:]
    # A step came after the reading before it began, and before this one ended.
    after_ns, before_ns = good.begin_ns[edge - 1], good.end_ns[edge]
    inside = (after_ns >= start_ns) & (before_ns <= end_ns)
    edge, gap_s = edge[inside], (before_ns - after_ns)[inside] / NS_PER_S
    if len(edge) < _MIN_READINGS:
        reason = f"{len(edge)} steps of the energy counter lie in the settled window, {_MIN_READINGS} needed"
        return _no_power(Status.WINDOW_TOO_SHORT, reason, len(edge))
    energy_j = float(good.value[edge[-1]] - good.value[edge[0]])
    span_s = float(good.end_ns[edge[-1]] - good.end_ns[edge[0]]) / NS_PER_S
    power_w = energy_j / span_s
    time_s = math.hypot(gap_s[0] * UNIFORM_SD, gap_s[-1] * UNIFORM_SD)
    time_error_w = power_w * time_s / span_s
    quantum_error_w = math.sqrt(2) * quantum_j * UNIFORM_SD / span_s
    return PowerReading(power_w, math.hypot(time_error_w, quantum_error_w), len(edge))


def _changes(value: Floats) -> Bools:
    return np.concatenate(([True], value[1:] != value[:-1]))


def taken_between(series: Series, start_ns: int, end_ns: int) -> Bools:
    """Tell which readings were stamped, or else called, wholly within an interval, its end left out."""
    stamped = series.stamp_ns >= 0
    first_ns = np.where(stamped, series.stamp_ns, series.begin_ns)
    inside: Bools = (first_ns >= start_ns) & (series.time_ns < end_ns)
    return inside


def _settled_ns(window: KernelWindow, sensor: SensorDescription) -> int:
    """Return from when on readings no longer depend on the power before the kernel."""
    return window.start_ns + round(settled_after_s(window, sensor) * NS_PER_S)


def settled_mask(series: Series, window: KernelWindow, sensor: SensorDescription) -> Bools:
    """Tell which readings lie in the settled part of a kernel, shape (n,).

    Args:
        series: Readings of one source, shape (n,).
        window: The kernel's window.
        sensor: What that source is like.
    """
    return taken_between(series, _settled_ns(window, sensor), window.end_ns)


def _settled(good: Series, window: KernelWindow, sensor: SensorDescription) -> Series:
    return good.select(settled_mask(good, window, sensor))


def _held_from_before_s(good: Series, window: KernelWindow, settled_ns: int) -> float:
    """Return how long the first settled reading kept its value if it had it before the kernel, else 0."""
    if good.stamp_ns[0] >= 0:
        return 0.0
    until_end = good.select(good.time_ns <= window.end_ns)
    begins = np.flatnonzero(_changes(until_end.value))
    first = int(np.searchsorted(until_end.time_ns, settled_ns))
    run = int(np.searchsorted(begins, first, side="right")) - 1
    if until_end.time_ns[begins[run]] >= window.start_ns:
        return 0.0
    last = begins[run + 1] - 1 if run + 1 < len(begins) else len(until_end) - 1
    return float(until_end.time_ns[last] - until_end.time_ns[begins[run]]) / NS_PER_S


def stepped_back(series: Series) -> str:
    """Return a sentence where a source went backwards, or "".

    Driver stamps do where the system's clock is set back; what is read from then on cannot be placed in
    time. The energy counter does where it wraps or is reset (a driver that is reloaded).

    Args:
        series: Readings of one source, shape (n,).
    """
    good = series.good()
    back_ns = np.diff(good.stamp_ns[good.stamp_ns >= 0])
    if (back_ns < 0).any():
        return f"the time stamps of {series.source} jumped back by {-back_ns.min() / NS_PER_S:.3g} s"
    if not series.counts_energy:
        return ""
    fell = np.flatnonzero(np.diff(good.value) < 0)
    if not len(fell):
        return ""
    before_j, after_j = good.value[fell[0]], good.value[fell[0] + 1]
    return f"the energy counter fell from {before_j:.6g} J to {after_j:.6g} J: it wrapped or was reset"


def nothing_read(series: Series) -> str:
    """Return the sentence for a series that gave nothing where it was needed."""
    codes = sorted({int(code) for code in series.code if code != 0})
    if codes:
        return f"no reading of {series.source} succeeded where one was needed (NVML codes {codes})"
    return f"{series.source} gave no new reading where one was needed"


def _too_short(
    series: Series, window: KernelWindow, sensor: SensorDescription, readings: int = 0
) -> PowerReading:
    needed_s = sensor.settle_s + _MIN_READINGS * sensor.refresh_s
    reason = (
        f"a {window.elapsed_s:.3g} s kernel holds {readings} settled readings of {series.source};"
        f" make it at least {needed_s:.3g} s"
    )
    return _no_power(Status.WINDOW_TOO_SHORT, reason, readings)


def _no_power(status: Status, reason: str, readings: int = 0) -> PowerReading:
    return PowerReading(math.nan, math.nan, readings, status, reason)

"""MTSM corrected for what the sensor is: energy from fresh values, each for the time that it covers.

A value made at t is the mean of the power p over its past, with a weight w of unit area: it covers the
time from t - lag - averaging to t - lag (`SensorDescription`). Let u = t - lag, and let the kernel run
from 0 to T, with even power p0 before and p1 after. Then v(u) = integral of p(u - a) w(a) da, and

    integral of (v - base) du = integral of (p - b) du,

because the area of a convolution is the product of the areas; b is p0 until T and p1 after, and base is
what the sensor makes of b: base(u) = p0 + (p1 - p0) x share of the value's weight that is after T.
p - b is zero outside of the kernel, so that

    E = p0 T + sum over the values k with 0 < u_k < T + memory of (v_k - base_k) d_k,

with d_k half the time from the value before to the value after (time weights; the first and the last of
them reach out to the values around the window, so that its edges are interpolated). This holds for
power of any form within the kernel. Neither averaging nor lag is left in it: the ramp at the start,
which Eq. 2 of Arafa et al. (2020) takes for the kernel, is as much too low as the tail after the end is
too high. As a sum over evenly spaced values it is exact on the mean over their phase.

Where the recording ends before the tail does, power within the kernel is taken to be even instead:
v_k = p0 + (P - p0) f_k with f_k the share of the value's weight within the kernel, P by least squares, and
E = P T.
"""

from __future__ import annotations

import math

import numpy as np

from ptxbench.core.status import Status
from ptxbench.energy.methods import counter_j
from ptxbench.energy.reading import EnergyReading, no_energy
from ptxbench.energy.sensor_response import share_before, share_within
from ptxbench.energy.steady import UNIFORM_SD, nothing_read, stepped_back
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# Phases of a refresh that stand for all: with 256 the scatter that comes of them is at most 1% larger (tried
# with `samples` and `instant`, on windows of 0.01 to 3 s).
_PHASES = 16
# A scatter of fewer values says little.
_MIN_SCATTER = 3


def corrected_j(series: Series, window: KernelWindow, sensor: SensorDescription) -> EnergyReading:
    """Energy by MTSM, with averaging window, lag and the edges of the kernel taken out.

    See the head of this module for the formula. The recording must begin before the kernel, on a GPU
    that had drawn even power for as long as the sensor remembers; best it also reaches past the
    kernel's end by `sensor.settle_s`. For the counter: the energy between the last step before the
    kernel and the first after it, less what was drawn beside it.

    The error holds the scatter of the values outside of the kernel, the quantum, the error of p0 and
    p1, and, for a sensor that sees part of the time only, that the phase of its refresh is not known.

    Args:
        series: Readings of one source, shape (n,).
        window: The kernel's window.
        sensor: What that source is like.

    Returns:
        Energy in J; WINDOW_TOO_SHORT where a kernel may fall between two values, nothing was read before
        it, or the values do not tell that it took any; SENSOR_STALE where no reading succeeded, or the
        source went backwards.
    """
    good = series.good()
    if len(good):
        # The driver's buffer begins before the recording does.
        good = good.select(good.time_ns >= series.begin_ns[0])
    if not len(good):
        return no_energy(Status.SENSOR_STALE, nothing_read(series))
    if reason := stepped_back(good):
        return no_energy(Status.SENSOR_STALE, reason)
    if series.counts_energy:
        return _corrected_counter(good, window, sensor)
    length_s = window.elapsed_s
    if length_s + sensor.averaging_s < sensor.refresh_s:
        reason = (
            f"a {length_s:.3g} s kernel may fall between two values of {series.source}, which cover"
            f" {sensor.averaging_s:.3g} s of each {sensor.refresh_s:.3g} s"
        )
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    newest_s, value_w = fresh_values(good, window, sensor)
    before, after = newest_s <= 0, newest_s >= length_s + sensor.memory_s
    during = ~before & ~after
    if not before.any() or not during.any():
        where = "before" if not before.any() else "of"
        reason = f"no value of {series.source} speaks of the time {where} the kernel: record more around it"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    noise_w = _noise_w(value_w[before], value_w[after], sensor)
    p0_w = float(value_w[before].mean())
    if not after.any():
        return _even_power(newest_s[during], value_w[during], p0_w, noise_w, length_s, sensor)
    p1_w = float(value_w[after].mean())
    base_w = p0_w + (p1_w - p0_w) * share_before(newest_s - length_s, sensor)
    # The outermost values around the window stand in for all that follow.
    spacing_s = np.gradient(newest_s) if len(newest_s) > 1 else np.array([sensor.refresh_s])
    excess_j = float(((value_w - base_w) * spacing_s)[during].sum())
    outside = int(before.sum()), int(after.sum())
    base_error_j = noise_w * math.hypot(*(math.sqrt(sensor.overlap / n) for n in outside))
    base_error_j *= length_s + sensor.averaging_s / 2
    noise_j = noise_w * math.sqrt(sensor.overlap * float((spacing_s[during] ** 2).sum()))
    phase_j = abs(excess_j) * _phase_sd(length_s, sensor)
    error_j = math.hypot(noise_j, base_error_j, phase_j)
    return _told(p0_w * length_s + excess_j, int(during.sum()), error_j)


def _told(energy_j: float, readings: int, error_j: float) -> EnergyReading:
    """Return an energy with its standard error; none where readings do not tell that it is above 0."""
    if energy_j > 0:
        return EnergyReading(energy_j, readings, error_j=error_j)
    found = f"{energy_j:.3g} J, known to {error_j:.3g} J"
    reason = f"the readings around the kernel do not tell its energy: {found}"
    return no_energy(Status.WINDOW_TOO_SHORT, reason)


def fresh_values(good: Series, window: KernelWindow, sensor: SensorDescription) -> tuple[Float64s, Float64s]:
    """Return the newest instant that each fresh value covers, in s after the kernel's start, and the values.

    A polled value was made between the call that first gave it and the call before: halfway is taken.
    Where it stayed for several refreshes, each of them made it again; what stood there from the first
    call on was made at whole refreshes before the next change.

    Args:
        good: Readings that succeeded, in the order of their calls, shape (n,).
        window: The kernel's window.
        sensor: The source.
    """
    if good.stamp_ns[0] >= 0:
        stamp_ns, first = np.unique(good.stamp_ns, return_index=True)
        return (stamp_ns - window.start_ns) / NS_PER_S - sensor.lag_s, good.value[first]
    call_s = (good.end_ns - window.start_ns) / NS_PER_S
    if sensor.refresh_s <= 0:
        return call_s - sensor.lag_s, good.value
    change = np.flatnonzero(np.diff(good.value)) + 1
    made_s = (call_s[change - 1] + call_s[change]) / 2
    border_s = np.concatenate([[call_s[0]], made_s, [call_s[-1]]])
    times = np.maximum(np.round(np.diff(border_s) / sensor.refresh_s), 1).astype(np.int64)
    # How often the last value was made is cut off by the last call, and the first one's by the first.
    times[-1] = int((border_s[-1] - border_s[-2]) / sensor.refresh_s) + 1
    starts_s = border_s[:-1].copy()
    if len(change):
        starts_s[0] = made_s[0] - times[0] * sensor.refresh_s
    nth = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    newest_s = np.repeat(starts_s, times) + nth * sensor.refresh_s - sensor.lag_s
    return newest_s, np.repeat(good.value[np.concatenate([[0], change])], times)


def _even_power(
    newest_s: Float64s,
    value_w: Float64s,
    p0_w: float,
    noise_w: float,
    length_s: float,
    sensor: SensorDescription,
) -> EnergyReading:
    """Return P T, with P by least squares from v = p0 + (P - p0) f."""
    share = share_within(newest_s, 0.0, length_s, sensor)
    weight = float((share**2).sum())
    if not weight > 0:
        reason = f"no value of {sensor.source} covers any of the kernel: record more after it"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    excess_w = float((share * (value_w - p0_w)).sum()) / weight
    # One error of p0 enters every value.
    error_w = noise_w * math.hypot(1 / math.sqrt(weight), float(share.sum()) / weight - 1)
    return _told((p0_w + excess_w) * length_s, len(value_w), error_w * length_s)


def _noise_w(before_w: Float64s, after_w: Float64s, sensor: SensorDescription) -> float:
    """Return the scatter of the values outside of the kernel, at least the quantum's own; NaN for too few."""
    squares = sum(float(((w - w.mean()) ** 2).sum()) for w in (before_w, after_w) if len(w) > 1)
    degrees = sum(len(w) - 1 for w in (before_w, after_w) if len(w) > 1)
    if degrees < _MIN_SCATTER - 1:
        return math.nan
    return max(math.sqrt(squares / degrees), sensor.quantum * UNIFORM_SD)


def _phase_sd(length_s: float, sensor: SensorDescription) -> float:
    """Return the relative scatter of a sum over a kernel's values that comes from the refresh's phase."""
    if sensor.refresh_s <= 0:
        return 0.0
    sums = phase_sums(length_s, sensor)
    return float(sums.std() / sums.mean())


def phase_sums(length_s: float, sensor: SensorDescription) -> Float64s:
    """Return how many values' worth of a window a sensor sees, for phases of its refresh, shape (phases,).

    Their mean is the window's length over the refresh.

    Args:
        length_s: Length of the window.
        sensor: The source, which refreshes.
    """
    reach_s = length_s + sensor.memory_s
    number = np.arange(int(reach_s / sensor.refresh_s) + 2)
    phase_s = sensor.refresh_s * (np.arange(_PHASES) + 0.5) / _PHASES
    shares = share_within(phase_s[:, None] + sensor.refresh_s * number, 0.0, length_s, sensor)
    return np.asarray(shares.sum(axis=1), dtype=np.float64)


def _corrected_counter(good: Series, window: KernelWindow, sensor: SensorDescription) -> EnergyReading:
    """Energy between the steps around the kernel, less idle power times the rest of that time.

    Idle power is the counter's own, between its steps before the kernel and between those after it. An
    error of a step's time counts with idle power only. Where the recording holds no such steps, the
    steps within the window are taken (`counter_j`).
    """
    length_s = window.elapsed_s
    step = np.flatnonzero(np.diff(good.value)) + 1
    gap_s = (good.end_ns[step] - good.begin_ns[step - 1]) / NS_PER_S
    at_s = (good.end_ns[step] + good.begin_ns[step - 1]) / 2
    at_s = (at_s - window.start_ns) / NS_PER_S - sensor.lag_s
    energy_j = good.value[step]
    before, after = np.flatnonzero(at_s <= 0), np.flatnonzero(at_s >= length_s + sensor.memory_s)
    if len(before) < 2 or not len(after):
        return counter_j(good, window, sensor.quantum)
    last, first = before[-1], after[0]
    p0_w, p0_error_w = _step_power_w(at_s[before], energy_j[before], gap_s[before], sensor.quantum)
    p1_w, p1_error_w = p0_w, p0_error_w
    if len(after) > 1:
        p1_w, p1_error_w = _step_power_w(at_s[after], energy_j[after], gap_s[after], sensor.quantum)
    lead_s, trail_s = -float(at_s[last]), float(at_s[first]) - length_s
    total_j = float(energy_j[first] - energy_j[last])
    error_j = math.hypot(
        p0_w * gap_s[last] * UNIFORM_SD,
        p1_w * gap_s[first] * UNIFORM_SD,
        p0_error_w * lead_s,
        p1_error_w * trail_s,
        math.sqrt(2) * sensor.quantum * UNIFORM_SD,
    )
    return _told(total_j - p0_w * lead_s - p1_w * trail_s, int(first - last + 1), error_j)


def _step_power_w(
    at_s: Float64s, energy_j: Float64s, gap_s: Float64s, quantum_j: float
) -> tuple[float, float]:
    """Return the mean power between the first and the last of some steps, and its standard error."""
    span_s = float(at_s[-1] - at_s[0])
    power_w = float(energy_j[-1] - energy_j[0]) / span_s
    time_w = power_w * math.hypot(gap_s[0], gap_s[-1]) * UNIFORM_SD / span_s
    return power_w, math.hypot(time_w, math.sqrt(2) * quantum_j * UNIFORM_SD / span_s)

"""Energy between two moments of a running program, whatever ran before and runs after.

`corrected_j` is for a kernel with even power around it. Here nothing is known of the power beside the window
but what the sensor said. The formula is the same (see `ptxbench.energy.corrected`): with u_k the newest
instant that value k covers, p0 and p1 the power just before and just after, and A the averaging window,

    E = p0 T + sum over the values with 0 < u_k < T + memory of (v_k - base_k) d_k,

but p0 and p1 are the values next to the window alone. They count with A / 2 each. The standard error is

    hypot(noise of the values, what the sensor does not see of each refresh, phase of the refresh at the
          edges, (A / 2) x unevenness of the power beside the window, |p1 - p0| x error of the lag, gaps).

Where the load is known to change beside the window within what the sensor averages over, p0 or p1 may be any
power that was seen there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.core.status import Status
from ptxbench.energy.corrected import fresh_values, phase_sums
from ptxbench.energy.reading import EnergyReading, no_energy
from ptxbench.energy.sensor_response import share_before
from ptxbench.energy.steady import nothing_read, stepped_back
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow, Series

_NS_PER_S = 1e9
# Standard deviation of an error that is spread evenly over one unit.
_UNIFORM_SD = 1 / math.sqrt(12)
# Values next to the window that its neighbours' power is taken from.
_BESIDE = 3
# Of a documented averaging window, what the sensor may really average over: 16 of 60 ms on H200s.
_DOCUMENTED_LEAST = 0.25
# A stamp of the driver, or the lag of a sensor that was measured, is right to about this.
_STAMP_S = 5e-4
# A window of which some phase of the refresh shows less than this share of the mean is not resolved.
_SEEN_LEAST = 0.5
# Refreshes of a long window over which its edges are worked out.
_EDGE_REFRESHES = 10
# Of a standard normal variable, what a quarter of all magnitudes are below.
_QUARTER = 0.3186
# Noise grows with power: from 0.35 W at 120 W to 0.5 W at 500 W on H200s.
_MORE_NOISE = 1.5
# Values within a window that tell how much the power changes, and steps around one that tell its energy.
_MIN_INSIDE = 3
_MIN_STEPS = 4
# Refreshes without a reading that count as a gap.
_GAP = 2.5
# A counter's steps do not come exactly when its energy says (see `gate.source`).
_JITTER_S = 0.004
# Standard errors by which the counter and the source must differ before there is a note.
_DISAGREE = 3.0


@dataclass(frozen=True)
class _Seen:
    """The fresh values around a window.

    Attributes:
        newest_s: Newest instant that each covers, after the window's start, shape (n,).
        value_w: The values, shape (n,).
        length_s: Length of the window.
    """

    newest_s: Float64s
    value_w: Float64s
    length_s: float


def context_s(sensor: SensorDescription) -> float:
    """Return how much before and after a window must be recorded for its energy."""
    return sensor.memory_s + sensor.lag_s + (_BESIDE + 1) * max(sensor.refresh_s, 1e-3)


def window_energy(
    series: Series,
    window: KernelWindow,
    sensor: SensorDescription,
    changes: int = 0,
    noise_w: float = math.inf,
) -> EnergyReading:
    """Return the energy that a source saw within a window.

    Args:
        series: Readings from `context_s` before the window to as long after it, shape (n,).
        window: From when to when.
        sensor: What the source is like.
        changes: On how many sides (0 to 2) the load changes within `blur_s` of the window.
        noise_w: Noise of single values where it was seen (`noise_w_of`); infinite where it was not.

    Returns:
        Energy in J with its standard error; WINDOW_TOO_SHORT where the source cannot resolve the window, or
        was not read around it; SENSOR_STALE where no reading succeeded, or its time stamps went backwards.
    """
    good = series.good()
    if not len(good):
        return no_energy(Status.SENSOR_STALE, nothing_read(series))
    if reason := stepped_back(good):
        return no_energy(Status.SENSOR_STALE, reason)
    if reason := unresolved(window.elapsed_s, sensor):
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    if sensor.source is SourceName.COUNTER:
        return _counter(good, window, sensor)
    seen = _Seen(*fresh_values(good, window, sensor), window.elapsed_s)
    # Among steps of the load the noise cannot be distinguished from them.
    noise_w = min(_value_noise_w(seen.value_w, sensor), _MORE_NOISE * noise_w)
    found = _power_source(seen, sensor, changes, noise_w, _call_s(good))
    if found.status is Status.OK and found.error_j > max(found.energy_j, 0.0):
        return no_energy(Status.WINDOW_TOO_SHORT, _too_short(window.elapsed_s, sensor))
    return found


def noise_w_of(series: Series, sensor: SensorDescription) -> float:
    """Return the noise of single values, W, or more where the load changes; infinite without readings."""
    good = series.good()
    if len(good) < _BESIDE:
        return math.inf
    origin = KernelWindow(int(good.end_ns[0]), int(good.end_ns[0]), 0.0)
    return _value_noise_w(fresh_values(good, origin, sensor)[1], sensor)


def blur_s(sensor: SensorDescription) -> float:
    """Return how near to a window a change of the load blurs the source's readings at the window's edge."""
    return sensor.memory_s + sensor.refresh_s


def unresolved(length_s: float, sensor: SensorDescription) -> str:
    """Return why a source cannot resolve a window of a length, "" where it can."""
    if sensor.source is SourceName.COUNTER:
        is_seen = length_s >= 2 * sensor.refresh_s
    else:
        sums = _edge_sums(length_s, sensor)
        is_seen = not len(sums) or float(sums.min()) >= _SEEN_LEAST * float(sums.mean())
        is_seen = is_seen and length_s >= sensor.averaging_s / 2
    return "" if is_seen else _too_short(length_s, sensor)


def _too_short(length_s: float, sensor: SensorDescription) -> str:
    return (
        f"{length_s:.3g} s is too short for {sensor.source}, which refreshes every {sensor.refresh_s:.3g} s"
        f" and averages over {sensor.averaging_s:.3g} s"
    )


def _power_source(
    seen: _Seen, sensor: SensorDescription, changes: int, noise_w: float, call_s: float
) -> EnergyReading:
    newest_s, value_w, length_s = seen.newest_s, seen.value_w, seen.length_s
    # The value next to the window comes first.
    before = np.flatnonzero(newest_s <= 0)[-_BESIDE:][::-1]
    after = np.flatnonzero(newest_s >= length_s + sensor.memory_s)[:_BESIDE]
    during = (newest_s > 0) & (newest_s < length_s + sensor.memory_s)
    if not len(before) or not len(after) or not during.any():
        where = "before" if not len(before) else "after" if not len(after) else "within"
        return no_energy(
            Status.WINDOW_TOO_SHORT, f"no value of {sensor.source} speaks of the time {where} the window"
        )
    p0_w, p1_w = float(value_w[before[0]]), float(value_w[after[0]])
    excess_w = (value_w - p0_w - (p1_w - p0_w) * share_before(newest_s - length_s, sensor))[during]
    spacing_s = np.gradient(newest_s)[during]
    energy_j = p0_w * length_s + float((excess_w * spacing_s).sum())
    refresh_s = sensor.refresh_s if sensor.refresh_s > 0 else call_s
    beside_w = math.hypot(_uneven_w(value_w[before]), _uneven_w(value_w[after]))
    error_j = math.hypot(
        noise_w * math.sqrt(_overlap(sensor) * float((spacing_s**2).sum())),
        _unseen_j(seen, refresh_s - _least(sensor).averaging_s),
        _edge_step_w(newest_s[during], excess_w, seen, sensor) * refresh_s * _phase_sd(length_s, sensor),
        beside_w * (sensor.averaging_s / 2 + refresh_s * _UNIFORM_SD),
        changes * float(np.ptp(value_w)) / 2 * (sensor.averaging_s / 2 + refresh_s * _UNIFORM_SD),
        abs(p1_w - p0_w) * _lag_error_s(sensor, call_s),
        _gap_j(value_w[during], spacing_s, refresh_s),
    )
    return EnergyReading(energy_j, int(during.sum()), error_j=error_j)


def _uneven_w(value_w: Float64s) -> float:
    """Return how far the power next to a window may be from the value that stands for it, the first one."""
    return float(np.sqrt(((value_w - value_w[0]) ** 2).mean()))


def _value_noise_w(value_w: Float64s, sensor: SensorDescription) -> float:
    """Return the noise of single values.

    It is taken from second differences, which are zero along any ramp, and from the smaller of them, which no
    step of the load is in.
    """
    second_w = np.abs(np.diff(value_w, 2))
    noise_w = float(np.quantile(second_w, 0.25)) / (_QUARTER * math.sqrt(6)) if len(second_w) else 0.0
    # Values that share most of what they average over differ by less than they scatter.
    return max(noise_w * math.sqrt(_overlap(sensor)), sensor.quantum * _UNIFORM_SD)


def _overlap(sensor: SensorDescription) -> float:
    """Return how many values average over one and the same moment, at least one."""
    return max(1.0, sensor.averaging_s / sensor.refresh_s) if sensor.refresh_s > 0 else 1.0


def _unseen_j(seen: _Seen, unseen_s: float) -> float:
    """Return the error from the part of each refresh that no value covers, by how much values change."""
    inside = seen.value_w[(seen.newest_s > 0) & (seen.newest_s <= seen.length_s)][1:]
    if unseen_s <= 0 or len(inside) < _MIN_INSIDE:
        return 0.0
    change_w = float(np.sqrt((np.diff(inside) ** 2).mean() / 2))
    return change_w * unseen_s * math.sqrt(2 * len(inside))


def _edge_step_w(newest_s: Float64s, excess_w: Float64s, seen: _Seen, sensor: SensorDescription) -> float:
    """Return the greatest difference between the power near the window's edges and the power beside it."""
    reach_s = 2 * sensor.refresh_s + sensor.memory_s
    is_edge = (newest_s <= reach_s) | (newest_s >= seen.length_s - 2 * sensor.refresh_s)
    return float(np.abs(excess_w[is_edge]).max(initial=0.0))


def _phase_sd(length_s: float, sensor: SensorDescription) -> float:
    """Return the scatter, in values, of a sum over the window that comes from the phase of the refresh."""
    sums = _edge_sums(length_s, sensor)
    return float(sums.std()) if len(sums) else _UNIFORM_SD


def _gap_j(value_w: Float64s, spacing_s: Float64s, refresh_s: float) -> float:
    """Return the error from stretches in which the source was not read."""
    missed_s = float((spacing_s - refresh_s)[spacing_s > _GAP * refresh_s].sum())
    return float(np.ptp(value_w)) * missed_s * _UNIFORM_SD


def _counter(good: Series, window: KernelWindow, sensor: SensorDescription) -> EnergyReading:
    """Return the counter's energy at the window's end less that at its start.

    At an edge between two steps the energy follows from the step before with the power before that, and from
    the step after with the power after that. Their mean is taken; half of their difference is an error.
    """
    made_ns, step = _steps(good)
    at_s = (made_ns - window.start_ns) / _NS_PER_S - sensor.lag_s
    energy_j = good.value[step]
    if len(at_s) < _MIN_STEPS or at_s[1] > 0 or at_s[-2] < window.elapsed_s:
        reason = "the energy counter made too few steps around the window"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    power_w = np.diff(energy_j) / np.diff(at_s)
    gap_s = float(np.median((good.end_ns[step] - good.begin_ns[step - 1]) / _NS_PER_S))
    ends = []
    errors_j = [math.sqrt(2) * sensor.quantum * _UNIFORM_SD]
    for moment_s in (0.0, window.elapsed_s):
        i = int(np.searchsorted(at_s, moment_s, side="right")) - 1
        i = min(max(i, 1), len(at_s) - 3)
        from_before_j = energy_j[i] + power_w[i - 1] * (moment_s - at_s[i])
        from_after_j = energy_j[i + 1] - power_w[i + 1] * (at_s[i + 1] - moment_s)
        ends.append((from_before_j + from_after_j) / 2)
        errors_j.append(abs(from_after_j - from_before_j) / 2)
        errors_j.append(float(power_w[i]) * math.hypot(gap_s * _UNIFORM_SD, _JITTER_S))
    return EnergyReading(float(ends[1] - ends[0]), len(at_s), error_j=math.hypot(*map(float, errors_j)))


def _steps(good: Series) -> tuple[Int64s, Int64s]:
    """Return when a counter stepped, halfway between two calls, and which readings showed it first."""
    step = np.flatnonzero(np.diff(good.value) > 0) + 1
    return (good.end_ns[step] + good.begin_ns[step - 1]) // 2, step


def _least(sensor: SensorDescription) -> SensorDescription:
    """Return the sensor with the shortest averaging window that its figures leave possible."""
    if sensor.origin != "documented":
        return sensor
    return replace(sensor, averaging_s=_DOCUMENTED_LEAST * sensor.averaging_s)


def _lag_error_s(sensor: SensorDescription, call_s: float) -> float:
    """Return the standard error of the time that a value measures."""
    polled_s = 0.0 if sensor.source is SourceName.SAMPLES else call_s * _UNIFORM_SD
    documented_s = sensor.averaging_s / 2 if sensor.origin == "documented" else 0.0
    return math.hypot(_STAMP_S, polled_s, documented_s)


def _edge_sums(length_s: float, sensor: SensorDescription) -> Float64s:
    """Return how many values' worth of a window are seen, by phase; of a long window only its edges count."""
    least = _least(sensor)
    if least.refresh_s <= 0:
        return np.zeros(0)
    most_s = _EDGE_REFRESHES * least.refresh_s + least.memory_s
    whole = math.floor((length_s - most_s) / least.refresh_s)
    return phase_sums(length_s - max(whole, 0) * least.refresh_s, least)


def _call_s(good: Series) -> float:
    """Return the usual time between two calls."""
    ends_ns = np.unique(good.end_ns)
    return float(np.median(np.diff(ends_ns))) / _NS_PER_S if len(ends_ns) > 1 else 0.0


@dataclass(frozen=True)
class Counted:
    """What the energy counter reads around a window, beside a source's readings of the same time.

    Attributes:
        power_w: Mean power between the counter's steps around the window.
        difference_w: By how much the source's mean power is above it.
        disagrees: Whether that is more than their errors explain.
    """

    power_w: float
    difference_w: float
    disagrees: bool


def counted(
    counter: Series, series: Series, window: KernelWindow, sensor: SensorDescription
) -> Counted | None:
    """Compare a source with the energy counter, between the counter's steps around a window.

    Args:
        counter: Readings of the counter around the window, shape (n,).
        series: Readings of the source around the window, shape (m,).
        window: The window.
        sensor: What the source is like.

    Returns:
        None where either has no reading of that time.
    """
    good = counter.good()
    made_ns, step = _steps(good)
    first, last = np.flatnonzero(made_ns <= window.start_ns), np.flatnonzero(made_ns >= window.end_ns)
    if not len(first) or not len(last):
        return None
    begin, end = first[-1], last[0]
    length_s = float(made_ns[end] - made_ns[begin]) / _NS_PER_S
    bracket = KernelWindow(int(made_ns[begin]), int(made_ns[end]), length_s)
    found = window_energy(series, bracket, sensor)
    if found.status is not Status.OK or not length_s > 0:
        return None
    power_w = float(good.value[step[end]] - good.value[step[begin]]) / length_s
    gap_s = max(float((good.end_ns[s] - good.begin_ns[s - 1]) / _NS_PER_S) for s in (step[begin], step[end]))
    time_error_s = math.sqrt(2) * math.hypot(_JITTER_S, gap_s * _UNIFORM_SD)
    difference_w = found.energy_j / length_s - power_w
    allowed_w = _DISAGREE * math.hypot(found.error_j, power_w * time_error_s) / length_s
    return Counted(power_w, difference_w, abs(difference_w) > allowed_w)

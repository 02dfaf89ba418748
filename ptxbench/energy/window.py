"""Energy between two moments of a running program, whatever ran before and runs after.

`corrected_j` is for a kernel with even power around it. Here nothing is known of the power beside the window
but what the sensor said. The formula is the same (see `ptxbench.energy.corrected`): with u_k the newest
instant that value k covers, r_k how far back from there it speaks, and p0 and p1 the power just before and
just after,

    E = p0 T + sum over the values with 0 < u_k < T + r_k of (v_k - base_k) d_k,

but p0 and p1 are the values next to the window alone. They count with the mean age a of what a value says.
The standard error is

    hypot(noise of the values, what the sensor does not see of each refresh, phase of the refresh at the
          edges, error of each value's time x how much the values change there, a x unevenness of the power
          beside the window, |p1 - p0| x error of the lag, gaps).

Where the load is known to change beside the window within what the sensor averages over, p0 or p1 may be any
power that was seen there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.core.arrays import Bools
from ptxbench.core.status import Status
from ptxbench.energy.corrected import phase_sums
from ptxbench.energy.gate.comparison import SETTINGS
from ptxbench.energy.reading import EnergyReading, no_energy
from ptxbench.energy.steady import UNIFORM_SD, nothing_read, stepped_back
from ptxbench.energy.window_counter import counter_energy, counter_steps
from ptxbench.energy.window_values import Values, reach_s, values_of
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# Of a standard normal variable, what a quarter of all magnitudes are below.
_QUARTER = 0.3186


@dataclass(frozen=True)
class WindowSettings:
    """Settings of the energy of a window and of its interval."""

    beside: int = 3
    """Values next to the window that its neighbours' power is taken from."""
    documented_least: float = 0.25
    """Of a documented averaging window, what the sensor may really average over: 16 of 60 ms on H200s."""
    seen_least: float = 0.5
    """A window of which some phase of the refresh shows less than this share of the mean is not resolved."""
    edge_refreshes: int = 10
    """Refreshes of a long window over which its edges are worked out."""
    noise_growth: float = 1.5
    """Growth of the noise with power at most: from 0.35 W at 120 W to 0.5 W at 500 W on H200s."""
    most_unseen: float = 0.5
    """Share of its time that a source may not see before a window needs several of its values."""
    min_inside: int = 3
    """Values within a window that tell how much the power changes."""
    inner_steps: float = 1.5
    """How much more than one step of power shows may have happened between two values within a window."""
    beyond: float = 0.52
    """Standard error, of what was drawn within the window or beside it, nobody knows which: 1.96 of them are
    all."""
    clear_sds: float = 4.0
    """Standard deviations of the noise beyond which a change from one value to the next is one of the
    power."""
    long_mean_refreshes: float = 5.0
    """Refreshes from which on a running mean is long: what it says is of a while ago."""
    least_shift_s: float = 1e-4
    """Shift by which a slope is taken of what is exact."""
    gap_refreshes: float = 1.5
    """Refreshes between two values from which on one is missing."""
    disagree_errors: float = 3.0
    """Standard errors by which the counter and the source must differ before there is a note."""


WINDOW = WindowSettings()


def context_s(sensor: SensorDescription) -> float:
    """Return how much before and after a window must be recorded for its energy."""
    return reach_s(sensor) + sensor.lag_s + (WINDOW.beside + 1) * max(sensor.refresh_s, 1e-3)


def window_energy(
    series: Series,
    window: KernelWindow,
    sensor: SensorDescription,
    changes: int = 0,
    noise_w: float = math.inf,
    stamp_error_s: float = 0.0,
) -> EnergyReading:
    """Return the energy that a source saw within a window.

    Args:
        series: Readings from `context_s` before the window to as long after it, shape (n,).
        window: From when to when.
        sensor: What the source is like.
        changes: On how many sides (0 to 2) the load changes within `blur_s` of the window.
        noise_w: Noise of single values where it was seen (`noise_w_of`); infinite where it was not.
        stamp_error_s: As in `values_of`.

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
        return counter_energy(good, window, sensor)
    values = values_of(good, window, sensor, stamp_error_s)
    # Among steps of the load the noise cannot be distinguished from them.
    noise_w = min(_value_noise_w(values.value_w, sensor), WINDOW.noise_growth * noise_w)
    found = _power_source(values, window.elapsed_s, sensor, changes, noise_w)
    if found.status is Status.OK and found.error_j > max(found.energy_j, 0.0):
        return no_energy(Status.WINDOW_TOO_SHORT, _too_short(window.elapsed_s, sensor))
    return found


def noise_w_of(series: Series, sensor: SensorDescription) -> float:
    """Return the noise of single values, W, or more where the load changes; infinite without readings."""
    good = series.good()
    if len(good) < WINDOW.beside:
        return math.inf
    origin = KernelWindow(int(good.end_ns[0]), int(good.end_ns[0]), 0.0)
    return _value_noise_w(values_of(good, origin, sensor).value_w, sensor)


def blur_s(sensor: SensorDescription) -> float:
    """Return how near to a window a change of the load blurs the source's readings at the window's edge."""
    return reach_s(sensor) + sensor.refresh_s


def unresolved(length_s: float, sensor: SensorDescription) -> str:
    """Return why a source cannot resolve a window of a length, "" where it can."""
    if sensor.source is SourceName.COUNTER:
        is_seen = length_s >= 2 * sensor.refresh_s
    else:
        sums = _edge_sums(length_s, sensor)
        is_seen = not len(sums) or float(sums.min()) >= WINDOW.seen_least * float(sums.mean())
        is_seen = is_seen and length_s >= sensor.averaging_s / 2
        # Of a source that misses most of the time a look or two tell nothing of what came between.
        mostly_seen = sensor.unseen_share <= WINDOW.most_unseen
        is_seen = is_seen and (mostly_seen or length_s >= WINDOW.min_inside * sensor.refresh_s)
    return "" if is_seen else _too_short(length_s, sensor)


def _too_short(length_s: float, sensor: SensorDescription) -> str:
    return (
        f"{length_s:.3g} s is too short for {sensor.source}, which refreshes every {sensor.refresh_s:.3g} s"
        f" and averages over {sensor.averaging_s:.3g} s"
    )


def _power_source(
    values: Values, length_s: float, sensor: SensorDescription, changes: int, noise_w: float
) -> EnergyReading:
    newest_s, power_w = values.newest_s, values.power_w
    oldest_s = newest_s - values.reach_s
    # The value next to the window comes first.
    before = np.flatnonzero(newest_s <= 0)[-WINDOW.beside :][::-1]
    after = np.flatnonzero(oldest_s >= length_s)[: WINDOW.beside]
    during = (newest_s > 0) & (oldest_s < length_s)
    if not len(before) or not len(after) or not during.any():
        where = "before" if not len(before) else "after" if not len(after) else "within"
        return no_energy(
            Status.WINDOW_TOO_SHORT, f"no value of {sensor.source} speaks of the time {where} the window"
        )
    beside = tuple(_next_to(power_w[side], noise_w, sensor) for side in (before, after))
    base = _Base.of(values, length_s, beside[0].power_w, beside[1].power_w)
    rest_w = (power_w - base.values_w(values, length_s))[during]
    spacing_s = values.spacing_s[during]
    energy_j = base.energy_j(length_s) + float((rest_w * spacing_s).sum())
    beside_w = math.hypot(beside[0].error_w, beside[1].error_w)
    beside_s = values.mean_age_s + values.refresh_s * UNIFORM_SD
    near_w = (
        rest_w[newest_s[during] <= _near_s(sensor)],
        rest_w[newest_s[during] >= length_s - _near_s(sensor)],
    )
    slope_j_per_s = base.slopes_w_per_s(values, length_s)[during] * spacing_s
    edges = oldest_s[during] < 0, newest_s[during] > length_s
    beyond_j = [_beyond_j((rest_w * spacing_s)[edge], slope_j_per_s[edge], values, noise_w) for edge in edges]
    error_j = math.hypot(
        noise_w * math.sqrt(sensor.overlap * float((spacing_s**2).sum())),
        _unseen_j(values, length_s, sensor),
        base.edges_w(near_w, sensor) * values.refresh_s * _step_sd(_least(sensor)),
        values.time_error_s * _per_time_error(rest_w, slope_j_per_s),
        *(beyond_j if base.is_known else ()),
        beside_w * beside_s,
        changes * float(np.ptp(power_w)) / 2 * beside_s,
        abs(base.after_w - base.before_w) * values.lag_error_s,
        _gap_j(values, int(before[0]), int(after[0])),
    )
    return EnergyReading(energy_j, int(during.sum()), error_j=error_j)


@dataclass(frozen=True)
class _Base:
    """What the power would be if it changed at the edges of the window alone, and evenly within.

    Attributes:
        before_w: Power before the window.
        first_w: Power at its begin.
        last_w: Power at its end.
        after_w: Power after it.
        is_known: Whether any value speaks of the window alone.
    """

    before_w: float
    first_w: float
    last_w: float
    after_w: float
    is_known: bool = True

    @classmethod
    def of(cls, values: Values, length_s: float, before_w: float, after_w: float) -> _Base:
        """Return it by the values that speak of the window alone; without any it goes on as before."""
        inside_w = values.power_w[_alone(values, length_s)]
        if not len(inside_w):
            return cls(before_w, before_w, before_w, after_w, is_known=False)
        return cls(before_w, float(inside_w[0]), float(inside_w[-1]), after_w)

    def energy_j(self, length_s: float) -> float:
        """Return its energy within the window."""
        return (self.first_w + self.last_w) / 2 * length_s

    def values_w(self, values: Values, length_s: float, later_s: float = 0.0) -> Float64s:
        """Return what the source would say of it, if all of it came so much later, shape (n,)."""
        way = np.clip((values.newest_s - values.mean_age_s - later_s) / length_s, 0.0, 1.0)
        return np.asarray(
            self.before_w
            + (self.first_w - self.before_w) * values.of_step(later_s)
            + (self.last_w - self.first_w) * way
            + (self.after_w - self.last_w) * values.of_step(length_s + later_s)
        )

    def edges_w(self, near_w: tuple[Float64s, Float64s], sensor: SensorDescription) -> float:
        """Return how much the power changes at the edges, both together, where no value shows when.

        Args:
            near_w: What values near the begin and near the end say beside the base, W.
            sensor: What the source is like.
        """
        # Where only a document tells the response, what is over an edge cannot be worked out from it.
        unseen = 1.0 if sensor.origin == "documented" else sensor.unseen_share
        steps_w = self.first_w - self.before_w, self.after_w - self.last_w
        pairs = zip(near_w, steps_w, strict=True)
        return math.hypot(
            *(max(float(np.abs(rest).max(initial=0.0)), unseen * abs(step)) for rest, step in pairs)
        )

    def slopes_w_per_s(self, values: Values, length_s: float) -> Float64s:
        """Return how those values change where the source's time is wrong, shape (n,)."""
        by_s = max(values.time_error_s, WINDOW.least_shift_s)
        early_w, late_w = (self.values_w(values, length_s, shift_s) for shift_s in (by_s, -by_s))
        return (late_w - early_w) / (2 * by_s)


def _alone(values: Values, length_s: float) -> Bools:
    """Tell which values speak of the window alone, shape (n,)."""
    inside: Bools = (values.newest_s - values.reach_s >= 0) & (values.newest_s <= length_s)
    return inside


@dataclass(frozen=True)
class _Beside:
    """The power next to a window.

    Attributes:
        power_w: As far as is known.
        error_w: Its standard error.
    """

    power_w: float
    error_w: float


def _next_to(power_w: Float64s, noise_w: float, sensor: SensorDescription) -> _Beside:
    """Return the power next to a window by the values there, the nearest first.

    A long running mean that still changes has the power of a while ago in it: the load changed once, nobody
    knows when within the mean.
    """
    scatter_w = float(np.sqrt(((power_w - power_w[0]) ** 2).mean()))
    change_w = float(power_w[0] - power_w[min(1, len(power_w) - 1)])
    clear_w = math.copysign(max(abs(change_w) - WINDOW.clear_sds * noise_w, 0.0), change_w)
    whole_w = clear_w * reach_s(sensor) / sensor.refresh_s if sensor.refresh_s > 0 else 0.0
    is_long = reach_s(sensor) >= WINDOW.long_mean_refreshes * sensor.refresh_s
    nearest_w = float(power_w[0]) + (whole_w / 2 if is_long else 0.0)
    return _Beside(nearest_w, math.hypot(scatter_w, whole_w * UNIFORM_SD))


def _per_time_error(rest_w: Float64s, slope_j_per_s: Float64s) -> float:
    """Return what an error of each value's time is multiplied by: its base, and its neighbours' weights."""
    beside_w = np.concatenate(([0.0], rest_w, [0.0]))
    return float(np.sqrt(((slope_j_per_s + (beside_w[2:] - beside_w[:-2]) / 2) ** 2).sum()))


def _beyond_j(rest_j: Float64s, slope_j_per_s: Float64s, values: Values, noise_w: float) -> float:
    """Return the error from a load that did not change at an edge of the window, but somewhere near it.

    What the values over the edge say more or less than their base, and their times and noise do not explain,
    was drawn within the window or beside it.
    """
    explained_j = math.hypot(
        values.time_error_s * float(np.sqrt((slope_j_per_s**2).sum())),
        values.lag_error_s * float(slope_j_per_s.sum()),
        noise_w * values.refresh_s * math.sqrt(len(rest_j)),
    )
    beyond_j = abs(float(rest_j.sum()))
    return WINDOW.beyond * beyond_j if beyond_j > 2 * explained_j else 0.0


def _value_noise_w(value_w: Float64s, sensor: SensorDescription) -> float:
    """Return the noise of single values.

    It is taken from second differences, which are zero along any ramp, and from the smaller of them, which no
    step of the load is in.
    """
    second_w = np.abs(np.diff(value_w, 2))
    noise_w = float(np.quantile(second_w, 0.25)) / (_QUARTER * math.sqrt(6)) if len(second_w) else 0.0
    # Values that share most of what they average over differ by less than they scatter.
    return max(noise_w * math.sqrt(sensor.overlap), sensor.quantum * UNIFORM_SD)


def _unseen_j(values: Values, length_s: float, sensor: SensorDescription) -> float:
    """Return the error from what of each refresh no value shows well, by how much values change."""
    least = _least(sensor)
    unseen_s = max(
        values.refresh_s - least.averaging_s, WINDOW.inner_steps * _step_sd(least) * values.refresh_s
    )
    inside = values.power_w[_alone(values, length_s)]
    if unseen_s <= 0:
        return 0.0
    if len(inside) < WINDOW.min_inside and least.averaging_s < values.refresh_s:
        # Too few to tell how much the power changes: it may do so as it does around the window.
        return unseen_s * float(np.ptp(values.power_w)) * UNIFORM_SD * math.sqrt(len(inside) + 1)
    return unseen_s * float(np.sqrt((np.diff(inside) ** 2).sum()))


def _step_sd(sensor: SensorDescription) -> float:
    """Return the scatter, in values, of a sum over one step of power that comes from the refresh's phase."""
    if sensor.refresh_s <= 0:
        return 0.0
    # Two edges that are half a refresh further apart add up where they cancelled.
    long_s = sensor.memory_s + sensor.refresh_s
    squares = (float(phase_sums(long_s + more_s, sensor).var()) for more_s in (0.0, sensor.refresh_s / 2))
    return math.sqrt(sum(squares)) / 2


def _near_s(sensor: SensorDescription) -> float:
    """Return how long after its begin a window's edge is."""
    return 2 * sensor.refresh_s + reach_s(sensor)


def _gap_j(values: Values, first: int, last: int) -> float:
    """Return the error from values that are missing between two, by how much the power changes there."""
    power_w, apart_s = values.power_w[first : last + 1], np.diff(values.newest_s[first : last + 1])
    missed_s = np.where(apart_s > WINDOW.gap_refreshes * values.refresh_s, apart_s - values.refresh_s, 0.0)
    step_w = np.abs(np.diff(power_w))
    usual_w = math.sqrt(float((step_w**2).mean())) if len(step_w) else 0.0
    return float(np.sqrt(((np.hypot(step_w, usual_w) * missed_s) ** 2).sum())) * UNIFORM_SD


def _least(sensor: SensorDescription) -> SensorDescription:
    """Return the sensor with the shortest averaging window that its figures leave possible."""
    if sensor.origin != "documented":
        return sensor
    return replace(sensor, averaging_s=WINDOW.documented_least * sensor.averaging_s)


def _edge_sums(length_s: float, sensor: SensorDescription) -> Float64s:
    """Return how many values' worth of a window are seen, by phase; of a long window only its edges count."""
    least = _least(sensor)
    if least.refresh_s <= 0:
        return np.zeros(0)
    most_s = WINDOW.edge_refreshes * least.refresh_s + least.memory_s
    whole = math.floor((length_s - most_s) / least.refresh_s)
    return phase_sums(length_s - max(whole, 0) * least.refresh_s, least)


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
        None where either has no reading of that time, or the counter fell.
    """
    good = counter.good()
    made_ns, step = counter_steps(good)
    first, last = np.flatnonzero(made_ns <= window.start_ns), np.flatnonzero(made_ns >= window.end_ns)
    if not len(first) or not len(last):
        return None
    begin, end = first[-1], last[0]
    length_s = float(made_ns[end] - made_ns[begin]) / NS_PER_S
    bracket = KernelWindow(int(made_ns[begin]), int(made_ns[end]), length_s)
    if stepped_back(good.select((good.end_ns >= bracket.start_ns) & (good.begin_ns <= bracket.end_ns))):
        return None
    found = window_energy(series, bracket, sensor)
    if found.status is not Status.OK or not length_s > 0:
        return None
    power_w = float(good.value[step[end]] - good.value[step[begin]]) / length_s
    gap_s = max(float((good.end_ns[s] - good.begin_ns[s - 1]) / NS_PER_S) for s in (step[begin], step[end]))
    time_error_s = math.sqrt(2) * math.hypot(SETTINGS.step_jitter_s, gap_s * UNIFORM_SD)
    difference_w = found.energy_j / length_s - power_w
    allowed_w = WINDOW.disagree_errors * math.hypot(found.error_j, power_w * time_error_s) / length_s
    return Counted(power_w, difference_w, abs(difference_w) > allowed_w)

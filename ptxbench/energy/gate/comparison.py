"""A power source beside the energy counter, over stretches between two of the counter's steps.

Between two steps of the counter its difference is the energy of that time, in whatever way the power went.
The source's energy of the same time is the integral of its values, each taken for the middle of the time that
it averages over. One such stretch is known to some percent, because a step's time is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ptxbench.energy.corrected import fresh_values
from ptxbench.energy.steady import UNIFORM_SD
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# Energy lies between two steps, and a scatter between two values.
_MIN_STEPS = 2
_MIN_VALUES = 2
# Share of its time that a source must miss before what it says of bursts is chance.
_MOSTLY = 0.5


@dataclass(frozen=True)
class SourceSettings:
    """Figures of the comparison with the energy counter."""

    step_jitter_s: float = 0.004
    """Standard deviation of the time of a counter's step beyond what polling leaves open. Over 937 trials on
    H200s 17% differed from `samples` by more than errors without it, with 3 to 6 ms less than 2%."""
    counter_lag_s: float = 0.01
    """A step covers the time until at most this before it came; no counter was seen to lag by more."""
    counter_stall: float = 2.5
    """Times the usual time between steps after which the counter stood still, and may have lost energy."""
    stretch_s: float = 1.0
    """Least length of a stretch of a long recording: its two steps then are known to 0.6% of its energy."""
    stretch_averages: float = 4.0
    """The same in averaging times of the source: less of a stretch is not blurred with its neighbours."""
    disagreement: float = 0.03
    """Difference beyond which one of the two is wrong: the least that users of a table would not accept."""
    usual: float = 0.005
    """Difference that says nothing. In 60 runs on H100s and H200s (64,198 trials, results/) `samples` pooled
    differed by -0.6 to +0.4%, within 1.2 standard errors of +0.14% each; `doctor` found up to 0.5%."""
    groups: int = 4
    """Parts of a run, by power and by time, that are compared each on their own."""
    group_factor: float = 3.0
    """Standard errors by which one of the groups must differ: 99.7% each. In those 60 runs none of 480 groups
    differed by more than 1.9 of them, and what it made of a further watt by 1.7."""
    slope_error: float = 0.25
    """Standard error above which powers are too much alike to say what the source makes of a further watt; in
    those 60 runs it is 0.002 to 0.16."""
    least_slope: float = 0.1
    """Watts of the counter for one of the source below which how few they are does not matter."""
    scatter_share: float = 0.2
    """Share of the stretches that may contradict the pooled ratio, as of readings that may be wrong."""
    scatter_limit: float = 0.15
    """Difference of one stretch from the pooled ratio that contradicts it: 1 in 800 of those trials."""
    scatter_factor: float = 4.0
    """Standard errors of the stretch that it must differ by as well: none of those trials did."""


SETTINGS = SourceSettings()


@dataclass(frozen=True)
class Comparison:
    """A source beside the energy counter over one stretch of time.

    Attributes:
        start_ns: The counter's step that begins it, host time.
        end_ns: The counter's step that ends it.
        counter_j: Energy by the counter.
        source_j: Energy by the source.
        error_j: Standard error of their difference.
        missed_j: The part of it that is due to what a source misses that sees less than half of the time.
    """

    start_ns: int
    end_ns: int
    counter_j: float
    source_j: float
    error_j: float
    missed_j: float = 0.0

    @property
    def power_w(self) -> float:
        """Mean power by the source, which hardly depends on when the counter's steps came."""
        return self.source_j / (self.end_ns - self.start_ns) * NS_PER_S


@dataclass(frozen=True)
class CounterSteps:
    """The steps of an energy counter that follow each other as they should.

    Attributes:
        at_s: When each came, after some origin, shape (n,).
        gap_s: Between which polls it came, shape (n,).
        energy_j: The counter's value from then on, shape (n,).
    """

    at_s: Float64s
    gap_s: Float64s
    energy_j: Float64s

    def __len__(self) -> int:
        return len(self.at_s)


def counter_steps(counter: Series, origin_ns: int) -> tuple[CounterSteps, ...]:
    """Return the counter's steps, in pieces without a fall (it wrapped or was reset) or a standstill.

    Args:
        counter: Its readings, shape (n,), J.
        origin_ns: What time counts from.
    """
    good = counter.good()
    step = np.flatnonzero(np.diff(good.value)) + 1
    if len(step) < _MIN_STEPS:
        return ()
    # A step came after the reading before it began, and before this one ended.
    after_ns, before_ns = good.begin_ns[step - 1] - origin_ns, good.end_ns[step] - origin_ns
    at_s, gap_s = (after_ns + before_ns) / 2 / NS_PER_S, (before_ns - after_ns) / NS_PER_S
    apart_s, energy_j = np.diff(at_s), good.value[step]
    broken = (np.diff(energy_j) < 0) | (apart_s > SETTINGS.counter_stall * np.median(apart_s))
    pieces = np.split(np.arange(len(step)), np.flatnonzero(broken) + 1)
    return tuple(CounterSteps(at_s[p], gap_s[p], energy_j[p]) for p in pieces if len(p) >= _MIN_STEPS)


def compare(
    source: Series, counter: Series, sensor: SensorDescription, window: KernelWindow | None = None
) -> tuple[Comparison, ...]:
    """Return a source beside the energy counter, between the counter's steps.

    Steps are chosen where the power hardly changes, for there it matters least when each came.

    Args:
        source: Believed readings of the source, shape (n,).
        counter: Readings of the counter of the same time, shape (m,).
        sensor: What the source is like.
        window: Compare within it only; None: over all of the recording.

    Returns:
        One or more stretches that do not overlap, in order of time; () where there is nothing to compare.
    """
    good = source.good()
    if sensor.counts_energy or not sensor.is_of_board or not len(good) or not len(counter.good()):
        return ()
    curve = SourceCurve.of(good, sensor)
    found: list[Comparison] = []
    for steps in counter_steps(counter, curve.origin_ns):
        found += _compare(curve, steps, window)
    return tuple(found)


def joined(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return stretches that follow each other as one, None where there is none."""
    if not comparisons:
        return None
    start_ns = comparisons[0].start_ns
    return Comparison(
        start_ns,
        start_ns + sum(one.end_ns - one.start_ns for one in comparisons),
        sum(one.counter_j for one in comparisons),
        sum(one.source_j for one in comparisons),
        math.hypot(*(one.error_j for one in comparisons)),
        math.hypot(*(one.missed_j for one in comparisons)),
    )


def contradiction(compared: Comparison | None, source: SourceName) -> str:
    """Return a sentence where a source and the counter cannot both be right of one stretch, else "".

    Args:
        compared: The stretch, None where there is none.
        source: Which source.
    """
    if compared is None:
        return ""
    most_j = max(compared.counter_j, compared.source_j)
    allowed_j = max(SETTINGS.scatter_limit * most_j, SETTINGS.scatter_factor * compared.error_j)
    if not abs(compared.source_j - compared.counter_j) > allowed_j:
        return ""
    length_s = (compared.end_ns - compared.start_ns) / NS_PER_S
    counter_w = compared.counter_j / length_s
    return f"{source} gives {compared.power_w:.4g} W and the energy counter {counter_w:.4g} W"


@dataclass(frozen=True)
class SourceCurve:
    """The course of power by a source.

    Attributes:
        origin_ns: What time counts from, host time.
        at_s: Middle of the time that each fresh value covers, shape (n,).
        value_w: The values, shape (n,).
        total_j: Energy up to each, by trapezoids, shape (n,).
        sensor: What the source is like.
    """

    origin_ns: int
    at_s: Float64s
    value_w: Float64s
    total_j: Float64s
    sensor: SensorDescription

    @classmethod
    def of(cls, good: Series, sensor: SensorDescription) -> SourceCurve:
        """Return the course by readings that succeeded, at least one."""
        origin_ns = int(good.end_ns[0])
        newest_s, value_w = fresh_values(good, KernelWindow(origin_ns, origin_ns, 0.0), sensor)
        at_s = newest_s - sensor.averaging_s / 2
        parts_j = np.diff(at_s) * (value_w[1:] + value_w[:-1]) / 2
        return cls(origin_ns, at_s, value_w, np.concatenate(([0.0], np.cumsum(parts_j))), sensor)

    def energy_j(self, moment_s: Float64s) -> Float64s:
        """Return the energy up to some moments within the curve, shape as given."""
        power_w = np.interp(moment_s, self.at_s, self.value_w)
        k = np.maximum(np.searchsorted(self.at_s, moment_s, side="right") - 1, 0)
        rest_s = moment_s - self.at_s[k]
        return np.asarray(self.total_j[k] + rest_s * (self.value_w[k] + power_w) / 2)

    def change_w(self, moment_s: Float64s) -> Float64s:
        """Return how much the values change around moments within the curve, shape as given."""
        reach_s = self.sensor.averaging_s / 2 + self.sensor.refresh_s
        first = np.searchsorted(self.at_s, moment_s - reach_s)
        last = np.searchsorted(self.at_s, moment_s + reach_s, side="right")
        # The values on both sides at least.
        beside = np.searchsorted(self.at_s, moment_s)
        first, last = np.minimum(first, np.maximum(beside - 1, 0)), np.maximum(last, beside + 1)
        return np.array([np.ptp(self.value_w[i:j]) for i, j in zip(first, last, strict=True)])

    def unseen_j(self, start_s: float, end_s: float) -> float:
        """Return the standard error of the energy between two moments that is due to the values between."""
        inside = slice(int(np.searchsorted(self.at_s, start_s)), int(np.searchsorted(self.at_s, end_s)) + 1)
        value_w, spacing_s = self.value_w[inside], np.diff(self.at_s[inside])
        if len(value_w) < _MIN_VALUES:
            return 0.0
        refresh_s = self.sensor.refresh_s
        # Of a source that misses more than it sees, a stretch in which it saw few bursts by chance must not
        # count for more.
        neighbours_w = _scatter_w(self.value_w if self.sensor.unseen_share > _MOSTLY else value_w)
        missed_s = float(np.maximum(spacing_s - 1.5 * refresh_s, 0.0).sum()) if refresh_s > 0 else 0.0
        noise_j = neighbours_w * math.sqrt(self.sensor.overlap * float((spacing_s**2).sum()))
        return math.hypot(noise_j, float(np.ptp(value_w)) * missed_s * UNIFORM_SD)


def _scatter_w(value_w: Float64s) -> float:
    """Return the scatter of values by how much neighbours differ, W."""
    return math.sqrt(float((np.diff(value_w) ** 2).mean()) / 2)


def _compare(curve: SourceCurve, steps: CounterSteps, window: KernelWindow | None) -> Iterator[Comparison]:
    """Yield the stretches of one piece of the counter's steps."""
    begin_s, end_s = float(curve.at_s[0]), float(curve.at_s[-1])
    if window is not None:
        begin_s = max(begin_s, (window.start_ns - curve.origin_ns) / NS_PER_S + SETTINGS.counter_lag_s)
        end_s = min(end_s, (window.end_ns - curve.origin_ns) / NS_PER_S)
    inside = (steps.at_s >= begin_s) & (steps.at_s <= end_s)
    at_s, gap_s, counter_j = steps.at_s[inside], steps.gap_s[inside], steps.energy_j[inside]
    if len(at_s) < _MIN_STEPS:
        return
    sensor = curve.sensor
    power_w = np.interp(at_s, curve.at_s, curve.value_w)
    blur_s = (sensor.averaging_s + sensor.refresh_s) / 4 + SETTINGS.counter_lag_s
    step_j = np.hypot(
        power_w * np.hypot(SETTINGS.step_jitter_s, gap_s * UNIFORM_SD), curve.change_w(at_s) * blur_s
    )
    source_j = curve.energy_j(at_s)
    for i, j in _stretches(at_s, step_j, counter_j, sensor):
        unseen_j = curve.unseen_j(at_s[i], at_s[j])
        error_j = math.hypot(step_j[i], step_j[j], unseen_j)
        yield Comparison(
            curve.origin_ns + round(at_s[i] * NS_PER_S),
            curve.origin_ns + round(at_s[j] * NS_PER_S),
            float(counter_j[j] - counter_j[i]),
            float(source_j[j] - source_j[i]),
            error_j,
            unseen_j if sensor.unseen_share > _MOSTLY else 0.0,
        )


def _stretches(
    at_s: Float64s, step_j: Float64s, counter_j: Float64s, sensor: SensorDescription
) -> list[tuple[int, int]]:
    """Return between which steps to compare, given the error that each brings."""
    least_s = max(SETTINGS.stretch_s, SETTINGS.stretch_averages * sensor.averaging_s)
    if at_s[-1] - at_s[0] < 2 * least_s:
        energy_j = counter_j[None, :] - counter_j[:, None]
        relative = np.hypot(step_j[None, :], step_j[:, None]) / np.where(energy_j > 0, energy_j, np.nan)
        if np.isnan(relative).all():
            return []
        i, j = np.unravel_index(int(np.nanargmin(relative)), relative.shape)
        return [(int(i), int(j))]
    chosen = [_quietest(at_s, step_j, at_s[0], at_s[0] + least_s)]
    while at_s[chosen[-1]] + least_s <= at_s[-1]:
        begin_s = at_s[chosen[-1]] + least_s
        chosen.append(_quietest(at_s, step_j, begin_s, begin_s + least_s))
    return [(i, j) for i, j in pairwise(chosen) if counter_j[j] > counter_j[i]]


def _quietest(at_s: Float64s, step_j: Float64s, begin_s: float, end_s: float) -> int:
    first, last = np.searchsorted(at_s, (begin_s, end_s))
    return int(first + np.argmin(step_j[first : max(last, first + 1)]))

"""Values that stand still: a source that follows a board's power does not repeat one to the last digit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.core.arrays import Indices
from ptxbench.energy.gate.comparison import SETTINGS, CounterSteps, counter_steps
from ptxbench.energy.gate.readings import Mark, Verdict, with_objection
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Float64s, Series


@dataclass(frozen=True)
class StuckSettings:
    """How long a value may stand."""

    refreshes: int = 50
    """Refreshes from which on a value stands still, whatever the load. In 163,000 series of H100s and H200s
    (results/) one stood for 15 at the most (`samples`, idle), and of the other sources for 9."""
    refreshes_if_moved: int = 5
    """The same where the power is known to have moved: no settled reading of 64,000 kernels repeated a value
    from before its kernel so often."""
    fine: float = 1e-3
    """Step between neighbouring values, as a fraction, above which a source may repeat one for long."""
    distinct: int = 10
    """Different values from which on their least difference is the step of the source."""
    moved: float = 0.15
    """Change of the counter's power, or difference from the value that stands, that is a move of it."""
    same: float = 0.05
    """Difference from the counter's power up to which a value that stands is right."""


STUCK = StuckSettings()


@dataclass(frozen=True)
class _Hold:
    """Readings of one value that follow each other.

    Attributes:
        at: Which ones, shape (n,).
        start_s: Time of the first, after an origin.
        end_s: Time of the last.
        value_w: The value.
        refreshes: How often the source gave it anew.
    """

    at: Indices
    start_s: float
    end_s: float
    value_w: float
    refreshes: int


def mark_stuck(
    verdict: Verdict,
    sensor: SensorDescription,
    counter: Series | None = None,
    changes_ns: Iterable[int] = (),
    settings: StuckSettings = STUCK,
) -> Verdict:
    """Mark the readings of a fine source that repeat a value for too long, the first of them left out.

    Too long is less where the energy counter or a known change of the load says that the power moved. A value
    that agrees with the counter all the time is right.

    Args:
        verdict: What is believed so far of the source, by `judge`.
        sensor: What the source is like.
        counter: Believed readings of the energy counter of the same time, None where there is none.
        changes_ns: Host times at which the load changed for sure.
        settings: How long is too long.
    """
    series = verdict.series
    at = np.flatnonzero(verdict.marks == Mark.BELIEVED)
    if sensor.counts_energy or not len(at):
        return verdict
    origin_ns = int(series.time_ns[at[0]])
    step_w = _step_w(series.value[at], sensor, settings)
    steps = counter_steps(counter, origin_ns) if counter is not None else ()
    changes_s = [(one - origin_ns) / NS_PER_S for one in changes_ns]
    marks = verdict.marks.copy()
    for hold in _holds(series, at, origin_ns, sensor):
        if hold.refreshes < settings.refreshes_if_moved or step_w > settings.fine * hold.value_w:
            continue
        if _stands_still(hold, sensor, steps, changes_s, settings):
            marks[hold.at[1:]] = Mark.STUCK
    return with_objection(replace(verdict, marks=marks))


def _holds(series: Series, at: Indices, origin_ns: int, sensor: SensorDescription) -> Iterable[_Hold]:
    """Yield the holds among the readings `at`, of two readings or more."""
    time_ns, value_w = series.time_ns[at], series.value[at]
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(value_w)) + 1, [len(at)]))
    for first, last in zip(bounds[:-1], bounds[1:] - 1, strict=True):
        if last == first:
            continue
        start_s, end_s = ((int(time_ns[i]) - origin_ns) / NS_PER_S for i in (first, last))
        # Readings that were lost say nothing, and those that were polled twice nothing new. Of a value that
        # is polled again and again the first and the last reading may be all that was kept.
        refreshes = len(np.unique(time_ns[first : last + 1]))
        if sensor.refresh_s > 0:
            at_most = int((end_s - start_s) / sensor.refresh_s) + 1
            refreshes = min(refreshes, at_most) if series.stamp_ns[at[first]] >= 0 else at_most
        yield _Hold(at[first : last + 1], start_s, end_s, float(value_w[first]), refreshes)


def _step_w(value_w: Float64s, sensor: SensorDescription, settings: StuckSettings) -> float:
    """Return the step between neighbouring values, by the description or as it was seen."""
    seen_w = np.unique(value_w)
    if len(seen_w) < settings.distinct:
        return sensor.quantum
    return max(sensor.quantum, float(np.diff(seen_w).min()))


def _stands_still(
    hold: _Hold,
    sensor: SensorDescription,
    steps: Iterable[CounterSteps],
    changes_s: Iterable[float],
    settings: StuckSettings,
) -> bool:
    # What comes within the delay of a change is from before it.
    from_before_s = hold.start_s - sensor.delay_s
    settled_s = hold.end_s - sensor.settle_s - settings.refreshes_if_moved * sensor.refresh_s
    if any(from_before_s <= change_s <= settled_s for change_s in changes_s):
        return True
    for piece in steps:
        said = _by_counter(hold, sensor, piece, settings)
        if said is not None:
            return said
    return hold.refreshes >= settings.refreshes


def _by_counter(
    hold: _Hold, sensor: SensorDescription, steps: CounterSteps, settings: StuckSettings
) -> bool | None:
    """Return whether the power moved while a value stood, None where the counter cannot tell."""
    inside = np.flatnonzero((steps.at_s >= hold.start_s) & (steps.at_s <= hold.end_s - sensor.delay_s))
    if len(inside) < 3:
        return None
    ends = inside[[0, len(inside) // 2, -1]]
    length_s = np.diff(steps.at_s[ends])
    power_w = np.diff(steps.energy_j[ends]) / length_s
    error = SETTINGS.scatter_factor * np.hypot(SETTINGS.step_jitter_s, steps.gap_s[ends].max()) / length_s
    off = np.abs(np.append(power_w / hold.value_w - 1, power_w[1] / power_w[0] - 1))
    if (off > np.maximum(settings.moved, np.append(error, error.sum()))).any():
        return True
    covers = steps.at_s[ends[-1]] - steps.at_s[ends[0]] > (hold.end_s - hold.start_s) / 2
    return False if covers and (off < settings.same).all() else None

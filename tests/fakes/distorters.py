"""Faults of a power sensor that leave every reading successful: what a `FaultyGpu` takes as its fault."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

from fakes.faults import Fault, Moment

from ptxbench.sensors.base import Reading, SourceName

_NO_POWER = (SourceName.TEMPERATURE, SourceName.CLOCK, SourceName.COUNTER)


def distorted(change: Callable[[float], float]) -> Fault:
    """Every power reading changed."""

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        return tuple(Reading(change(r.value), r.stamp_epoch_ns, r.code) for r in readings)

    return fault


def changed_in_time(change: Callable[[float, float], float]) -> Fault:
    """Every power reading changed, by the time since the GPU was opened, s."""

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        return tuple(Reading(change(moment.at_s, r.value), r.stamp_epoch_ns, r.code) for r in readings)

    return fault


def of_counter(change: Callable[[float, float], float]) -> Fault:
    """Every reading of the energy counter changed, by the time since the GPU was opened, s."""

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source is not SourceName.COUNTER:
            return readings
        return tuple(Reading(change(moment.at_s, r.value), r.stamp_epoch_ns, r.code) for r in readings)

    return fault


def lost(share: float) -> Fault:
    """Readings of the power sources of which a share fails, by chance."""
    rng = random.Random(7)

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        return tuple(replace(r, value=math.nan, code=999) if rng.random() < share else r for r in readings)

    return fault


def stamps_of_another(every: int) -> Fault:
    """Readings of which one in so many has the stamp of the one before it."""
    count, before_ns = 0, -1

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        nonlocal count, before_ns
        given = []
        for one in readings:
            count += one.stamp_epoch_ns >= 0
            is_again = one.stamp_epoch_ns >= 0 and count % every == 0 and before_ns >= 0
            given.append(replace(one, stamp_epoch_ns=before_ns) if is_again else one)
            before_ns = one.stamp_epoch_ns if one.stamp_epoch_ns >= 0 else before_ns
        return tuple(given)

    return fault


def clock_set_back(at_s: float, by_s: float) -> Fault:
    """Stamps of a system clock that is set back once, or forth where `by_s` is negative."""

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.at_s < at_s:
            return readings
        return tuple(
            replace(r, stamp_epoch_ns=r.stamp_epoch_ns - round(by_s * 1e9)) if r.stamp_epoch_ns >= 0 else r
            for r in readings
        )

    return fault


def frozen_values(hold_w: float) -> Fault:
    """Values that stand still while their time stamps go on."""
    return distorted(lambda _: hold_w)


def frozen_while(stands: Callable[[Moment], bool]) -> Fault:
    """Values that stand still at the last one before, while their time stamps go on."""
    last: dict[SourceName, float] = {}

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        if stands(moment):
            return tuple(replace(r, value=last.setdefault(moment.source, r.value)) for r in readings)
        last.update((moment.source, r.value) for r in readings[-1:])
        return readings

    return fault


def future_stamps(by_s: float) -> Fault:
    """Readings that say they were taken later than they were."""

    def fault(_: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        return tuple(
            replace(r, stamp_epoch_ns=r.stamp_epoch_ns + round(by_s * 1e9)) if r.stamp_epoch_ns >= 0 else r
            for r in readings
        )

    return fault


def spikes(every: int, factor: float) -> Fault:
    """One reading in so many that is too high."""
    count = 0

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        nonlocal count
        if moment.source in _NO_POWER:
            return readings
        given = []
        for one in readings:
            count += 1
            given.append(replace(one, value=one.value * factor) if count % every == 0 else one)
        return tuple(given)

    return fault


def fresh_counted(every: int, change: Callable[[float], float]) -> Fault:
    """One new power value in so many changed, as long as it stands."""
    seen: dict[SourceName, tuple[float, int]] = {}

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        given = []
        for one in readings:
            last, count = seen.get(moment.source, (float("nan"), 0))
            count += one.value != last
            seen[moment.source] = one.value, count
            given.append(replace(one, value=change(one.value)) if count % every == 0 else one)
        return tuple(given)

    return fault


def late_values(by_s: float) -> Fault:
    """Power that shows so much later than it was drawn, while time stamps go on."""
    past: dict[SourceName, list[tuple[float, float]]] = {}

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        queue = past.setdefault(moment.source, [])
        given = []
        for one in readings:
            queue.append((moment.at_s, one.value))
            while len(queue) > 1 and queue[1][0] <= moment.at_s - by_s:
                queue.pop(0)
            given.append(replace(one, value=queue[0][1]))
        return tuple(given)

    return fault


def missing(share: float) -> Fault:
    """So large a share of the power readings missing, by chance."""
    rng = random.Random(1)

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        return tuple(one for one in readings if rng.random() >= share)

    return fault


def frozen_from(at_s: float, source: SourceName | None = None) -> Fault:
    """Values that stand from a moment on: of all power sources, or of one source."""
    held: dict[SourceName, float] = {}

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        is_meant = moment.source not in _NO_POWER if source is None else moment.source is source
        if not is_meant or moment.at_s < at_s:
            return readings
        return tuple(replace(r, value=held.setdefault(moment.source, r.value)) for r in readings)

    return fault


def another_process(power_w: float, busy_s: float = 1.0, period_s: float = 2.5) -> Fault:
    """Power of another process that works for a part of each period, in power sources and counter alike."""
    last: dict[SourceName, tuple[float, float]] = {}

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source is not SourceName.COUNTER:
            is_busy = moment.at_s % period_s < busy_s
            return distorted(lambda w: w + power_w * is_busy)(moment, readings)
        given = []
        for one in readings:
            value_j, more_j = last.get(moment.source, (math.nan, 0.0))
            # The counter goes on with its own steps.
            if one.value != value_j:
                periods, rest_s = divmod(moment.at_s, period_s)
                more_j = power_w * (periods * busy_s + min(rest_s, busy_s))
                last[moment.source] = one.value, more_j
            given.append(replace(one, value=one.value + more_j))
        return tuple(given)

    return fault

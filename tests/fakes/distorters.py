"""Faults of a power sensor that leave every reading successful: what a `FaultyGpu` takes as its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fakes.faults import Fault, Moment

from ptxbench.sensors.base import Reading, SourceName

_NO_POWER = (SourceName.TEMPERATURE, SourceName.COUNTER)


def distorted(change: Callable[[float], float]) -> Fault:
    """Every power reading changed."""

    def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        if moment.source in _NO_POWER:
            return readings
        return tuple(replace(r, value=change(r.value)) for r in readings)

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

"""Whether the energy counter agrees with the source that a kernel's power is taken from."""

from __future__ import annotations

import math

from ptxbench.core.status import Status
from ptxbench.energy.reading import EnergyReading, disagreements
from ptxbench.energy.steady import PowerReading, power_between_edges
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Trace

# NVML counts whole mJ.
_QUANTUM_J = 1e-3
# A step covers the time until a little before it came; no counter was seen to lag by more.
_LAG_NS = 10_000_000
# A real counter's steps do not come exactly when its energy says. Over 937 trials on H200s 17% differed from
# `samples` by more than errors without this, with 3 to 6 ms less than 2%.
_JITTER_S = 0.004
# Two sources of one GPU that differ by more, and by more than so many standard errors, are not both right.
_CONTRADICTION = 0.15
_ERRORS = 4.0


def counter_disagreement(
    power: PowerReading, trace: Trace, window: KernelWindow, sensor: SensorDescription
) -> str:
    """Return a sentence where the counter and a source differ by more than their errors, else "".

    The counter is taken between its edges within the window, for it has nothing to settle; its error
    holds its quantum and that nobody saw when between two polls an edge came. There is no result where the
    source is the counter itself, or the counter has fewer than two edges in the window.

    Args:
        power: The source's power over the settled part of the window, which stands for all of it.
        trace: The recording.
        window: The kernel's window.
        sensor: The source.
    """
    counted = _beside(power, trace, window, sensor)
    if counted is None:
        return ""
    found = {str(sensor.source): power, "the counter": counted}
    energies = {
        name: EnergyReading(
            one.power_w * window.elapsed_s, one.readings, error_j=one.standard_error_w * window.elapsed_s
        )
        for name, one in found.items()
    }
    return "; ".join(disagreements(energies))


def counter_contradiction(
    power: PowerReading, trace: Trace, window: KernelWindow, sensor: SensorDescription
) -> str:
    """Return a sentence where the counter and a source cannot both be right, so that neither is believed.

    Args:
        power: The source's power over the settled part of the window.
        trace: The recording.
        window: The kernel's window.
        sensor: The source.
    """
    counted = _beside(power, trace, window, sensor)
    if counted is None:
        return ""
    allowed_w = max(
        _CONTRADICTION * max(power.power_w, counted.power_w),
        _ERRORS * math.hypot(power.standard_error_w, counted.standard_error_w),
    )
    if not abs(power.power_w - counted.power_w) > allowed_w:
        return ""
    return f"{sensor.source} gives {power.power_w:.4g} W and the energy counter {counted.power_w:.4g} W"


def counter_power(trace: Trace, window: KernelWindow) -> PowerReading | None:
    """Return the counter's power between its edges in a window of even power, with the error of its steps.

    Args:
        trace: The recording.
        window: The window.

    Returns:
        The power, or None where there is no counter, or it has fewer than two edges there.
    """
    series = trace.of(SourceName.COUNTER)
    if series is None:
        return None
    counted = power_between_edges(series, window.start_ns + _LAG_NS, window.end_ns, _QUANTUM_J, _JITTER_S)
    return counted if counted.status is Status.OK else None


def _beside(
    power: PowerReading, trace: Trace, window: KernelWindow, sensor: SensorDescription
) -> PowerReading | None:
    """Return the counter's power in the window; None where there is nothing to compare."""
    if sensor.counts_energy or power.status is not Status.OK:
        return None
    return counter_power(trace, window)

"""Energy between two moments by the energy counter, which steps now and then."""

from __future__ import annotations

import math

import numpy as np

from ptxbench.core.status import Status
from ptxbench.energy.gate.comparison import SETTINGS
from ptxbench.energy.reading import EnergyReading, no_energy
from ptxbench.energy.steady import UNIFORM_SD
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Int64s, KernelWindow, Series

# Steps around a window that tell its energy.
_MIN_STEPS = 4


def counter_energy(good: Series, window: KernelWindow, sensor: SensorDescription) -> EnergyReading:
    """Return the counter's energy at a window's end less that at its start.

    At an edge between two steps the energy follows from the step before with the power before that, and from
    the step after with the power after that. Their mean is taken; half of their difference is an error.

    Args:
        good: Readings of the counter that succeeded, in order, shape (n,).
        window: The window.
        sensor: What the counter is like.
    """
    made_ns, step = counter_steps(good)
    at_s = (made_ns - window.start_ns) / NS_PER_S - sensor.lag_s
    energy_j = good.value[step]
    if len(at_s) < _MIN_STEPS or at_s[1] > 0 or at_s[-2] < window.elapsed_s:
        reason = "the energy counter made too few steps around the window"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    power_w = np.diff(energy_j) / np.diff(at_s)
    gap_s = float(np.median((good.end_ns[step] - good.begin_ns[step - 1]) / NS_PER_S))
    ends = []
    errors_j = [math.sqrt(2) * sensor.quantum * UNIFORM_SD]
    for moment_s in (0.0, window.elapsed_s):
        i = int(np.searchsorted(at_s, moment_s, side="right")) - 1
        i = min(max(i, 1), len(at_s) - 3)
        from_before_j = energy_j[i] + power_w[i - 1] * (moment_s - at_s[i])
        from_after_j = energy_j[i + 1] - power_w[i + 1] * (at_s[i + 1] - moment_s)
        ends.append((from_before_j + from_after_j) / 2)
        errors_j.append(abs(from_after_j - from_before_j) / 2)
        errors_j.append(float(power_w[i]) * math.hypot(gap_s * UNIFORM_SD, SETTINGS.step_jitter_s))
    return EnergyReading(float(ends[1] - ends[0]), len(at_s), error_j=math.hypot(*map(float, errors_j)))


def counter_steps(good: Series) -> tuple[Int64s, Int64s]:
    """Return when a counter stepped, halfway between two calls, and which readings showed it first."""
    step = np.flatnonzero(np.diff(good.value) > 0) + 1
    return (good.end_ns[step] + good.begin_ns[step - 1]) // 2, step

"""The values of a power source around a window: of which time each speaks, and how well that is known.

A low-pass that is quick beside its refresh is sharpened. With rho = exp(-(u_k - u_k-1) / tau),

    q_k = (v_k - rho v_k-1) / (1 - rho)

is the power between u_k-1 and u_k alone, weighted by exp(-age / tau): what was drawn before is gone from it.
So the load may change two refreshes beside a window. The noise of v_k grows by sqrt(1 + rho^2) / (1 - rho).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.energy.corrected import fresh_values
from ptxbench.energy.sample_grid import made
from ptxbench.energy.sensor_response import share_before
from ptxbench.energy.steady import UNIFORM_SD
from ptxbench.sensors.description import ALIKE, SensorDescription, Shape
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# A stamp of the driver, or the lag of a sensor that was measured, is right to about this.
_STAMP_S = 5e-4
# The mean age of a sample differs by so much between two H100s and an H200 (`sensor.json` in results/).
_ALIKE_S = 7e-4
# What may be left of the value before, so that sharpening does not make noise of it.
_LEFT_MOST = 0.5
# Part of a refresh below which two values are one.
_APART_LEAST = 0.25


@dataclass(frozen=True)
class Values:
    """The fresh values around a window.

    Attributes:
        newest_s: Newest instant that each covers, after the window's start, shape (n,).
        power_w: The power that each speaks of, shape (n,).
        value_w: What was read, shape (n,).
        reach_s: How far back from its newest instant each speaks, shape (n,).
        spacing_s: Time that each counts for, shape (n,).
        mean_age_s: Mean age of what each speaks of, from its newest instant.
        time_error_s: Standard error of the time of each.
        lag_error_s: Standard error that all of them share.
        refresh_s: Time between two.
    """

    newest_s: Float64s
    power_w: Float64s
    value_w: Float64s
    reach_s: Float64s
    spacing_s: Float64s
    mean_age_s: float
    time_error_s: float
    lag_error_s: float
    refresh_s: float
    _sensor: SensorDescription

    def of_step(self, at_s: float) -> Float64s:
        """Return which share of each lies behind a moment, shape (n,)."""
        share = share_before(self.newest_s - at_s, self._sensor)
        return sharpened(self.newest_s, share, self._sensor) if is_sharpened(self._sensor) else share


def values_of(
    good: Series, window: KernelWindow, sensor: SensorDescription, stamp_error_s: float = 0.0
) -> Values:
    """Return the values of readings that succeeded.

    Args:
        good: Readings of a power source in the order of their time, at least one.
        window: The window.
        sensor: What the source is like.
        stamp_error_s: Standard error of each stamp beyond that of a driver's.
    """
    call_s = _call_s(good)
    time_error_s = shared_error_s = call_s * UNIFORM_SD
    if good.stamp_ns[0] >= 0:
        found = made(good.stamp_ns, sensor.refresh_s)
        good = replace(good, stamp_ns=found.at_ns)
        time_error_s, shared_error_s = math.hypot(found.error_s, _STAMP_S, stamp_error_s), stamp_error_s
    newest_s, value_w = fresh_values(good, window, sensor)
    if good.stamp_ns[0] < 0:
        # A value that is read again, to its last digit, until it changes may be one that was not made anew.
        again = (np.diff(value_w, prepend=np.nan) == 0) & (np.diff(value_w, append=value_w[-1:]) != 0)
        newest_s, value_w = newest_s[~again], value_w[~again]
    power_w, reach_s = value_w, np.full(len(value_w), sensor.memory_s)
    spacing_s = np.gradient(newest_s) if len(newest_s) > 1 else np.array([sensor.refresh_s])
    if is_sharpened(sensor):
        # Of two that are hardly apart the later one is enough.
        apart = np.diff(newest_s, append=np.inf) > _APART_LEAST * sensor.refresh_s
        newest_s, value_w = newest_s[apart], value_w[apart]
        power_w = sharpened(newest_s, value_w, sensor)
        reach_s = spacing_s = np.diff(newest_s, prepend=newest_s[0] - sensor.memory_s)
    return Values(
        newest_s,
        power_w,
        value_w,
        reach_s,
        spacing_s,
        mean_age_s(sensor),
        time_error_s,
        _lag_error_s(sensor, shared_error_s),
        sensor.refresh_s if sensor.refresh_s > 0 else call_s,
        sensor,
    )


def is_sharpened(sensor: SensorDescription) -> bool:
    """Whether what a value remembers from before the one before it can be taken out."""
    return sensor.shape is Shape.EXPONENTIAL and sensor.averaging_s > 0 and _left(sensor) <= _LEFT_MOST


def sharpened(newest_s: Float64s, value: Float64s, sensor: SensorDescription) -> Float64s:
    """Return values without what they remember from before the value before, shape (n,)."""
    left = np.exp(-np.diff(newest_s) / (sensor.averaging_s / 2))
    own = (value[1:] - left * value[:-1]) / (1 - left)
    return np.concatenate((value[:1], own))


def reach_s(sensor: SensorDescription) -> float:
    """Return how far back from its newest instant a value speaks."""
    return sensor.refresh_s if is_sharpened(sensor) else sensor.memory_s


def mean_age_s(sensor: SensorDescription) -> float:
    """Return the mean age of what a value speaks of, from its newest instant."""
    if not is_sharpened(sensor):
        return sensor.averaging_s / 2
    left = _left(sensor)
    return sensor.averaging_s / 2 - sensor.refresh_s * left / (1 - left)


def _left(sensor: SensorDescription) -> float:
    """Return what is left of the value before in the next."""
    return math.exp(-sensor.refresh_s / (sensor.averaging_s / 2))


def _lag_error_s(sensor: SensorDescription, shared_s: float) -> float:
    """Return the standard error of the time that all values measure, of which one part is given."""
    unknown_s = {"documented": sensor.averaging_s / 2, ALIKE: _ALIKE_S}.get(sensor.origin, 0.0)
    return math.hypot(_STAMP_S, shared_s, unknown_s)


def _call_s(good: Series) -> float:
    """Return the usual time between two calls."""
    ends_ns = np.unique(good.end_ns)
    return float(np.median(np.diff(ends_ns))) / NS_PER_S if len(ends_ns) > 1 else 0.0

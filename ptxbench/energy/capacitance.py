"""Energy by the correction of a slow sensor's readings that Guerreiro et al. (2015) use, their Eq. 6.

    P(t_i) = P_m(t_i) + C (P_m(t_i+1) - P_m(t_i-1)) / (t_i+1 - t_i-1)

P_m is what the sensor says, C "a constant representing the GPU capacitance" in s. M. Burtscher, I. Zecena and
Z. Zong ("Measuring GPU Power with the K20 Built-in Sensor", 2014), whose formula it is, found 0.833 s for a
K20c and 0.79 s for a K40c. Energy is the integral of P over the kernel.

It undoes a first-order low-pass, whose time constant C is: P = P_m + C dP_m/dt. For a running mean of length
A the constant of equal delay is A / 2. Then the energy of an even kernel that lasts as long as A or longer is
right, and of a shorter one, of length T, the share (1 + T / A) / 2 of what it draws over idle power is
seen. So it is in the limit of a short refresh: as the slope is taken over two of them, what lies beside the
kernel enters at its edges. MTSM corrected (`ptxbench.energy.corrected`) takes the tail behind the kernel
besides, and has neither limit.
"""

from __future__ import annotations

import math

import numpy as np

from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.core.status import Status
from ptxbench.energy.corrected import fresh_values
from ptxbench.energy.reading import EnergyReading, no_energy
from ptxbench.energy.steady import nothing_read, stepped_back
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import Float64s, KernelWindow, Series

# A fit of two numbers needs more readings than that.
_FEWEST_FITTED = 4


def capacitance_of(sensor: SensorDescription) -> float:
    """Return the capacitance that a sensor's description stands for, s: its mean delay without the lag."""
    return sensor.averaging_s / 2


def corrected_power_w(time_s: Float64s, power_w: Float64s, capacitance_s: float) -> Float64s:
    """Return Eq. 6 for every reading that has one on either side, shape (n - 2,).

    Args:
        time_s: Times of the readings, ascending, shape (n,).
        power_w: Readings, shape (n,).
        capacitance_s: C.
    """
    return power_w[1:-1] + capacitance_s * _slope(time_s, power_w)


def capacitance_j(
    series: Series, window: KernelWindow, sensor: SensorDescription, capacitance_s: float | None = None
) -> EnergyReading:
    """Energy by Eq. 6: the integral of the corrected power over the kernel.

    The readings are the sensor's fresh values: a value that a call only repeats has no slope. Each stands at
    the newest instant that it covers. Between two of them power is taken to be straight.

    Args:
        series: Readings of one power source, shape (n,).
        window: The kernel's window.
        sensor: What that source is like.
        capacitance_s: C; None: that of the sensor's description.

    Returns:
        Energy in J; WINDOW_TOO_SHORT where the corrected readings do not reach over the window,
        SENSOR_STALE where no reading succeeded or the source went backwards, NOT_SUPPORTED for the counter.
    """
    if series.counts_energy:
        return no_energy(Status.NOT_SUPPORTED, "the energy counter gives joules; use the counter method")
    if reason := stepped_back(series):
        return no_energy(Status.SENSOR_STALE, reason)
    good = series.good()
    if not len(good):
        return no_energy(Status.SENSOR_STALE, nothing_read(series))
    constant_s = capacitance_of(sensor) if capacitance_s is None else capacitance_s
    time_s, power_w = fresh_values(good, window, sensor)
    at_s, length_s = time_s[1:-1], window.elapsed_s
    if len(at_s) < 2 or at_s[0] > 0 or at_s[-1] < length_s:
        reason = f"the readings of {series.source} do not reach over the kernel: record more around it"
        return no_energy(Status.WINDOW_TOO_SHORT, reason)
    corrected_w = corrected_power_w(time_s, power_w, constant_s)
    inside = (at_s > 0) & (at_s < length_s)
    edges_s = np.concatenate([[0.0], at_s[inside], [length_s]])
    energy_j = float(np.trapezoid(np.interp(edges_s, at_s, corrected_w), edges_s))
    return EnergyReading(energy_j, int(inside.sum()))


def fit_capacitance(series: Series, window: KernelWindow, sensor: SensorDescription) -> Estimate:
    """Return the C that makes the corrected power of an even kernel even, s.

    Where the true power is P throughout, Eq. 6 says P_m = P - C x slope: P and C by least squares.

    Args:
        series: Readings of one power source, shape (n,).
        window: The window of a kernel of even power that lasts some times as long as the sensor remembers.
        sensor: What that source is like; its averaging is not used.

    Returns:
        C with its 95% interval; NaN where the readings are too few or do not change.
    """
    unknown = Estimate(math.nan, math.nan)
    good = series.good()
    if series.counts_energy or not len(good):
        return unknown
    time_s, power_w = fresh_values(good, window, sensor)
    if len(time_s) < _FEWEST_FITTED + 2:
        return unknown
    # A slope over the kernel's begin or end is of two powers.
    within = (time_s[:-2] >= 0) & (time_s[2:] <= window.elapsed_s)
    slope, middle_w = _slope(time_s, power_w)[within], power_w[1:-1][within]
    spread = float(((slope - slope.mean()) ** 2).sum()) if len(slope) else 0.0
    if len(slope) < _FEWEST_FITTED or spread == 0:
        return unknown
    constant_s = -float(((slope - slope.mean()) * middle_w).sum()) / spread
    left_w = middle_w - middle_w.mean() + constant_s * (slope - slope.mean())
    error_s = math.sqrt(float((left_w**2).sum()) / (len(slope) - 2) / spread)
    return Estimate(constant_s, COVERAGE_FACTOR * error_s)


def _slope(time_s: Float64s, power_w: Float64s) -> Float64s:
    """Return the change from the reading before each to the one after it, over the time between, W/s."""
    return np.asarray((power_w[2:] - power_w[:-2]) / (time_s[2:] - time_s[:-2]), dtype=np.float64)

"""What a power sensor makes of the true power: a mean over the past, or a low-pass filter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxbench.sensors.description import Shape
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s

Response = Callable[[Float64s], Float64s]


def respond(signal: PowerSignal, shape: Shape, width_s: float) -> Response:
    """Return the sensor's value, at gain 1 and lag 0, as a function of time.

    Args:
        signal: The true power.
        shape: BOXCAR: the mean over the last `width_s`. EXPONENTIAL: a first-order
            low-pass with the time constant `width_s`, as older boards have in hardware.
        width_s: Above 0.
    """
    if shape is Shape.BOXCAR:
        return lambda time_s: signal.mean_w(time_s - width_s, time_s)
    from scipy.signal import lfilter  # takes half a second to load: only where a low-pass is tried

    step_s, mean_w = signal.even
    # Exact for power that is constant over each step.
    kept = float(np.exp(-step_s / width_s))
    begin_w = float(signal.power_w[0])
    filtered, _ = lfilter([1 - kept], [1, -kept], mean_w, zi=[kept * begin_w])
    at_s = signal.time_s[0] + step_s * np.arange(len(mean_w) + 1)
    value_w = np.concatenate([[begin_w], filtered])
    return lambda time_s: np.interp(time_s, at_s, value_w)


def span_s(shape: Shape, width_s: float) -> float:
    """Return how long a past a value covers; for a low-pass the window of equal mean age."""
    return width_s if shape is Shape.BOXCAR else 2 * width_s


def delay_s(shape: Shape, lag_s: float, width_s: float) -> float:
    """Return the mean age of the power that a value measures."""
    return lag_s + span_s(shape, width_s) / 2

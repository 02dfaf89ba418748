"""Which part of a value a stretch of time makes up: the sensor's response in closed form."""

from __future__ import annotations

import numpy as np

from ptxbench.sensors.description import SensorDescription, Shape
from ptxbench.sensors.trace import Float64s


def share_before(age_s: Float64s, sensor: SensorDescription) -> Float64s:
    """Return the share of a value's weight that is younger than an age.

    A running mean over A weighs every moment of the last A alike: min(age / A, 1). A low-pass with time
    constant tau = A / 2 weighs by exp(-age / tau) / tau: 1 - exp(-age / tau). A point weighs one moment.

    Args:
        age_s: Time before the newest instant that the value covers, any shape; nothing is younger than 0.
        sensor: The source.
    """
    if sensor.averaging_s <= 0:
        return np.asarray(age_s > 0, dtype=np.float64)
    if sensor.shape is Shape.BOXCAR:
        return np.clip(age_s / sensor.averaging_s, 0.0, 1.0)
    return -np.expm1(-np.maximum(age_s, 0.0) / (sensor.averaging_s / 2))


def share_within(newest_s: Float64s, start_s: float, end_s: float, sensor: SensorDescription) -> Float64s:
    """Return the share of each value's weight that lies between two moments.

    Args:
        newest_s: Newest instant that each value covers (when it was made, less the lag), shape (n,).
        start_s: First moment.
        end_s: Last moment.
        sensor: The source.
    """
    return share_before(newest_s - start_s, sensor) - share_before(newest_s - end_s, sensor)

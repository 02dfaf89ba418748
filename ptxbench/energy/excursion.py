"""Power that leaves its steady value for a while within a kernel, and comes back.

Above some 400 W an H200 may draw a percent less for about a tenth of a second, then a percent more, and then
what it always does (studies/h200/power.md). What is behind that is the kernel's steady power.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxbench.core.arrays import Floats
from ptxbench.sensors.description import SensorDescription

# What falls by this share of the rise that is looked for, or more, comes back from above.
_FALL = 0.3
# Of one reading nothing tells whether it is a mixture of before and after.
_MIN_READINGS = 2


@dataclass(frozen=True)
class Excursion:
    """The steepest rise of a kernel's power, and the steepest fall behind it.

    Attributes:
        rise: How far the power rose, as a fraction.
        rise_at: The reading from which on it did.
        fall: How far it fell after that, as a fraction.
        fall_at: The reading from which on it did.
    """

    rise: float
    rise_at: int
    fall: float
    fall_at: int


def find_excursion(power_w: Floats, apart: int, within: int) -> Excursion:
    """Find where a kernel's power rises most, and where it falls most behind that.

    Args:
        power_w: Fresh readings in the order of time, shape (n,), n > `apart`.
        apart: Readings from one to the first that shares nothing with it: changes are those between such two.
        within: How many readings on the rise begins at the latest, and the fall behind it.
    """
    change = (power_w[apart:] - power_w[:-apart]) / power_w.mean()
    rise_at = int(np.argmax(change[:within]))
    fall_at = rise_at + int(np.argmin(change[rise_at : rise_at + within]))
    return Excursion(float(change[rise_at]), rise_at, -float(change[fall_at]), fall_at)


def behind_excursion(course_w: Floats, settled_w: Floats, sensor: SensorDescription) -> Floats:
    """Return those of a kernel's settled readings that lie behind an excursion, if there is one.

    Args:
        course_w: Fresh readings from when the sensor had settled on, shape (n,).
        settled_w: Those of them from when the GPU's regulation should have settled on, shape (m,), m <= n.
        sensor: What that source is like. What changes later than its `regulation_s` is part of the power of a
            long kernel.

    Returns:
        All settled readings where there is no excursion, or fewer than two readings behind it.
    """
    apart = sensor.readings_apart
    if len(course_w) <= apart:
        return settled_w
    found = find_excursion(course_w, apart, sensor.readings_regulated)
    if found.rise < sensor.excursion:
        return settled_w
    last = found.fall_at if found.fall >= _FALL * sensor.excursion else found.rise_at
    behind_w = course_w[last + apart :]
    # Where the fall is still to come all are a percent high, which other trials tell; a mixture may pass.
    return behind_w if _MIN_READINGS <= len(behind_w) < len(settled_w) else settled_w

"""When exactly the meter saw the power step at the begin or the end of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s

# A step must stand this many standard errors above the noise on either side of it.
_MIN_SIGNIFICANCE = 6.0
_MIN_SIDE = 3


@dataclass(frozen=True)
class Steps:
    """Steps that were found.

    Attributes:
        found: Which of the expected edges show a step, shape (n,).
        time_s: Time of each found step, by the signal's clock, shape (found,).
    """

    found: np.ndarray[tuple[int], np.dtype[np.bool_]]
    time_s: Float64s


def find_steps(signal: PowerSignal, expected_s: Float64s, radius_s: Float64s) -> Steps:
    """Find the step near each expected time.

    Args:
        signal: The meter's samples.
        expected_s: Times at which steps are expected, shape (n,).
        radius_s: How far off each may be, shape (n,).
    """
    times = [_step_s(signal, e, r) for e, r in zip(expected_s.tolist(), radius_s.tolist(), strict=True)]
    found = np.array([time is not None for time in times], dtype=np.bool_)
    return Steps(found, np.array([time for time in times if time is not None], dtype=np.float64))


def _step_s(signal: PowerSignal, expected_s: float, radius_s: float) -> float | None:
    """Return the change point of a two-level fit: the split that leaves the least sum of squares."""
    first, last = np.searchsorted(signal.time_s, [expected_s - radius_s, expected_s + radius_s])
    # An edge whose surroundings the capture cuts off is no edge: its two levels are not seen.
    if signal.time_s[0] > expected_s - radius_s or signal.time_s[-1] < expected_s + radius_s:
        return None
    power_w = signal.power_w[first:last]
    count = len(power_w)
    if count < 2 * _MIN_SIDE:
        return None
    before = np.arange(_MIN_SIDE, count - _MIN_SIDE + 1)
    sums = np.cumsum(power_w)
    mean_before = sums[before - 1] / before
    mean_after = (sums[-1] - sums[before - 1]) / (count - before)
    explained = before * (count - before) / count * (mean_after - mean_before) ** 2
    best = int(np.argmax(explained))
    split = int(before[best])
    residual = np.concatenate([power_w[:split] - mean_before[best], power_w[split:] - mean_after[best]])
    error_w = float(residual.std()) * np.sqrt(1 / split + 1 / (count - split))
    if abs(mean_after[best] - mean_before[best]) <= _MIN_SIGNIFICANCE * error_w:
        return None
    return float(signal.time_s[first + split - 1] + signal.time_s[first + split]) / 2

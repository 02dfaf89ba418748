"""Power as a function of time that can be integrated exactly between any two moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxbench.sensors.trace import Float64s

_EVEN_STEP_S = 5e-4


@dataclass(frozen=True)
class PowerSignal:
    """Samples of power, joined by straight lines and continued flat beyond both ends.

    Attributes:
        time_s: Strictly increasing, shape (n,).
        power_w: Power at those times, shape (n,).
    """

    time_s: Float64s
    power_w: Float64s

    @property
    def period_s(self) -> float:
        """Median time between two samples."""
        return float(np.median(np.diff(self.time_s)))

    @cached_property
    def _steps(self) -> tuple[Float64s, Float64s, Float64s, Float64s, Float64s]:
        """Start of each interval between two samples, its length, power there, its slope, energy so far."""
        length_s = np.diff(self.time_s)
        steps_j = 0.5 * length_s * (self.power_w[1:] + self.power_w[:-1])
        energy_j = np.concatenate([[0.0], np.cumsum(steps_j[:-1])])
        return self.time_s[:-1], length_s, self.power_w[:-1], np.diff(self.power_w) / length_s, energy_j

    @cached_property
    def even(self) -> tuple[float, Float64s]:
        """Spacing, and mean power of the intervals of that length that follow the first sample."""
        step_s = max(_EVEN_STEP_S, self.period_s)
        count = int(np.ceil((self.time_s[-1] - self.time_s[0]) / step_s))
        return step_s, self.resample(float(self.time_s[0]), step_s, count)

    def until_j(self, time_s: Float64s) -> Float64s:
        """Return the energy from the first sample to `time_s`, any shape, both edges interpolated."""
        begin_s, length_s, begin_w, slope, begin_j = self._steps
        index = np.searchsorted(begin_s[1:], time_s, side="right")
        past_s = time_s - begin_s.take(index)
        inside_s = np.minimum(np.maximum(past_s, 0.0), length_s.take(index))
        at_w = begin_w.take(index)
        reached_w = at_w + slope.take(index) * inside_s
        ramp_j = 0.5 * inside_s * (at_w + reached_w)
        return np.asarray(begin_j.take(index) + ramp_j + reached_w * (past_s - inside_s), dtype=np.float64)

    def energy_j(self, start_s: Float64s, end_s: Float64s) -> Float64s:
        """Return the energy between `start_s` and `end_s`, arrays of one shape."""
        return self.until_j(end_s) - self.until_j(start_s)

    def total_j(self, spans_s: Float64s) -> float:
        """Return the energy of all of `spans_s`, starts and ends, shape (n, 2)."""
        return float(self.energy_j(spans_s[:, 0], spans_s[:, 1]).sum())

    def mean_w(self, start_s: Float64s, end_s: Float64s) -> Float64s:
        """Return the mean power between `start_s` and `end_s` (later), arrays of one shape."""
        return self.energy_j(start_s, end_s) / (end_s - start_s)

    def resample(self, start_s: float, period_s: float, count: int) -> Float64s:
        """Return the mean power of `count` intervals of `period_s` that follow `start_s`."""
        edges_s = start_s + period_s * np.arange(count + 1, dtype=np.float64)
        return np.diff(self.until_j(edges_s)) / period_s

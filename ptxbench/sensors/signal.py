"""Power as a function of time that can be integrated exactly between any two moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxbench.sensors.trace import Float64s

# An uneven signal is put on an even grid no finer than this; chosen.
_EVEN_STEP_S = 5e-4
# Samples are evenly spaced where each is this near to its place, as a share of the spacing.
_UNEVEN = 1e-6


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
    def _pieces(self) -> tuple[Float64s, Float64s, Float64s, Float64s]:
        """Energy up to t as pieces c0 + c1 (t - begin) + c2 (t - begin)^2: begins and coefficients.

        The first piece and the last are what lies before the first sample and behind the last.
        """
        length_s = np.diff(self.time_s)
        begin_s = np.concatenate([self.time_s[:1], self.time_s])
        half_slope = 0.5 * np.diff(self.power_w) / length_s
        until_j = np.cumsum(0.5 * length_s * (self.power_w[1:] + self.power_w[:-1]))
        c0 = np.concatenate([[0.0, 0.0], until_j])
        c1 = np.concatenate([self.power_w[:1], self.power_w])
        return begin_s, c0, c1, np.concatenate([[0.0], half_slope, [0.0]])

    @cached_property
    def _per_s(self) -> float:
        """Samples a second where they are evenly spaced, else NaN."""
        begin_s, end_s = float(self.time_s[0]), float(self.time_s[-1])
        per_s = (len(self.time_s) - 1) / (end_s - begin_s)
        off_s = np.abs(self.time_s - np.linspace(begin_s, end_s, len(self.time_s))).max()
        return per_s if off_s * per_s < _UNEVEN else math.nan

    @cached_property
    def even(self) -> tuple[float, Float64s]:
        """Spacing, and mean power of the intervals of that length that follow the first sample."""
        step_s = max(_EVEN_STEP_S, self.period_s)
        count = int(np.ceil((self.time_s[-1] - self.time_s[0]) / step_s))
        return step_s, self.resample(float(self.time_s[0]), step_s, count)

    def until_j(self, time_s: Float64s) -> Float64s:
        """Return the energy from the first sample to `time_s`, any shape, both edges interpolated."""
        begin_s, c0, c1, c2 = self._pieces
        if math.isnan(self._per_s):
            index = np.searchsorted(self.time_s, time_s, side="right")
        else:  # a division takes less than a search; a sample's own time may count to either side
            place = (time_s - (self.time_s[0] - 1 / self._per_s)) * self._per_s
            index = np.clip(place, 0, len(self.time_s)).astype(np.intp)
        past_s = time_s - begin_s.take(index)
        # In place: new pages of memory cost as much as the arithmetic.
        until_j = c2.take(index)
        until_j *= past_s
        until_j += c1.take(index)
        until_j *= past_s
        until_j += c0.take(index)
        return np.asarray(until_j)

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

"""A source and the energy counter of one board, whose power a test writes down."""

from __future__ import annotations

import numpy as np
from fakes.power import sensor, series

from ptxbench.sensors.base import SourceName

SAMPLES = sensor(refresh_s=0.02, averaging_s=0.016, lag_s=0.004, source=SourceName.SAMPLES)


def recorded(power_w, end_s=8.0, gain=lambda t, w: w, counter_gain=1.0, poll_s=0.005, seed=1, late_s=0.0):
    """Source and counter of a board whose power is `power_w`, a function of time."""
    grid_s = np.arange(-1.0, end_s, 0.001)
    energy_j = np.concatenate(([0.0], np.cumsum(power_w(grid_s[:-1]) * 0.001)))

    def up_to(t):
        return np.interp(t, grid_s, energy_j)

    stamp_s = np.arange(0.013, end_s - 0.01, 0.02)
    newest_s = stamp_s - SAMPLES.lag_s - late_s
    mean_w = (up_to(newest_s) - up_to(newest_s - SAMPLES.averaging_s)) / SAMPLES.averaging_s
    noise_w = np.random.default_rng(seed).normal(size=len(stamp_s))
    source = series(stamp_s + 0.003, gain(stamp_s, mean_w) + noise_w, SourceName.SAMPLES, stamp_s=stamp_s)
    read_s = np.arange(0.0, end_s, poll_s)
    made_s = np.floor((read_s - 0.037) / 0.1) * 0.1 + 0.037
    counted_j = np.round(1e6 + counter_gain * up_to(made_s), 3)
    return source, series(read_s, counted_j, SourceName.COUNTER, call_s=0.001)


def square(low_w=120.0, high_w=500.0, period_s=2.0):
    return lambda t: np.where(np.mod(t, period_s) < period_s / 2, low_w, high_w)

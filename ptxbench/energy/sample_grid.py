"""When the samples of the driver's buffer were made, which is earlier than their stamps say.

NVML's `samples` are made at even times, every 20.0 ms on H100s and H200s. Their stamps are of the moment at
which the driver took them: in 46 recordings of the one and 86 of the other (results/nvidia-h100/methods,
results/nvidia-h200/methods) three in four lie within 1 ms of the even grid, and most others one tick of 10 ms
behind it. What a sample says at a step of power shows when it was made: on the grid, to 0.9 ms (173 samples
at 87 steps). Taken by their stamps they are up to 16 ms late, which is some percent of a window of 0.2 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxbench.sensors.trace import NS_PER_S, Float64s, Int64s

# Part of a refresh on either side of the grid in which the stamps lie that came at once.
_AT_ONCE = 0.125
# So large a share of the stamps must lie there; without a grid it is a quarter.
_ON_GRID_LEAST = 0.5
# A stamp that is later than this part of a refresh is of a sample that was made late: two of two were.
_LATE_MOST = 0.525
# Of the spread of the stamps so much is left: 0.6 of 3.1 ms in those samples, without the 5% made late.
_LEFT_OF_SPREAD = 0.2
# The two clocks drift apart, so that the grid is looked for anew after so many stamps.
_BLOCK = 256
# Phases at which a grid is tried: a tenth of `_AT_ONCE` apart.
_PHASES = 80
# Quartiles of a normal distribution lie so many standard deviations apart.
_QUARTILES_APART = 1.349


@dataclass(frozen=True)
class Made:
    """When samples were made.

    Attributes:
        at_ns: Host time, shape (n,).
        error_s: Standard error of each.
    """

    at_ns: Int64s
    error_s: float


def made(stamp_ns: Int64s, refresh_s: float) -> Made:
    """Return when samples were made, by their stamps; the stamps themselves where no grid shows.

    Args:
        stamp_ns: Stamps in order, shape (n,).
        refresh_s: Time between two samples; 0 where it is not known.
    """
    refresh_ns = round(refresh_s * NS_PER_S)
    if refresh_ns <= 0 or len(stamp_ns) < 2:
        return Made(stamp_ns, 0.0)
    parts = np.array_split(stamp_ns, max(1, len(stamp_ns) // _BLOCK))
    found = [_on_grid(part, refresh_ns) for part in parts]
    error_s = float(np.sqrt(np.mean([one.error_s**2 for one in found])))
    return Made(np.concatenate([one.at_ns for one in found]), error_s)


def _on_grid(stamp_ns: Int64s, refresh_ns: int) -> Made:
    phase = (stamp_ns % refresh_ns) / refresh_ns
    grid, share = _densest(phase)
    if share < _ON_GRID_LEAST:
        low_ns, high_ns = np.quantile(np.diff(stamp_ns), [0.25, 0.75])
        return Made(stamp_ns, float(high_ns - low_ns) / _QUARTILES_APART / np.sqrt(2) / NS_PER_S)
    # Behind the grid by what part of a refresh, from a little before it on.
    early = _LATE_MOST - 1.0
    late_ns = np.round(((phase - grid - early) % 1.0 + early) * refresh_ns).astype(np.int64)
    at_ns = stamp_ns - late_ns
    # Of two stamps at one point of the grid the earlier one is of a sample that was made late.
    again = np.concatenate((np.diff(at_ns) <= 0, [False]))
    return Made(np.where(again, stamp_ns, at_ns), _LEFT_OF_SPREAD * float(late_ns.std()) / NS_PER_S)


def _densest(phase: Float64s) -> tuple[float, float]:
    """Return around which phase most others lie, from 0 to 1, and what share of them does."""
    centre = np.arange(_PHASES) / _PHASES
    off = (phase[None, :] - centre[:, None] + 0.5) % 1.0 - 0.5
    near = np.abs(off) <= _AT_ONCE
    best = int(np.argmax(near.sum(axis=1)))
    # The middle of those that lie near.
    return float(centre[best] + np.median(off[best][near[best]])), float(near[best].mean())

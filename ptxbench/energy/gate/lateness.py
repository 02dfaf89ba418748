"""Whether a source's values come later than its description says, seen wherever the load changes.

A source whose time stamps are consistent, and late, agrees with everything while the power is even. Its
values are moved to the shift at which they agree best with the energy counter, or where there is none with
the known windows of kernels. A source that agrees at no shift that its description allows comes late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.energy.corrected import fresh_values
from ptxbench.energy.gate.comparison import SourceCurve, counter_steps
from ptxbench.energy.sensor_response import share_within
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# Squares of shares that differ by rounding alone, of those of 1.
_SAME = 1e-14


@dataclass(frozen=True)
class LatenessSettings:
    """Figures of the search for a shift."""

    step_s: float = 0.01
    """Shifts that are tried lie so far apart: half of a refresh of the quickest source."""
    earliest_s: float = -0.2
    latest_s: float = 2.2
    """Shifts that are tried; later ones show in few recordings of a kernel."""
    allowed_s: float = 0.03
    """Shift that says nothing: lag of the counter (10 ms), time of a call, grid of the search."""
    allowed_refreshes: float = 0.25
    """The same in refreshes of the source, of which a short recording shows few. In one of 46 recordings on
    an H100 (results/nvidia-h100/methods) `instant`, which refreshes every 110 ms, is 50 ms late."""
    undocumented_s: float = 0.02
    """Lag that no document tells; 21 ms is the longest that was measured of the power of a board."""
    worse: float = 2.0
    """Factor on the least sum of squares from which on a shift does not agree. On H100s and H200s the right
    one is worse than the best by a factor of up to 1.2 (results/)."""
    chi_square: float = 25.0
    """Increase of the sum of squared standard errors from which on a shift does not agree: five of them."""
    explained: float = 0.5
    """Share of the variance that the best shift may leave unexplained."""
    rise: float = 0.25
    """Power of a kernel above what is around it, as a fraction, from which on its begin shows. One of 64,000
    kernels (wgmma on an H100) rose by 10% within itself, 0.1 s after it had begun."""
    windows: int = 12
    """Windows of kernels that are looked at together."""
    least_values: int = 8
    """Values or stretches from which on a shift is looked for."""


LATENESS = LatenessSettings()


@dataclass(frozen=True)
class Shift:
    """By how much later than its description a source's values come.

    Attributes:
        best_s: Where they agree best.
        least_s: The smallest shift that cannot be told from the best.
        allowed_s: What the description leaves open.
    """

    best_s: float
    least_s: float
    allowed_s: float

    @property
    def objection(self) -> str:
        """Why the source's values may not be set beside anything, "" where they come in time."""
        if self.least_s <= self.allowed_s:
            return ""
        return (
            f"its values come {self.best_s:.2g} s late, where its description allows {self.allowed_s:.2g} s:"
            " what they say of a kernel is of the time before it; measure it by `ptxbench doctor sensor`"
        )


def shift_beside_counter(source: Series, counter: Series, sensor: SensorDescription) -> Shift | None:
    """Return by how much a source comes late beside the energy counter.

    Args:
        source: Believed readings of the source over a recording, shape (n,).
        counter: Readings of the counter of the same time, shape (m,).
        sensor: What the source is like.

    Returns:
        None where there is nothing to compare: the recording is too short, or its power even.
    """
    good = source.good()
    if sensor.counts_energy or not sensor.is_of_board or not len(good) or not len(counter.good()):
        return None
    curve = SourceCurve.of(good, sensor)
    # Half of the recording must be left at any shift.
    shifts_s = _shifts(float(curve.at_s[-1] - curve.at_s[0]) / 2)
    squares, count = np.zeros(len(shifts_s)), 0
    total = 0.0
    for steps in counter_steps(counter, curve.origin_ns):
        at_s = steps.at_s
        half_s = sensor.averaging_s / 2
        reach = (at_s[0] + half_s, at_s[-1] - half_s)
        begin_s = max(reach[0], curve.at_s[0] - shifts_s[0])
        end_s = min(reach[1], curve.at_s[-1] - shifts_s[-1])
        moment_s = at_s[(at_s >= begin_s) & (at_s <= end_s)]
        if len(moment_s) < LATENESS.least_values:
            continue
        counter_j = np.diff(_smoothed_j(moment_s, at_s, steps.energy_j, half_s))
        source_j = np.diff(curve.energy_j(moment_s[None, :] + shifts_s[:, None]), axis=1)
        gain = source_j @ counter_j / float(counter_j @ counter_j)
        squares += ((source_j - gain[:, None] * counter_j) ** 2).sum(axis=1)
        mean_gain = counter_j.sum() / np.diff(moment_s).sum() * np.diff(moment_s)
        total += float(((counter_j - mean_gain) ** 2).sum())
        count += len(counter_j)
    return _shift(shifts_s, squares, total, count, sensor)


def shift_at_windows(
    source: Series, windows: Sequence[KernelWindow], sensor: SensorDescription
) -> Shift | None:
    """Return by how much a source comes late beside the windows of kernels, between which the GPU idles.

    Args:
        source: Believed readings of the source over a recording, shape (n,).
        windows: When each kernel ran, in order of time.
        sensor: What the source is like.

    Returns:
        None where there is nothing to compare: the recording is too short, or no kernel shows in it.
    """
    good, known = source.good(), list(windows[: LATENESS.windows])
    if sensor.counts_energy or not len(good) or not known:
        return None
    newest_s, value_w = fresh_values(good, known[0], sensor)
    if len(windows) > len(known):
        kept = newest_s < (windows[len(known)].start_ns - known[0].start_ns) / NS_PER_S
        newest_s, value_w = newest_s[kept], value_w[kept]
    shifts_s = _shifts(float(newest_s[-1] - newest_s[0]))
    squares, rise_w = _left_over(newest_s[None, :] - shifts_s[:, None], value_w, known, sensor)
    total = float(((value_w - value_w.mean()) ** 2).sum()) if len(value_w) else 0.0
    if not len(shifts_s) or rise_w[int(np.argmin(squares))] < LATENESS.rise * float(value_w.mean()):
        return None
    return _shift(shifts_s, squares, total, len(value_w) - len(known) - 1, sensor)


def _shifts(most_s: float) -> Float64s:
    """Return the shifts to try."""
    latest_s = max(min(LATENESS.latest_s, most_s), 0.0)
    return np.arange(LATENESS.earliest_s, latest_s, LATENESS.step_s)


def _left_over(
    newest_s: Float64s, value_w: Float64s, windows: Sequence[KernelWindow], sensor: SensorDescription
) -> tuple[Float64s, Float64s]:
    """Return what even power in each window, and beside them, leaves of the values, and the largest of them.

    Both are of shape (shifts,): the sum of squares, and by how much a window's power is above that beside it.

    Args:
        newest_s: Newest instant that each value covers at each shift, shape (shifts, n).
        value_w: The values, shape (n,).
        windows: When each kernel ran.
        sensor: What the source is like.
    """
    origin_ns = windows[0].start_ns
    edges_s = [((w.start_ns - origin_ns) / NS_PER_S, (w.end_ns - origin_ns) / NS_PER_S) for w in windows]
    shares = [share_within(newest_s, *edges, sensor) for edges in edges_s]
    if len(shares) == 1:
        return _left_of_one(shares[0], value_w)
    model = np.stack([np.ones_like(newest_s), *shares], axis=1)
    normal = model @ np.swapaxes(model, 1, 2)
    # A window that no value covers at a shift has no power there.
    power_w = np.linalg.pinv(normal, hermitian=True) @ (model @ value_w)[..., None]
    squares = ((value_w - (np.swapaxes(power_w, 1, 2) @ model)[:, 0]) ** 2).sum(axis=1)
    return np.asarray(squares), np.asarray(power_w[:, 1:, 0].max(axis=1))


def _left_of_one(share: Float64s, value_w: Float64s) -> tuple[Float64s, Float64s]:
    """Return what `_left_over` does for one window, by the line of least squares; shape (shifts, n)."""
    mean, mean_w = share.mean(axis=1), float(value_w.mean())
    apart, apart_w = share - mean[:, None], value_w - mean_w
    square = (apart**2).sum(axis=1)
    tells = square > _SAME * (1 + mean**2) * len(value_w)
    # Where all values have one share of the window, the smallest powers that explain them are taken.
    line_w = apart @ apart_w / np.where(tells, square, 1.0)
    rise_w = np.where(tells, line_w, mean_w * mean / (1 + mean**2))
    squares = ((apart_w - np.where(tells, rise_w, 0.0)[:, None] * apart) ** 2).sum(axis=1)
    return squares, rise_w


def _smoothed_j(moment_s: Float64s, at_s: Float64s, energy_j: Float64s, half_s: float) -> Float64s:
    """Return the counter's energy up to some moments, averaged over as long as the source averages."""
    if half_s <= 0:
        return np.interp(moment_s, at_s, energy_j)
    area = np.concatenate(([0.0], np.cumsum(np.diff(at_s) * (energy_j[1:] + energy_j[:-1]) / 2)))

    def area_to(t_s: Float64s) -> Float64s:
        k = np.maximum(np.searchsorted(at_s, t_s, side="right") - 1, 0)
        mean_j = (energy_j[k] + np.interp(t_s, at_s, energy_j)) / 2
        return np.asarray(area[k] + (t_s - at_s[k]) * mean_j)

    return (area_to(moment_s + half_s) - area_to(moment_s - half_s)) / (2 * half_s)


def _shift(
    shifts_s: Float64s,
    squares: Float64s,
    total: float,
    count: int,
    sensor: SensorDescription,
) -> Shift | None:
    """Return the best shift and the smallest one that agrees as well."""
    if count < LATENESS.least_values or not len(shifts_s):
        return None
    best = int(np.argmin(squares))
    least = float(squares[best])
    if not least < LATENESS.explained * total:
        return None
    bound = max(LATENESS.worse * least, least + LATENESS.chi_square * least / count)
    agrees = shifts_s[squares <= bound]
    allowed_s = LATENESS.allowed_s + LATENESS.allowed_refreshes * sensor.refresh_s
    # A document may say too long an averaging time; such a source comes early.
    allowed_s += LATENESS.undocumented_s if sensor.origin == "documented" else 0.0
    return Shift(float(shifts_s[best]), float(agrees.min()), allowed_s)

"""What power readings say of the power of kernels: normal equations, for a given response of the sensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ptxbench.attribute.exposure import ExposureMatrix
from ptxbench.sensors.description import Shape
from ptxbench.sensors.trace import Float64s


@dataclass(frozen=True)
class AttributionSettings:
    """Settings of the attribution of energy to names."""

    most_names: int = 150
    """Names that get a power of their own; the rest, and the rarest, have one together."""
    least_refreshes: float = 3.0
    """Refreshes of the sensor that a name must fill to get a power of its own."""
    widest_interval: float = 0.15
    """Half of a 95% interval, of the energy, beyond which a name is reported with what it is mixed up
    with."""
    prior_spread: float = 0.35
    """Least standard deviation of the prior of a power in kernels, of its mean."""
    prior_idle: float = 0.3
    """Mean and standard deviation of the prior of the power between kernels, of that in kernels."""
    block_s: float = 1.0
    """Length of a block of the block bootstrap: readings that are nearer hang together."""
    fewest_blocks: int = 10
    """Blocks that there are at least, though they be shorter."""
    most_blocks: int = 300
    """Blocks that there are at most, though they be longer."""
    resamples: int = 200
    """Resamples of the bootstrap: the standard error of a standard error is 5% then."""
    needed_readings: int = 30
    """Readings below which nothing is attributed."""
    readings_at_once: int = 4096
    """Readings whose shares are in memory at once."""
    ridge: float = 1e-6
    """Ridge that keeps the equations of the search solvable, of a reading's weight."""
    model_error: float = 0.02
    """Standard error of the sensor's model, of the mean power."""
    response_penalty: float = 0.1
    """Growth of the residual sum of squares that outweighs a lag of one more refresh, or e times the
    window."""
    residual_ratio_accept: float = 1.1
    """Ratio to the least residual sum of squares up to which a lag and a window explain the readings as
    well."""
    most_responses: int = 9
    """Such lags and windows that are averaged over, chosen at random."""
    long_mean_refreshes: float = 5.0
    """Refreshes from which on an averaging window counts as a running mean."""
    low_pass_parts: int = 12
    """Parts of equal weight in which a low-pass is taken."""
    lags_refreshes: tuple[float, ...] = tuple(np.arange(-1.0, 3.01, 0.25))
    """Grid of the lag, in refreshes."""
    windows_refreshes: tuple[float, ...] = (0.25, 0.5, 0.65, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
    """Grid of the averaging window, in refreshes."""
    search_readings: int = 3000
    """Readings that the grid is searched with."""
    rough_from_readings: int = 2000
    """Readings from which on a part of them is tried first."""
    rough_step: int = 4
    """Of which that part is every so many-th."""
    hopeless_ratio: float = 2.0
    """Ratio to the best of its shape beyond which what was tried first is out."""
    refinements: int = 60
    """Evaluations of the search beyond the grid, for each shape."""
    pause_s: float = 0.1
    """A pause that is longer is idle of another kind: the GPU lowers its power meanwhile."""


SETTINGS = AttributionSettings()


@dataclass(frozen=True)
class Readings:
    """Power readings of one GPU during a run.

    Attributes:
        at_s: Time of each reading after the run's begin, s, shape (n,).
        power_w: Their values, shape (n,).
        averaging_s: What the sensor is thought to average over, s.
        refresh_s: Time between two readings, s.
        limit_w: Most that the GPU can draw, W; NaN where it is not known.
    """

    at_s: Float64s
    power_w: Float64s
    averaging_s: float
    refresh_s: float
    limit_w: float = math.nan

    def thinned(self, step: int) -> Readings:
        """Return one of every so many readings."""
        return replace(self, at_s=self.at_s[::step], power_w=self.power_w[::step])


@dataclass(frozen=True)
class Response:
    """What of the past a reading is the mean of.

    Attributes:
        lag_s: Age of the newest moment in it, s.
        averaging_s: Length of a running mean, s; of a low-pass twice its time constant, as in
            `SensorDescription`.
        shape: Which of the two it is.
    """

    lag_s: float
    averaging_s: float
    shape: Shape

    @property
    def reach_s(self) -> float:
        """How far the running mean, or the part of the low-pass that counts, reaches back, s."""
        return float(self.edges_s[-1])

    @property
    def edges_s(self) -> Float64s:
        """Ages between which the past has equal weight, s, shape (parts + 1,)."""
        if self.shape is Shape.BOXCAR:
            return np.array([0.0, self.averaging_s])
        time_constant_s = self.averaging_s / 2
        inner_s = -time_constant_s * np.log1p(-np.arange(SETTINGS.low_pass_parts) / SETTINGS.low_pass_parts)
        # The last part has the mean age of all that is older.
        return np.append(inner_s, inner_s[-1] + 2 * time_constant_s)

    @property
    def weights(self) -> Float64s:
        """What is accumulated until each of the edges counts in the mean rate, 1/s, shape (parts + 1,)."""
        of_part = 1 / np.diff(self.edges_s) / (len(self.edges_s) - 1)
        weights: Float64s = np.append(of_part, 0.0) - np.append(0.0, of_part)
        return weights


@dataclass(frozen=True)
class Equations:
    """The normal equations of readings v with shares S, shape (readings, columns), by blocks of readings.

    Attributes:
        count: How many readings there are.
        grams: S^T S of each block, shape (blocks, columns, columns).
        sides_w: S^T v of each block, W, shape (blocks, columns).
        power_w: v, W, shape (readings,).
        time_s: Time of each column in the run, s, shape (columns,).
        names: Which names each column has.
    """

    count: int
    grams: Float64s
    sides_w: Float64s
    power_w: Float64s
    time_s: Float64s
    names: tuple[tuple[int, ...], ...]

    @cached_property
    def gram(self) -> Float64s:
        """S^T S of all readings, shape (columns, columns)."""
        return np.asarray(self.grams.sum(axis=0))

    @cached_property
    def side_w(self) -> Float64s:
        """S^T v of all readings, W, shape (columns,)."""
        return np.asarray(self.sides_w.sum(axis=0))

    def left_w2(self, power_w: Float64s) -> float:
        """Return the sum of squares that powers of the columns leave of the readings, W^2."""
        explained = float(power_w @ (2 * self.side_w - self.gram @ power_w))
        return max(float(self.power_w @ self.power_w) - explained, 0.0)


def equations_of(
    readings: Readings,
    busy: ExposureMatrix,
    columns: Sequence[tuple[int, ...]],
    length_s: float,
    response: Response,
    *,
    in_blocks: bool = True,
) -> Equations:
    """Return what a response says of the readings; with `in_blocks` by blocks that are resampled."""
    end_s = readings.at_s - response.lag_s
    unknown_s = busy.unknown_until(end_s) - busy.unknown_until(end_s - response.reach_s)
    inside = (end_s <= length_s) & (end_s >= response.reach_s) & (unknown_s <= 0)
    end_s, at_s, power_w = end_s[inside], readings.at_s[inside], readings.power_w[inside]
    # A window without any kernel for a while is a pause; else the GPU waits between kernels.
    pause = busy.is_pause(end_s - response.averaging_s - SETTINGS.pause_s, end_s + SETTINGS.pause_s)
    kernels, count = len(columns), len(at_s)
    length = _block_length(count, readings.refresh_s) if in_blocks else max(count, 1)
    blocks = [slice(first, first + length) for first in range(0, count, length)]
    grams, sides_w = np.zeros((len(blocks), kernels + 2, kernels + 2)), np.zeros((len(blocks), kernels + 2))
    together = max(1, SETTINGS.readings_at_once // length)
    for first in range(0, len(blocks), together):
        piece = slice(first * length, (first + together) * length)
        shares = np.zeros((kernels + 2, len(at_s[piece])))
        shares[:kernels] = busy.mean(at_s[piece], response.lag_s + response.edges_s, response.weights)
        idle = np.clip(1 - shares.sum(axis=0), 0, None)
        shares[kernels:] = idle * (~pause[piece], pause[piece])
        for i, at in enumerate(blocks[first : first + together], start=first):
            block = shares[:, at.start - piece.start : at.stop - piece.start]
            grams[i], sides_w[i] = block @ block.T, block @ power_w[at]
    time_s = [float(busy.by_name_s[list(names)].sum()) for names in columns]
    idle_s = max(length_s - sum(time_s), 0.0)
    pause_s = min(float(pause.mean()) * length_s if count else 0.0, idle_s)
    times_s = np.array([*time_s, idle_s - pause_s, pause_s])
    return Equations(count, grams, sides_w, power_w, times_s, (*columns, (), ()))


def _block_length(count: int, refresh_s: float) -> int:
    """Return how many of some readings are a block."""
    length = min(round(SETTINGS.block_s / refresh_s), count // SETTINGS.fewest_blocks)
    return max(1, length, -(-count // SETTINGS.most_blocks))

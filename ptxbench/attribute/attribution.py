"""Which kernel took how much of a GPU's energy: power readings regressed on busy time by kernel name.

Reading k is the mean power of an averaging window. With s_nk the share of that window in which kernel n ran
(overlapping kernels share, see `ptxbench.attribute.busy`) and g_jk the share of idle kind j,

    v_k = sum over n of P_n s_nk + sum over j of I_j g_jk + error,    P, I >= 0,

where all shares of a reading add up to 1. Kernel n took P_n times its busy time. All energies are then
scaled by one factor, so that they add up to the measured energy of the run. The lag of the sensor and what it
averages over are those that leave the least squares. Intervals are quantiles over resampled blocks of
readings (block bootstrap: Kuensch, Ann. Statist. 17, 1989), with the error of the measured energy.

Names whose powers the readings cannot tell apart become one group with one power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ptxbench.attribute.busy import BusyTime
from ptxbench.attribute.launches import Launches
from ptxbench.sensors.trace import Float64s

NO_KERNEL = "(no kernel)"
# Names that get a power of their own; the rest, and the rarest, are "other kernels".
_MOST_NAMES = 40
_LEAST_REFRESHES = 3.0
# Half of a name's 95% interval beyond which it joins the name that it is mixed up with.
_WIDEST = 0.15
_BLOCK_S = 1.0
_FEWEST_BLOCKS = 10
_RESAMPLES = 200
_NEEDED_READINGS = 30
# Grid of the lag and of the averaging window, in refreshes, and names that it is searched with.
_LAGS = np.arange(-1.0, 3.01, 0.25)
_WINDOWS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
_SEARCH_NAMES = 8
# A pause that is longer than this is idle of another kind: the GPU lowers its power meanwhile.
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Readings:
    """Power readings of one GPU during a run.

    Attributes:
        at_s: Time of each reading after the run's begin, s, shape (n,).
        power_w: Their values, shape (n,).
        averaging_s: What the sensor is thought to average over, s.
        refresh_s: Time between two readings, s.
    """

    at_s: Float64s
    power_w: Float64s
    averaging_s: float
    refresh_s: float


@dataclass(frozen=True)
class Share:
    """What one kernel name, a group of names, or the time without kernels took.

    Attributes:
        names: The kernel names; several where they cannot be told apart.
        calls: How often they ran.
        time_s: Busy time, s; overlapping kernels share it.
        energy_j: Energy of the whole GPU in that time, J.
        interval_j: Its 95% interval, J; NaN where there is none.
        method: How it was found.
    """

    names: tuple[str, ...]
    calls: int
    time_s: float
    energy_j: float
    interval_j: tuple[float, float]
    method: str


@dataclass(frozen=True)
class _Design:
    """Shares of each reading, shape (readings, columns), and busy time, shape (columns,)."""

    shares: Float64s
    time_s: Float64s
    names: tuple[tuple[int, ...], ...]

    def merged(self, first: int, second: int) -> _Design:
        """Return the design with two columns as one."""
        shares, time_s = self.shares.copy(), self.time_s.copy()
        shares[:, first] += shares[:, second]
        time_s[first] += time_s[second]
        names = list(self.names)
        names[first] += names.pop(second)
        return _Design(np.delete(shares, second, 1), np.delete(time_s, second), tuple(names))


def attribute(
    readings: Readings, launches: Launches, length_s: float, energy_j: float, error_j: float, origin_ns: int
) -> tuple[Share, ...]:
    """Return what each kernel took of a GPU's energy, the largest first, and what passed without a kernel.

    Args:
        readings: Its power.
        launches: Its kernels.
        length_s: Length of the run, s.
        energy_j: Measured energy of the run, J.
        error_j: Half of its 95% interval, J.
        origin_ns: Host time of the run's begin.
    """
    ends_s = np.array([0.0, length_s])
    busy = BusyTime(launches, origin_ns)
    own_s = np.diff(busy.until(ends_s), axis=0)[0]
    calls = np.bincount(launches.name, minlength=len(launches.names))
    if not len(launches):
        interval = (energy_j - error_j, energy_j + error_j)
        return (Share((NO_KERNEL,), 0, length_s, energy_j, interval, "measured"),)
    columns = _columns(own_s, _LEAST_REFRESHES * readings.refresh_s)
    lag_s, window_s = _response(readings, busy, columns)
    design, power_w = _design(readings, busy, columns, length_s, lag_s, window_s)
    if len(power_w) < _NEEDED_READINGS:
        return (_whole(launches, length_s, energy_j, error_j),)
    kernels = len(columns)
    while True:
        draws = _resampled(design, power_w, readings.refresh_s)
        pair = _inseparable(design, draws, kernels)
        if pair is None:
            break
        design, kernels = design.merged(*pair), kernels - 1
    fitted, _ = nnls(design.shares, power_w)
    return _shares(design, fitted, draws, kernels, launches, calls, energy_j, error_j)


def _columns(own_s: Float64s, least_s: float) -> list[tuple[int, ...]]:
    """Return which names share a column at first: each its own, but the short and rare ones one together."""
    order = np.argsort(-own_s, kind="stable")
    kept = [int(i) for i in order[:_MOST_NAMES] if own_s[i] >= least_s]
    rest = tuple(int(i) for i in order if int(i) not in set(kept))
    return [*((i,) for i in kept), *((rest,) if rest else ())]


def _design(
    readings: Readings,
    busy: BusyTime,
    columns: Sequence[tuple[int, ...]],
    length_s: float,
    lag_s: float,
    window_s: float,
) -> tuple[_Design, Float64s]:
    end_s = readings.at_s - lag_s
    inside = (end_s <= length_s) & (end_s >= window_s)
    end_s, power_w = end_s[inside], readings.power_w[inside]
    shares = (busy.until(end_s) - busy.until(end_s - window_s)) / window_s
    kernels = np.stack([shares[:, list(names)].sum(axis=1) for names in columns], axis=1)
    idle = np.clip(1 - kernels.sum(axis=1), 0, None)
    # A window without any kernel for a while is a pause; else the GPU waits between kernels.
    around = busy.any_until(end_s + _PAUSE_S) - busy.any_until(end_s - window_s - _PAUSE_S)
    pause = around == 0
    whole = np.column_stack((kernels, np.where(pause, 0.0, idle), np.where(pause, idle, 0.0)))
    own_s = np.diff(busy.until(np.array([0.0, length_s])), axis=0)[0]
    time_s = [own_s[list(names)].sum() for names in columns]
    idle_s = length_s - sum(time_s)
    pause_share = float(pause.mean()) if len(pause) else 0.0
    pause_s = min(pause_share * length_s, idle_s)
    return _Design(whole, np.array([*time_s, idle_s - pause_s, pause_s]), (*columns, (), ())), power_w


def _response(readings: Readings, busy: BusyTime, columns: Sequence[tuple[int, ...]]) -> tuple[float, float]:
    """Return the lag and the averaging window that explain the readings best, s."""
    few = [*columns[:_SEARCH_NAMES]]
    rest = tuple(i for names in columns[_SEARCH_NAMES:] for i in names)
    few += [rest] if rest else []
    length_s = float(readings.at_s[-1]) if len(readings.at_s) else 0.0
    refresh_s = readings.refresh_s
    found = (0.0, max(readings.averaging_s, refresh_s))

    def left(response: tuple[float, float]) -> float:
        """Return the mean square that a lag and a window leave."""
        design, power_w = _design(readings, busy, few, length_s, *response)
        if len(power_w) < _NEEDED_READINGS:
            return math.inf
        return float(nnls(design.shares, power_w)[1] ** 2 / len(power_w))

    windows = [refresh_s * share for share in _WINDOWS] + [found[1]]
    lags = _LAGS * refresh_s
    for _ in range(3):
        found = min([found, *((float(lag), window) for window in windows for lag in lags)], key=left)
        step_s = (lags[1] - lags[0]) / 4
        lags = found[0] + step_s * np.arange(-3, 4)
        factor = 1 + 0.4 * step_s / (_LAGS[1] - _LAGS[0]) / refresh_s
        windows = [found[1] / factor, found[1], found[1] * factor]
    return found


def _resampled(design: _Design, power_w: Float64s, refresh_s: float) -> Float64s:
    """Return the powers over resampled blocks of readings, shape (resamples, columns)."""
    count = len(power_w)
    length = max(1, min(round(_BLOCK_S / refresh_s), count // _FEWEST_BLOCKS))
    blocks = np.arange(count) // length
    last = int(blocks[-1]) + 1
    width = design.shares.shape[1]
    grams, sides = np.zeros((last, width, width)), np.zeros((last, width))
    for block in range(last):
        shares, values = design.shares[blocks == block], power_w[blocks == block]
        grams[block], sides[block] = shares.T @ shares, shares.T @ values
    chance = np.random.default_rng(0)
    draws = np.empty((_RESAMPLES, width))
    for i in range(_RESAMPLES):
        times = np.bincount(chance.integers(0, last, last), minlength=last)
        draws[i] = _from_normal(np.tensordot(times, grams, 1), times @ sides)
    return draws


def _from_normal(gram: Float64s, side: Float64s) -> Float64s:
    """Solve non-negative least squares from its normal equations."""
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.clip(values, values.max() * 1e-12, None))
    solved: Float64s = nnls((vectors * root).T, (vectors.T @ side) / root)[0]
    return solved


def _inseparable(design: _Design, draws: Float64s, kernels: int) -> tuple[int, int] | None:
    """Return the name with the widest interval and what it is mixed up with, or None."""
    if kernels < 2:
        return None
    low, high = np.percentile(draws[:, :kernels], [2.5, 97.5], axis=0)
    half = (high - low) / 2 / np.maximum(np.median(draws[:, :kernels], axis=0), 1e-9)
    worst = int(np.argmax(half))
    if half[worst] <= _WIDEST:
        return None
    # Errors of opposite signs, weighted by time: what one name gains the other loses.
    moved = (draws - draws.mean(axis=0))[:, :kernels] * design.time_s[:kernels]
    products = moved.T @ moved[:, worst]
    spread = np.sqrt(np.maximum((moved**2).sum(axis=0), 1e-30))
    likeness = products / spread
    likeness[worst] = math.inf
    partner = int(np.argmin(likeness))
    return min(worst, partner), max(worst, partner)


def _shares(
    design: _Design,
    power_w: Float64s,
    draws: Float64s,
    kernels: int,
    launches: Launches,
    calls: np.typing.NDArray[np.int64],
    energy_j: float,
    error_j: float,
) -> tuple[Share, ...]:
    def totals(powers: Float64s) -> Float64s:
        raw = powers * design.time_s
        scaled: Float64s = raw * (energy_j / np.maximum(raw.sum(axis=-1, keepdims=True), 1e-12))
        return scaled

    energies, many = totals(power_w), totals(draws)
    idle, idle_many = energies[kernels:].sum(), many[:, kernels:].sum(axis=1)
    relative = error_j / energy_j if energy_j > 0 else 0.0
    rows = [
        Share(
            tuple(launches.names[i] for i in design.names[k]),
            int(calls[list(design.names[k])].sum()),
            float(design.time_s[k]),
            float(energies[k]),
            _interval(float(energies[k]), many[:, k], relative),
            "regression" if len(design.names[k]) == 1 else "regression, not separable",
        )
        for k in range(kernels)
    ]
    rows.sort(key=lambda row: -row.energy_j)
    idle_s = float(design.time_s[kernels:].sum())
    interval = _interval(float(idle), idle_many, relative)
    return (*rows, Share((NO_KERNEL,), 0, idle_s, float(idle), interval, "regression"))


def _interval(energy_j: float, draws_j: Float64s, relative: float) -> tuple[float, float]:
    low, high = (float(at) for at in np.percentile(draws_j, [2.5, 97.5]))
    beside_j = relative * energy_j
    below_j, above_j = (math.hypot(max(side, 0.0), beside_j) for side in (energy_j - low, high - energy_j))
    return max(energy_j - below_j, 0.0), energy_j + above_j


def _whole(launches: Launches, length_s: float, energy_j: float, error_j: float) -> Share:
    """Return one row for all of a run that is too short to separate."""
    interval = (energy_j - error_j, energy_j + error_j)
    method = "run too short for the sensor, not separable"
    return Share((*launches.names, NO_KERNEL), len(launches), length_s, energy_j, interval, method)

"""Which kernel took how much of a GPU's energy: power readings regressed on busy time by kernel name.

Reading k is the mean power of an averaging window. With s_nk the share of that window in which kernel n ran
(overlapping kernels share, see `ptxbench.attribute.busy`) and g_jk the share of idle kind j,

    v_k = sum over n of P_n s_nk + sum over j of I_j g_jk + error,    P, I >= 0,

where all shares of a reading add up to 1. Before the readings are seen, each P_n may be m + d z_n with z_n
standard normal, m the mean power of all kernels and d half of what m is above the lowest reading; each I_j is
thought to be 0.3 m, give or take as much. Names that the readings cannot tell apart then share what is left.
Kernel n took P_n times its busy time. All energies are then scaled by one factor, so that they add up to the
measured energy of the run. The lag of the sensor, and how long it is a running mean or a low-pass, are those
that leave the least squares.

Intervals are quantiles over resampled blocks of readings (block bootstrap: Kuensch, Ann. Statist. 17, 1989),
each with prior means and an error of the sensor's model (2%) drawn by chance, for several lags and windows
that explain the readings as well, and the error of the measured energy. Names whose energy stays uncertain by
more than 15% are reported as a group, together with what they are mixed up with. Its names are
listed with their part of its energy by time, within bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
from scipy.optimize import fmin, nnls

from ptxbench.attribute.busy import BusyTime
from ptxbench.attribute.launches import Launches
from ptxbench.attribute.ranges import Ranges
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.sensors.description import Shape
from ptxbench.sensors.trace import Float64s

NO_KERNEL = "(no kernel)"
# How the energy of a group is split.
BY_TIME = "its group's energy by time, not measured"
BY_TABLE = "its group's energy by the table's estimates, not measured"


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
class Expected:
    """What a kernel should draw by a measured table.

    Attributes:
        power_w: Mean power of the whole board while it runs, W.
        error_w: Half of its 95% interval, W.
    """

    power_w: float
    error_w: float


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
        expected_j: What a measured table expects, J; NaN where none was given or it does not know.
        members: Of names that cannot be told apart, what each may have taken, the largest first; they add up
            to this share.
    """

    names: tuple[str, ...]
    calls: int
    time_s: float
    energy_j: float
    interval_j: tuple[float, float]
    method: str
    expected_j: float = math.nan
    members: tuple[Share, ...] = ()


@dataclass(frozen=True)
class Attribution:
    """What a GPU's energy went into.

    Attributes:
        kernels: Kernels and the time without them; their energies add up to the measured one.
        ranges: Parts of the program with a name, as `Ranges`; they may overlap.
        delay_s: Mean age of what a power reading shows, s.
    """

    kernels: tuple[Share, ...]
    ranges: tuple[Share, ...] = ()
    delay_s: float = 0.0


@dataclass(frozen=True)
class _Fit:
    """Powers of the columns, W: the fitted ones, shape (columns,), and draws, shape (draws, columns).

    `scale` and `scales` are what makes their energies add up to the measured one, the latter shape (draws,);
    `relative` is the error of the measured energy, a fraction.
    """

    power_w: Float64s
    draws_w: Float64s
    scale: float
    scales: Float64s
    relative: float

    def energy_j(self, columns: Sequence[int], time_s: Float64s) -> tuple[float, tuple[float, float]]:
        """Return what some columns took in times, shape (columns,), J, and its 95% interval."""
        at = list(columns)
        energy_j = float(self.power_w[at] @ time_s) * self.scale
        draws_j = (self.draws_w[:, at] @ time_s) * self.scales
        return energy_j, _interval(energy_j, draws_j, self.relative)


@dataclass(frozen=True)
class _Response:
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
class _Equations:
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


@dataclass(frozen=True)
class _Prior:
    """What is thought of the columns' powers before: mean, W, and weight as a Gram matrix's diagonal.

    `noise_w` is what a reading may differ from the model by, W.
    """

    mean_w: Float64s
    spread_w: Float64s
    weight: Float64s
    noise_w: float = 0.0


def attribute(
    readings: Readings,
    launches: Launches,
    length_s: float,
    energy_j: float,
    error_j: float,
    origin_ns: int,
    ranges: Sequence[Ranges] = (),
    unseen_ns: Sequence[tuple[int, int]] = (),
    is_counted: bool = True,
    expected: Mapping[str, Expected] | None = None,
) -> Attribution:
    """Return what each kernel took of a GPU's energy, the largest first, and what passed without a kernel.

    A range takes what its GPU drew from its begin to its end, by the powers of the kernels that ran then.

    Args:
        readings: Its power.
        launches: Its kernels.
        length_s: Length of the run, s.
        energy_j: Measured energy of the run, J.
        error_j: Half of its 95% interval, J.
        origin_ns: Host time of the run's begin.
        ranges: Parts of the program.
        unseen_ns: Times in which kernels were not looked at.
        is_counted: Whether their launches were counted.
        expected: What a measured table expects, by kernel name; it is the prior of those.
    """
    busy = BusyTime(launches, origin_ns, unseen_ns, is_counted=is_counted)
    if not len(launches):
        interval = (energy_j - error_j, energy_j + error_j)
        return Attribution((Share((NO_KERNEL,), 0, length_s, energy_j, interval, "measured"),))
    known = {i: expected[name] for i, name in enumerate(launches.names) if expected and name in expected}
    least_s = SETTINGS.least_refreshes * readings.refresh_s
    columns = _columns(busy.by_name_s, least_s, known)
    busy.set_columns(columns)
    best, *others = _responses(readings, busy, columns)
    design = _equations(readings, busy, columns, length_s, best)
    if design.count < SETTINGS.needed_readings:
        return Attribution((_whole(launches, length_s, energy_j, error_j),))
    kernels = len(columns)
    prior = _prior(design, kernels, known)
    fitted = _solve(design.gram, design.side_w, prior, prior.mean_w)
    count = -(-SETTINGS.resamples // (1 + len(others)))
    # One response at a time: those of an hour and a hundred names fill the memory.
    alike = (_equations(readings, busy, columns, length_s, response) for response in others)
    draws = np.concatenate([_resampled(one, prior, count) for one in chain([design], alike)])
    draws *= _time_draws(design, columns, busy, len(draws))
    fit = _scaled(design, fitted, draws, energy_j, error_j)
    shares = tuple(
        replace(
            _told(share, readings, known, launches.names),
            members=_members(share, launches, busy, readings, known),
        )
        for share in _shares(design, fit, kernels, launches, busy, least_s)
    )
    parts = tuple(_range_share(one, design, fit, busy, origin_ns) for one in ranges)
    return Attribution(shares, parts, best.lag_s + best.averaging_s / 2)


def _columns(own_s: Float64s, least_s: float, known: Mapping[int, Expected]) -> list[tuple[int, ...]]:
    """Return which names share a column at first.

    Each has its own, but the short and rare ones of which nothing is expected have one together.
    """
    order = np.argsort(-own_s, kind="stable")
    kept = [int(i) for i in order[: SETTINGS.most_names] if own_s[i] >= least_s or int(i) in known]
    rest = tuple(int(i) for i in order if int(i) not in set(kept))
    return [*((i,) for i in kept), *((rest,) if rest else ())]


def _equations(
    readings: Readings,
    busy: BusyTime,
    columns: Sequence[tuple[int, ...]],
    length_s: float,
    response: _Response,
    *,
    in_blocks: bool = True,
) -> _Equations:
    """Return what a response says of the readings; with `in_blocks` by blocks that are resampled."""
    end_s = readings.at_s - response.lag_s
    unseen_s = busy.unseen_until(end_s) - busy.unseen_until(end_s - response.reach_s)
    inside = (end_s <= length_s) & (end_s >= response.reach_s) & (unseen_s <= 0)
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
    idle_s = length_s - sum(time_s)
    pause_s = min(float(pause.mean()) * length_s if count else 0.0, idle_s)
    times_s = np.array([*time_s, idle_s - pause_s, pause_s])
    return _Equations(count, grams, sides_w, power_w, times_s, (*columns, (), ()))


def _block_length(count: int, refresh_s: float) -> int:
    """Return how many of some readings are a block."""
    length = min(round(SETTINGS.block_s / refresh_s), count // SETTINGS.fewest_blocks)
    return max(1, length, -(-count // SETTINGS.most_blocks))


def _responses(readings: Readings, busy: BusyTime, columns: Sequence[tuple[int, ...]]) -> list[_Response]:
    """Return the response of the sensor that explains the readings best, then some that do as well."""
    few = readings.thinned(max(1, -(-len(readings.at_s) // SETTINGS.search_readings)))
    length_s = float(readings.at_s[-1]) if len(readings.at_s) else 0.0
    refresh_s = readings.refresh_s
    # Documents are right about a running mean of a second, but not about windows near the refresh.
    is_long = readings.averaging_s >= SETTINGS.long_mean_refreshes * refresh_s
    nominal_s = readings.averaging_s if is_long else min(readings.averaging_s or refresh_s, refresh_s)
    squares: dict[_Response, float] = {}

    def left_of(some: Readings, response: _Response) -> float:
        return _left_w2(_equations(some, busy, columns, length_s, response, in_blocks=False))

    def left(response: _Response) -> float:
        """Return the mean square that a response leaves."""
        # Of a program that repeats itself exactly, other lags and windows can explain the readings as well.
        odd = abs(response.lag_s) / refresh_s + abs(math.log(response.averaging_s / nominal_s))
        if response not in squares:
            squares[response] = left_of(few, response)
        return squares[response] * (1 + SETTINGS.response_penalty * odd)

    windows = [refresh_s * share for share in SETTINGS.windows_refreshes] + [nominal_s]
    tried = [
        _Response(float(lag * refresh_s), window_s, shape)
        for shape in Shape
        for lag in SETTINGS.lags_refreshes
        for window_s in windows
    ]
    if len(few.at_s) >= SETTINGS.rough_from_readings:
        rough = few.thinned(SETTINGS.rough_step)
        roughly = {one: left_of(rough, one) for one in tried}
        least_of = {shape: min(roughly[one] for one in tried if one.shape is shape) for shape in Shape}
        tried = [one for one in tried if roughly[one] <= SETTINGS.hopeless_ratio * least_of[one.shape]]
    best = [min((one for one in tried if one.shape is shape), key=left) for shape in Shape]
    found = min(
        [_Response(0.0, nominal_s, Shape.BOXCAR), *(_refined(one, refresh_s, left) for one in best)], key=left
    )
    # The grid alone: names that share a column can make a refined response look better than the true.
    least = min(squares[one] for one in tried)
    as_good = [
        one for one in tried if one != found and squares[one] <= SETTINGS.residual_ratio_accept * least
    ]
    chosen = np.random.default_rng(0).permutation(len(as_good))[: SETTINGS.most_responses]
    return [found, *(as_good[i] for i in chosen)]


def _refined(response: _Response, refresh_s: float, left: Callable[[_Response], float]) -> _Response:
    """Return a response of the same shape that leaves less, by the simplex method of Nelder and Mead."""

    def at(point: Float64s) -> _Response:
        return replace(response, lag_s=float(point[0]) * refresh_s, averaging_s=math.exp(float(point[1])))

    def left_at(point: Float64s) -> float:
        return left(at(point))

    if not math.isfinite(left(response)):
        return response
    start = np.array([response.lag_s / refresh_s, math.log(response.averaging_s)])
    simplex = start + np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.15]])
    found = fmin(
        left_at,
        start,
        xtol=0.005,
        ftol=0.0,
        maxfun=SETTINGS.refinements,
        initial_simplex=simplex,
        disp=False,
    )
    return min((response, at(np.asarray(found))), key=left)


def _left_w2(equations: _Equations) -> float:
    """Return the mean square of what a response does not explain of the readings, W^2."""
    if equations.count < SETTINGS.needed_readings:
        return math.inf
    ridge = SETTINGS.ridge * equations.count * np.eye(len(equations.gram))
    powers_w = np.asarray(np.linalg.solve(equations.gram + ridge, equations.side_w), dtype=np.float64)
    return equations.left_w2(powers_w) / equations.count


def _prior(equations: _Equations, kernels: int, known: Mapping[int, Expected]) -> _Prior:
    """Return what the readings say of all kernels together, as what is thought of each."""
    power_w, (count, width) = equations.power_w, (equations.count, len(equations.gram))
    is_kernel = np.arange(width) < kernels
    together: Float64s = np.column_stack((is_kernel.astype(np.float64), np.eye(width)[:, kernels:]))
    no_prior = _Prior(np.zeros(3), np.zeros(3), np.zeros(3))
    gram, side_w = together.T @ equations.gram @ together, together.T @ equations.side_w
    all_w = _solve(gram, side_w, no_prior, no_prior.mean_w)[0]
    half_w = max((all_w - float(np.min(power_w))) / 2, SETTINGS.prior_spread * all_w, 1e-3)
    mean_w = np.where(is_kernel, all_w, SETTINGS.prior_idle * all_w)
    spread_w = np.where(is_kernel, half_w, SETTINGS.prior_idle * all_w + 1e-3)
    for column, names in enumerate(equations.names):
        if len(names) == 1 and names[0] in known:
            mean_w[column] = known[names[0]].power_w
            spread_w[column] = max(known[names[0]].error_w / COVERAGE_FACTOR, 1e-3)
    # The noise is what is left with a weak prior; that sets the weight of the prior.
    weak = _Prior(mean_w, spread_w, np.full(width, SETTINGS.ridge * count))
    left_w2 = equations.left_w2(_solve(equations.gram, equations.side_w, weak, mean_w))
    # A model of the sensor is never exact: its error does not show where a program repeats itself.
    noise = left_w2 / max(count - width, count // 4) + (SETTINGS.model_error * float(power_w.mean())) ** 2
    weight = noise / spread_w**2
    return _Prior(mean_w, spread_w, weight, math.sqrt(noise))


def _solve(gram: Float64s, side: Float64s, prior: _Prior, mean_w: Float64s) -> Float64s:
    """Solve non-negative least squares with a prior from the normal equations."""
    full, right = gram + np.diag(prior.weight), side + prior.weight * mean_w
    root = np.linalg.cholesky(full + 1e-12 * full.max() * np.eye(len(full)))
    solved: Float64s = nnls(root.T, np.linalg.solve(root, right))[0]
    return solved


def _resampled(equations: _Equations, prior: _Prior, resamples: int) -> Float64s:
    """Return the powers over resampled blocks of readings, shape (resamples, columns)."""
    blocks, width = equations.sides_w.shape
    chance = np.random.default_rng(0)
    draws = np.empty((resamples, width))
    for i in range(resamples):
        times = np.bincount(chance.integers(0, blocks, blocks), minlength=blocks).astype(np.float64)
        mean_w = prior.mean_w + prior.spread_w * chance.standard_normal(width)
        gram = np.tensordot(times, equations.grams, 1)
        # Shares^T times an error of each reading has the variance noise^2 times the Gram matrix.
        values, vectors = np.linalg.eigh(gram)
        error = (vectors * np.sqrt(np.clip(values, 0, None))) @ chance.standard_normal(width)
        draws[i] = _solve(gram, times @ equations.sides_w + prior.noise_w * error, prior, mean_w)
    return draws


def _time_draws(
    design: _Equations, columns: Sequence[tuple[int, ...]], busy: BusyTime, draws: int
) -> Float64s:
    """Return times by chance over the estimated ones, shape (draws, columns): 1 where all was seen."""
    factor = np.ones((draws, len(design.time_s)))
    error_s = np.array([float(np.hypot.reduce(busy.error_s[list(names)])) for names in columns])
    if not error_s.any():
        return factor
    chance = np.random.default_rng(1)
    kernels = len(columns)
    off_s = error_s * chance.standard_normal((draws, kernels))
    own_s = np.clip(design.time_s[:kernels] + off_s, 0.0, None)
    factor[:, :kernels] = own_s / np.maximum(design.time_s[:kernels], 1e-12)
    # What kernels took, passed without one less.
    idle_s = float(design.time_s[kernels:].sum())
    left_s = idle_s + float(design.time_s[:kernels].sum()) - own_s.sum(axis=1)
    factor[:, kernels:] = np.clip(left_s / max(idle_s, 1e-12), 0.0, None)[:, None]
    return factor


def _grouped(draws_j: Float64s) -> list[list[int]]:
    """Return which columns are reported together, from draws of their energies, shape (draws, columns)."""
    groups = [[column] for column in range(draws_j.shape[1])]
    sums = draws_j.copy()
    while len(groups) > 1:
        low, high = np.percentile(sums, [2.5, 97.5], axis=0)
        half = (high - low) / 2 / np.maximum(np.median(sums, axis=0), 1e-12)
        worst = int(np.argmax(half))
        if half[worst] <= SETTINGS.widest_interval:
            break
        # What one name gains, the one that it is mixed up with loses.
        moved = sums - sums.mean(axis=0)
        likeness = moved.T @ moved[:, worst] / np.sqrt(np.maximum((moved**2).sum(axis=0), 1e-30))
        likeness[worst] = math.inf
        partner = int(np.argmin(likeness))
        first, second = min(worst, partner), max(worst, partner)
        groups[first] += groups.pop(second)
        sums[:, first] += sums[:, second]
        sums = np.delete(sums, second, 1)
    return groups


def _told(share: Share, readings: Readings, known: Mapping[int, Expected], names: Sequence[str]) -> Share:
    """Return a row with what a table expects, and without a number that the sensor cannot tell."""
    by_name = {names[i]: one for i, one in known.items()}
    if len(share.names) == 1 and share.names[0] in by_name:
        share = replace(share, expected_j=by_name[share.names[0]].power_w * share.time_s)
    if share.names == (NO_KERNEL,) or share.time_s >= SETTINGS.least_refreshes * readings.refresh_s:
        return share
    if math.isfinite(share.expected_j):
        return replace(share, method="the table's estimate, too short for the sensor")
    low_j, high_j = (power_w * share.time_s for power_w in _bounds_w(readings))
    bound_j = min(low_j, share.energy_j), max(high_j, share.energy_j)
    return replace(share, interval_j=bound_j, method="too short to tell, the interval is its bound")


def _scaled(
    design: _Equations, power_w: Float64s, draws_w: Float64s, energy_j: float, error_j: float
) -> _Fit:
    """Return powers with what makes their energies add up to the measured one."""

    def factor(powers: Float64s) -> Float64s:
        scale: Float64s = energy_j / np.maximum(powers @ design.time_s, 1e-12)
        return scale

    relative = error_j / energy_j if energy_j > 0 else 0.0
    return _Fit(power_w, draws_w, float(factor(power_w)), factor(draws_w), relative)


def _shares(
    design: _Equations,
    fit: _Fit,
    kernels: int,
    launches: Launches,
    busy: BusyTime,
    least_s: float,
) -> tuple[Share, ...]:
    draws_j = fit.draws_w * design.time_s * fit.scales[:, None]
    # Of a moment nothing can be told, so that it must not take a longer kernel into its group.
    long = np.flatnonzero(design.time_s[:kernels] >= least_s)
    short = np.flatnonzero(design.time_s[:kernels] < least_s)
    groups = [long[group].tolist() for group in _grouped(draws_j[:, long])] if len(long) else []
    rows = []
    for group in [*groups, *([column] for column in short.tolist())]:
        names = [name for column in group for name in design.names[column]]
        rows.append(
            Share(
                tuple(launches.names[name] for name in names),
                int(busy.calls[names].sum()),
                float(design.time_s[group].sum()),
                *fit.energy_j(group, design.time_s[group]),
                "regression" if len(names) == 1 else "regression, not separable",
            )
        )
    rows.sort(key=lambda row: -row.energy_j)
    idle = range(kernels, len(design.time_s))
    idle_s = design.time_s[kernels:]
    return (*rows, Share((NO_KERNEL,), 0, float(idle_s.sum()), *fit.energy_j(idle, idle_s), "regression"))


def _bounds_w(readings: Readings) -> tuple[float, float]:
    """Return the least and the most that the board can have drawn, W."""
    # It drew no less than its lowest reading, and no more than its limit or its highest one.
    highest_w = readings.limit_w if math.isfinite(readings.limit_w) else float(np.max(readings.power_w))
    return float(np.min(readings.power_w)), highest_w


def _members(
    share: Share, launches: Launches, busy: BusyTime, readings: Readings, known: Mapping[int, Expected]
) -> tuple[Share, ...]:
    """Return what each name of a group takes of its energy by time, the largest first; none of a single name.

    Powers within a group that the readings of one board seem to tell have nothing to do with those of another
    board in the same program. So the interval is all that the sum and the bounds of power allow. What a table
    expects of a name stands in the place of the mean power.
    """
    if len(share.names) == 1:
        return ()
    low_w, high_w = _bounds_w(readings)
    mean_w = share.energy_j / max(share.time_s, 1e-12)
    number = {text: i for i, text in enumerate(launches.names)}
    names = [number[text] for text in share.names]
    power_w = {name: known[name].power_w if name in known else mean_w for name in names}
    whole_j = sum(power_w[name] * float(busy.by_name_s[name]) for name in names)
    members = []
    for name in names:
        time_s = float(busy.by_name_s[name])
        energy_j = share.energy_j * power_w[name] * time_s / max(whole_j, 1e-12)
        others_s = share.time_s - time_s
        low_j = max(low_w * time_s, share.interval_j[0] - high_w * others_s)
        high_j = min(high_w * time_s, share.interval_j[1] - low_w * others_s)
        members.append(
            Share(
                (launches.names[name],),
                int(busy.calls[name]),
                time_s,
                energy_j,
                (min(low_j, energy_j), max(high_j, energy_j)),
                BY_TABLE if name in known else BY_TIME,
                known[name].power_w * time_s if name in known else math.nan,
            )
        )
    return tuple(sorted(members, key=lambda one: -one.energy_j))


def _range_share(ranges: Ranges, design: _Equations, fit: _Fit, busy: BusyTime, origin_ns: int) -> Share:
    """Return what a GPU drew within the ranges of one name."""
    start_s, end_s = ((side - origin_ns) / 1e9 for side in ranges.merged())
    in_kernels_s = busy.within(start_s, end_s)
    time_s = float((end_s - start_s).sum())
    idle_s = design.time_s[len(in_kernels_s) :]
    # Time without kernels has the run's mean power of such time.
    idle_share = idle_s / max(float(idle_s.sum()), 1e-12)
    times_s = np.append(in_kernels_s, max(time_s - float(in_kernels_s.sum()), 0.0) * idle_share)
    energy_j, interval_j = fit.energy_j(range(len(times_s)), times_s)
    return Share((ranges.name,), len(ranges), time_s, energy_j, interval_j, str(ranges.kind))


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

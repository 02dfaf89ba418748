"""Which kernel took how much of a GPU's energy: power readings regressed on busy time by kernel name.

Reading k is the mean power of an averaging window. With s_nk the share of that window in which kernel n ran
(overlapping kernels share, see `ptxbench.attribute.exposure`) and g_jk the share of idle kind j,

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
listed with their part of its energy, within bounds: by what a table or an earlier replay expects of them, and
by time of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ptxbench.attribute.equations import SETTINGS, Equations, Readings, equations_of
from ptxbench.attribute.exposure import ExposureMatrix
from ptxbench.attribute.launches import Launches
from ptxbench.attribute.powers import Expected, prior_of, resampled, solve
from ptxbench.attribute.ranges import Ranges
from ptxbench.attribute.response import responses
from ptxbench.sensors.trace import Float64s

NO_KERNEL, WHOLE_RUN = "(no kernel)", "(the whole run)"
# Times of kernels that share a board add up to no more than the run; estimates of what was not seen scatter.
_MOST_OF_LENGTH = 1.02
# How the energy of a group is split.
BY_TIME = "its group's energy by time, not measured"
BY_TABLE = "its group's energy by the table's estimates, not measured"
BY_REPLAY = "its group's energy by an earlier replay, not measured here"


def is_whole_run(names: Collection[str]) -> bool:
    """Return whether a row of these names is all of a run, which could not be separated."""
    return len(names) > 1 and NO_KERNEL in names


@dataclass(frozen=True)
class Share:
    """What one kernel name, a group of names, or the time without kernels took.

    Attributes:
        names: The kernel names; several where they cannot be told apart.
        calls: How often they ran; None for a kernel of a graph that is timed as a whole.
        time_s: Busy time, s; overlapping kernels share it.
        energy_j: Energy of the whole GPU in that time, J.
        interval_j: Its 95% interval, J; NaN where there is none.
        method: How it was found.
        expected_j: What a measured table expects, J; NaN where none was given or it does not know.
        members: Of names that cannot be told apart, or of a whole graph, what each kernel may have taken, the
            largest first; they add up to this share. In a graph their time holds the gaps between them.
    """

    names: tuple[str, ...]
    calls: int | None
    time_s: float
    energy_j: float
    interval_j: tuple[float, float]
    method: str
    expected_j: float = math.nan
    members: tuple[Share, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a run, which could not be separated."""
        return is_whole_run(self.names)


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
        expected: What a measured table expects, by kernel name; it is the prior of those. What an earlier
            replay measured is none: it only splits groups.
    """
    expected = expected or {}
    busy = ExposureMatrix(launches, origin_ns, unseen_ns, is_counted=is_counted)
    if not len(launches):
        interval = (energy_j - error_j, energy_j + error_j)
        return Attribution((Share((NO_KERNEL,), 0, length_s, energy_j, interval, "measured"),))
    if (busy_s := float(busy.by_name_s.sum())) > _MOST_OF_LENGTH * length_s:
        why = f"the times of kernels add up to {busy_s:.4g} s, more than the run: what each took is not known"
        return Attribution((_whole(launches, int(busy.calls.sum()), length_s, energy_j, error_j, why),))
    every = {i: expected[name] for i, name in enumerate(launches.names) if name in expected}
    known = {i: one for i, one in every.items() if not one.is_replayed}
    replayed = {name: one.kernels for name, one in expected.items() if one.kernels}
    least_s = SETTINGS.least_refreshes * readings.refresh_s
    columns = _columns(busy.by_name_s, least_s, known)
    busy.set_columns(columns)
    best, *others = responses(readings, busy, columns)
    design = equations_of(readings, busy, columns, length_s, best)
    if design.count < SETTINGS.needed_readings:
        is_short = len(readings.at_s) < SETTINGS.needed_readings
        what = (
            "run too short for the sensor" if is_short else "which kernels ran is known for too few readings"
        )
        why = f"{what}, not separable"
        return Attribution((_whole(launches, int(busy.calls.sum()), length_s, energy_j, error_j, why),))
    kernels = len(columns)
    prior = prior_of(design, kernels, known)
    fitted = solve(design.gram, design.side_w, prior, prior.mean_w)
    count = -(-SETTINGS.resamples // (1 + len(others)))
    # One response at a time: those of an hour and a hundred names fill the memory.
    alike = (equations_of(readings, busy, columns, length_s, response) for response in others)
    draws = np.concatenate([resampled(one, prior, count) for one in chain([design], alike)])
    draws *= _time_draws(design, columns, busy, len(draws))
    fit = _scaled(design, fitted, draws, energy_j, error_j)
    shares = tuple(
        replace(
            _told(share, readings, known, launches.names),
            members=_members(share, launches, busy, readings, expected, replayed),
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


def _time_draws(
    design: Equations, columns: Sequence[tuple[int, ...]], busy: ExposureMatrix, draws: int
) -> Float64s:
    """Return times by chance over the estimated ones, shape (draws, columns): 1 where all was seen."""
    factor = np.ones((draws, len(design.time_s)))
    error_s = np.array([float(np.hypot.reduce(busy.error_s[list(names)])) for names in columns])
    if not error_s.any():
        return factor
    rng = np.random.default_rng(1)
    kernels = len(columns)
    off_s = error_s * rng.standard_normal((draws, kernels))
    own_s = np.clip(design.time_s[:kernels] + off_s, 0.0, None)
    factor[:, :kernels] = own_s / np.maximum(design.time_s[:kernels], 1e-12)
    # What kernels took, passed without one less.
    idle_s = float(design.time_s[kernels:].sum())
    left_s = idle_s + float(design.time_s[:kernels].sum()) - own_s.sum(axis=1)
    factor[:, kernels:] = np.clip(left_s / max(idle_s, 1e-12), 0.0, None)[:, None]
    return factor


def grouped(draws_j: Float64s) -> list[list[int]]:
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


def _scaled(design: Equations, power_w: Float64s, draws_w: Float64s, energy_j: float, error_j: float) -> _Fit:
    """Return powers with what makes their energies add up to the measured one."""

    def factor(powers: Float64s) -> Float64s:
        scale: Float64s = energy_j / np.maximum(powers @ design.time_s, 1e-12)
        return scale

    relative = error_j / energy_j if energy_j > 0 else 0.0
    return _Fit(power_w, draws_w, float(factor(power_w)), factor(draws_w), relative)


def _shares(
    design: Equations,
    fit: _Fit,
    kernels: int,
    launches: Launches,
    busy: ExposureMatrix,
    least_s: float,
) -> tuple[Share, ...]:
    draws_j = fit.draws_w * design.time_s * fit.scales[:, None]
    # Of a moment nothing can be told, so that it must not take a longer kernel into its group.
    long = np.flatnonzero(design.time_s[:kernels] >= least_s)
    short = np.flatnonzero(design.time_s[:kernels] < least_s)
    groups = [long[group].tolist() for group in grouped(draws_j[:, long])] if len(long) else []
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
    share: Share,
    launches: Launches,
    busy: ExposureMatrix,
    readings: Readings,
    known: Mapping[str, Expected],
    graphs: Mapping[str, Mapping[str, float]],
) -> tuple[Share, ...]:
    """Return what each kernel of a group takes of its energy, the largest first; none of a single one.

    Powers within a group that the readings of one board seem to tell have nothing to do with those of another
    board in the same program. So a name has what a table or a replay expects of it, and the others by time
    what is left; all is scaled to the sum. The interval is all that the sum and the bounds of power allow; of
    a name of which something is expected, those are its error and what the scale changed.
    """
    if len(share.names) == 1 and share.names[0] not in graphs:
        return ()
    number = {text: i for i, text in enumerate(launches.names)}
    calls: dict[str, int] = {}
    times_s: dict[str, float] = {}
    # How often each runs in one graph is not known.
    uncounted = {name for text in share.names for name in graphs.get(text, ())}
    for text in share.names:
        for name, part in graphs.get(text, {text: 1.0}).items():
            calls[name] = calls.get(name, 0) + int(busy.calls[number[text]])
            times_s[name] = times_s.get(name, 0.0) + part * float(busy.by_name_s[number[text]])
    names, time_s = list(times_s), np.array(list(times_s.values()))
    low_w, high_w = (np.full(len(names), bound_w) for bound_w in _bounds_w(readings))
    is_known = np.array([name in known for name in names])
    power_w = np.array([known[name].power_w if name in known else 0.0 for name in names])
    left_w = (share.energy_j - float(power_w @ time_s)) / max(float(time_s[~is_known].sum()), 1e-12)
    power_w[~is_known] = np.clip(left_w, low_w[~is_known], high_w[~is_known])
    scale = share.energy_j / max(float(power_w @ time_s), 1e-12)
    error_w = np.array([known[name].error_w if name in known else 0.0 for name in names])
    error_w += abs(scale - 1) * power_w
    low_w[is_known] = np.clip(power_w - error_w, 0.0, None)[is_known]
    high_w[is_known] = (power_w + error_w)[is_known]
    energy_j, least_j, most_j = (one * time_s for one in (scale * power_w, low_w, high_w))
    low_j = np.maximum(least_j, share.interval_j[0] - (most_j.sum() - most_j))
    high_j = np.minimum(most_j, share.interval_j[1] - (least_j.sum() - least_j))
    members = [
        Share(
            (name,),
            None if name in uncounted else calls[name],
            float(time_s[i]),
            float(energy_j[i]),
            (float(min(low_j[i], energy_j[i])), float(max(high_j[i], energy_j[i]))),
            _split_by(known.get(name)),
            _expected_j(known.get(name), float(time_s[i])),
        )
        for i, name in enumerate(names)
    ]
    return tuple(sorted(members, key=lambda one: -one.energy_j))


def _split_by(expected: Expected | None) -> str:
    if expected is None:
        return BY_TIME
    return BY_REPLAY if expected.is_replayed else BY_TABLE


def _expected_j(expected: Expected | None, time_s: float) -> float:
    """Return what a table expects, J; NaN where it is none."""
    return math.nan if expected is None or expected.is_replayed else expected.power_w * time_s


def _range_share(ranges: Ranges, design: Equations, fit: _Fit, busy: ExposureMatrix, origin_ns: int) -> Share:
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


def _whole(
    launches: Launches, calls: int, length_s: float, energy_j: float, error_j: float, method: str
) -> Share:
    """Return one row for all of a run that cannot be separated, for the reason that `method` says."""
    interval = (energy_j - error_j, energy_j + error_j)
    return Share((*launches.names, NO_KERNEL), calls, length_s, energy_j, interval, method)

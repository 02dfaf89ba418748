"""Show the levels of the supply voltage that a run met, and what taking them out does to the scatter.

    python studies/h200/supply_levels.py results/nvidia-h200/full-other-board --plot levels.png

Prints, by assembler level, how much the power of one and the same kernel scatters from round to round: as it
was measured and at one level of the supply; and what the dips of the clock say of it. Then how long a level
lasted, how far the levels are apart, what they leave open, and at what temperatures they changed. `--plot`
draws each trial's power against that of its kernel, over time and over temperature. Exit codes are those of
`ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from ptxbench.analysis.drift_fit import STRETCH
from ptxbench.analysis.loop_energy import RunCalibration, shared_by
from ptxbench.analysis.operating_point import kernel_of
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.report.figure import new_figure, require_picture, save, title
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TrialRecord

# Median of the absolute deviation of a normal distribution, in standard deviations.
_NORMAL_MAD = 0.6745
_PERCENT = 100.0
_DRAWN_S = 120.0
# A step is a change by half of what levels are apart, between trials that follow at once.
_STEP = 0.006
_AT_ONCE_S = 2.5


@dataclass(frozen=True)
class Stretches:
    """How long levels lasted.

    Attributes:
        lengths: Trials in each stretch at one level, shape (n,).
        steps: Change of the level from each to the next, a fraction of the power that the supply feeds.
    """

    lengths: tuple[int, ...]
    steps: tuple[float, ...]


@dataclass(frozen=True)
class Warmth:
    """How the level goes with the temperature.

    Attributes:
        warmer: Mean level of the warmer half of the trials over that of the cooler half, a fraction.
        up_c: Temperature of the first trial behind each step up, shape (n,), degrees Celsius.
        down_c: The same of each step down.
    """

    warmer: float
    up_c: tuple[float, ...]
    down_c: tuple[float, ...]


def main() -> int:
    """Find the levels, print, draw, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder with rows of the dynamic protocol")
    parser.add_argument("--plot", type=Path, help="picture to write (.png, .svg, .pdf)")
    arguments = parser.parse_args()
    if arguments.plot is not None:
        require_picture(arguments.plot)
    with RunFolder.open(arguments.run) as folder:
        info, records = folder.manifest.gpu, folder.records()
    trials = valid(records)
    if not trials:
        raise InputError(f"{arguments.run} has no kernel with two valid rounds of the dynamic protocol")
    common = shared_by(records, info)
    for line in describe(trials, common):
        print(line)
    if arguments.plot is not None:
        draw(trials, common, info, arguments.plot)
    return 0


def valid(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the valid trials of kernels that have two, in the order of time, but for the sleeping kernel."""
    good = [
        r
        for r in records
        if r.protocol == DYNAMIC
        and r.repeat >= 0
        and r.status is Status.OK
        and r.role is not Role.STATIC
        and math.isfinite(r.steady_power_w)
    ]
    often: dict[str, int] = defaultdict(int)
    for record in good:
        often[kernel_of(record)] += 1
    return sorted((r for r in good if often[kernel_of(r)] > 1), key=lambda r: r.start_ns)


def describe(trials: Sequence[TrialRecord], common: RunCalibration) -> list[str]:
    """Return sentences on the scatter and on the levels."""
    drift, dipped = common.drift, common.dipped
    measured_w = leakage_free(common, lambda r: r.steady_power_w)
    told_w = leakage_free(common, drift.power_w)
    lines = []
    for level in OptLevel:
        mine = [r for r in trials if r.opt_level is level]
        if not mine:
            continue
        n = sum(r.trial_id in dipped for r in mine)
        off = (
            f" (of these {drift.off_by_dip[level]:.0%} more are off than of others)"
            if n and level in drift.off_by_dip
            else ""
        )
        unsure = sum(r.trial_id in drift.unsure for r in mine)
        lines.append(
            f"-{level}: {len(mine)} trials, in {n / len(mine):.0%} of which the clock dipped{off}; scatter of"
            f" a kernel's power {scatter_pct(mine, measured_w, ()):.2f}% as measured,"
            f" {scatter_pct(mine, told_w, drift.unsure):.2f}% at one level of the supply, without the"
            f" {unsure / len(mine):.0%} at none that is sure"
        )
    if drift.covariance is None:
        return [*lines, "no steps of the supply: the trials are explained as well without"]
    found = stretches(trials, common)
    errors = _PERCENT * np.array([drift.error({kernel: 1.0}) for kernel in {kernel_of(r) for r in trials}])
    steps = _PERCENT * np.abs(found.steps)
    lines.append(
        f"levels: {len(found.lengths)} stretches, of {np.median(found.lengths):.0f} trials at the median and"
        f" {max(found.lengths)} at most; from one to the next {np.median(steps):.2f}% of what the supply"
        f" feeds (all but {drift.unfed_w:.0f} W); scatter {_PERCENT * drift.covariance.spread:.2f}%"
    )
    lines.append(
        f"left open: {_PERCENT * drift.level_error:.2f}% of the run's mean level; of a kernel's"
        f" {np.median(errors):.2f}% at the median, {np.percentile(errors, 95):.2f}% at the 95th percentile"
    )
    warm = warmth(trials, common)
    lines.append(
        f"by temperature: the warmer half of the trials is {_PERCENT * warm.warmer:+.2f}% over the"
        f" cooler; steps up: {_temperatures(warm.up_c)}; steps down: {_temperatures(warm.down_c)}"
        " (10th to 90th percentile)"
    )
    return lines


def _temperatures(at_c: Sequence[float]) -> str:
    if not at_c:
        return "none"
    low_c, middle_c, high_c = np.percentile(at_c, [10, 50, 90])
    return f"{len(at_c)} at {middle_c:.1f} C, {low_c:.1f} to {high_c:.1f}"


def leakage_free(
    common: RunCalibration, power_w: Callable[[TrialRecord], float]
) -> Callable[[TrialRecord], float]:
    """Return what gives a trial's power without what static power takes more or less at its temperature."""
    static = common.static
    base_w = static.at(static.temperature_c)
    return lambda r: power_w(r) - (static.at(r.temperature_c, r.start_ns) - base_w)


def scatter_pct(
    trials: Sequence[TrialRecord], power_w: Callable[[TrialRecord], float], without: Collection[str]
) -> float:
    """Return the robust standard deviation of trials about their kernel's mean, percent of it."""
    groups: dict[str, list[float]] = defaultdict(list)
    for record in trials:
        if record.trial_id not in without:
            groups[kernel_of(record)].append(power_w(record))
    away = [
        (np.array(powers) / np.mean(powers) - 1) * math.sqrt(len(powers) / (len(powers) - 1))
        for powers in groups.values()
        if len(powers) > 1
    ]
    return float(_PERCENT * np.median(np.abs(np.concatenate(away))) / _NORMAL_MAD) if away else math.nan


def at_sure_level(trials: Sequence[TrialRecord], common: RunCalibration) -> list[TrialRecord]:
    """Return the trials of which the level is sure."""
    drift = common.drift
    return [r for r in trials if r.trial_id in drift.level and r.trial_id not in drift.unsure]


def stretches(trials: Sequence[TrialRecord], common: RunCalibration) -> Stretches:
    """Return how long levels lasted, by the trials at a level that is sure."""
    sure = [common.drift.level[r.trial_id] for r in at_sure_level(trials, common)]
    cuts = [n for n, (a, b) in enumerate(pairwise(sure), 1) if abs(b - a) > STRETCH]
    ends = [0, *cuts, len(sure)]
    means = [float(np.mean(sure[a:b])) for a, b in pairwise(ends)]
    return Stretches(tuple(b - a for a, b in pairwise(ends)), tuple(b - a for a, b in pairwise(means)))


def warmth(trials: Sequence[TrialRecord], common: RunCalibration) -> Warmth:
    """Return how the level goes with the temperature, by the trials at a level that is sure."""
    sure = [r for r in at_sure_level(trials, common) if math.isfinite(r.temperature_c)]
    level = np.array([common.drift.level[r.trial_id] for r in sure])
    temperature_c = np.array([r.temperature_c for r in sure])
    warm = temperature_c > np.median(temperature_c)
    at_once = np.diff([r.start_ns for r in sure]) < _AT_ONCE_S * 1e9
    change = np.diff(level)
    up = 1 + np.flatnonzero((change > _STEP) & at_once)
    down = 1 + np.flatnonzero((change < -_STEP) & at_once)
    warmer = float(level[warm].mean() - level[~warm].mean()) if warm.any() else math.nan
    return Warmth(warmer, tuple(temperature_c[up]), tuple(temperature_c[down]))


def draw(trials: Sequence[TrialRecord], common: RunCalibration, info: GpuInfo, path: Path) -> None:
    """Draw each trial's power against its kernel's, and the level that the other trials tell.

    Of a long run the two minutes are drawn in which levels differ most; below, all trials by temperature.

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    measured_w = leakage_free(common, lambda r: r.steady_power_w)
    told_w = leakage_free(common, common.drift.power_w)
    aside = common.drift.unsure
    own: dict[str, list[float]] = defaultdict(list)
    for r in trials:
        if r.trial_id not in aside:
            own[kernel_of(r)].append(told_w(r))
    shown = [r for r in trials if own[kernel_of(r)]]
    time_s = np.array([r.start_ns - shown[0].start_ns for r in shown]) / 1e9
    look = np.array([_PERCENT * (measured_w(r) / np.mean(own[kernel_of(r)]) - 1) for r in shown])
    level = np.array([_PERCENT * (r.steady_power_w / common.drift.power_w(r) - 1) for r in shown])
    sure = np.array([r.trial_id not in aside for r in shown])
    figure = new_figure(9, 6.4)
    axes, by_temperature = figure.subplots(2)
    begin_s = max(time_s, key=lambda t: float(level[(time_s >= t) & (time_s <= t + _DRAWN_S)].std()))
    seen = (time_s >= begin_s) & (time_s <= begin_s + _DRAWN_S)
    axes.plot(time_s[seen], level[seen], color="#c3c7ce", linewidth=3, label="level by the other trials")
    axes.plot(time_s[seen & sure], look[seen & sure], "o", color="#2f6fb0", markersize=3, label="a trial")
    axes.plot(time_s[seen & ~sure], look[seen & ~sure], "x", color="#b0552f", markersize=4, label="set aside")
    axes.set_ylim(-4, 4)
    axes.set_xlabel("time, s")
    axes.set_ylabel("power over its kernel's mean, %")
    axes.legend(loc="upper right", ncols=3)
    temperature_c = np.array([r.temperature_c for r in shown])
    by_temperature.plot(temperature_c[sure], look[sure], "o", color="#2f6fb0", markersize=2)
    by_temperature.set_ylim(-2.5, 2.5)
    by_temperature.set_xlabel("temperature while the kernel ran, C")
    by_temperature.set_ylabel("power over its kernel's mean, %")
    figure.suptitle(title(info))
    save(figure, path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"supply_levels: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

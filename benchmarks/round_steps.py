"""Look for steps in the power of one and the same kernel from round to round of a run.

    python benchmarks/round_steps.py results/nvidia-h200/full --plot docs/images/h200_round_steps.png

For each two successive rounds of a kernel: by how much its dynamic power (steady power less the static power
at its temperature) changed, whether both ran at the full SM clock, and whether the chip was hotter. Prints
the shares by size of the change; `--plot` draws them. Then the same for those rounds alone in which a kernel
at the full clock stood between a hotter one before and a colder one behind it (from hot to cold), and the
other way round. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from ptxbench.errors import InputError, PtxbenchError
from ptxbench.gpu.protocol import GpuInfo, OptLevel
from ptxbench.measure.static import fit_static
from ptxbench.report.figure import new_figure, require_picture, save, title
from ptxbench.status import Status
from ptxbench.store.run_folder import RunFolder
from ptxbench.store.schema import Protocol, Role, TrialRecord

# A mean clock further below the maximum means that the clock was lower for a part of the kernel.
FULL_CLOCK_MHZ = 0.1
# With less dynamic power, the scatter of the sleeping trials alone (0.25 W on an H200) is over 0.5%.
MIN_DYNAMIC_W = 50.0
# Changes in percent: none, then what lies about 1.7% and 3.3%, with the gaps between them.
BANDS_PCT = (0.0, 0.6, 1.2, 2.4, 4.0, math.inf)
_SMALL_PCT, _STEP_PCT = BANDS_PCT[1], BANDS_PCT[2]
_WARMER_C = 0.1
# An H200 behaves unlike below, between and above these powers.
SWEEP_BANDS_W = (0.0, 300.0, 430.0, math.inf)
_BINS_PCT = np.arange(0.0, 4.01, 0.1)
_PERCENT = 100.0


@dataclass(frozen=True)
class Change:
    """Two successive rounds of one kernel.

    Attributes:
        opt_level: Assembler level.
        percent: Change of the dynamic power, percent of the first round's.
        warmer_c: Change of the temperature, degrees C.
        below_clock: How many of the two (0, 1, 2) had a mean SM clock below the GPU's maximum.
        low_minus_full_pct: Where just one had: its dynamic power against the other's, percent; else NaN.
    """

    opt_level: OptLevel
    percent: float
    warmer_c: float
    below_clock: int
    low_minus_full_pct: float


def main() -> int:
    """Find the changes, print, draw, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder with rows of the dynamic protocol")
    parser.add_argument("--plot", type=Path, help="picture to write (.png, .svg, .pdf)")
    arguments = parser.parse_args()
    if arguments.plot is not None:
        require_picture(arguments.plot)
    with RunFolder.open(arguments.run) as folder:
        info = folder.manifest.gpu
        records = folder.records()
        found = changes(records, info.max_sm_clock_mhz)
    if not found:
        raise InputError(f"{arguments.run} has no kernel with two valid rounds of the dynamic protocol")
    print(f"{title(info)}: successive rounds of one kernel with over {MIN_DYNAMIC_W:g} W of dynamic power")
    for level in OptLevel:
        for line in describe([c for c in found if c.opt_level is level]):
            print(f"-{level}: {line}")
        for line in describe_sweeps([r for r in records if r.opt_level is level], info.max_sm_clock_mhz):
            print(f"-{level}: {line}")
    if arguments.plot is not None:
        draw(found, info, arguments.plot)
    return 0


def changes(records: Iterable[TrialRecord], max_clock_mhz: float) -> list[Change]:
    """Return every change between two successive rounds of a kernel of the dynamic protocol.

    Args:
        records: All trials of a run; the sleeping ones give the static power.
        max_clock_mhz: SM clock of a kernel that is held back by nothing.
    """
    return [_change(*pair) for of_kernel in _rounds(records, max_clock_mhz) for pair in pairwise(of_kernel)]


@dataclass(frozen=True)
class _Round:
    """One round of a kernel; `trend` is -1 from hot to cold, 1 from cold to hot, 0 where neither holds."""

    opt_level: OptLevel
    power_w: float
    dynamic_w: float
    temperature_c: float
    is_low: bool
    trend: int


def _rounds(records: Iterable[TrialRecord], max_clock_mhz: float) -> list[list[_Round]]:
    """Return the rounds of every kernel of the dynamic protocol, in their order."""
    kept = sorted(
        (r for r in records if r.protocol is Protocol.DYNAMIC and r.repeat >= 0), key=lambda r: r.order
    )
    static = fit_static(kept)
    trends = {b.trial_id: _trend(a, b, c) for a, b, c in zip(kept, kept[1:], kept[2:], strict=False)}
    rounds: dict[tuple[str, str, int], list[_Round]] = {}
    for r in kept:
        dynamic_w = r.steady_power_w - static.at(r.temperature_c)
        if r.role is not Role.STATIC and r.status is Status.OK and dynamic_w > MIN_DYNAMIC_W:
            is_low = r.sm_clock_mhz < max_clock_mhz - FULL_CLOCK_MHZ
            key = (r.trial_id.rpartition("/")[0], r.cubin_sha256, r.block)
            trend = trends.get(r.trial_id, 0)
            one = _Round(r.opt_level, r.steady_power_w, dynamic_w, r.temperature_c, is_low, trend)
            rounds.setdefault(key, []).append(one)
    return list(rounds.values())


def _trend(before: TrialRecord, record: TrialRecord, after: TrialRecord) -> int:
    powers = before.steady_power_w, record.steady_power_w, after.steady_power_w
    if powers[0] > powers[1] > powers[2]:
        return -1
    return int(powers[0] < powers[1] < powers[2])


def _change(first: _Round, second: _Round) -> Change:
    low_minus_full_pct = math.nan
    if first.is_low != second.is_low:
        low, full = (first, second) if first.is_low else (second, first)
        low_minus_full_pct = _PERCENT * (low.dynamic_w / full.dynamic_w - 1)
    return Change(
        first.opt_level,
        _PERCENT * (second.dynamic_w / first.dynamic_w - 1),
        second.temperature_c - first.temperature_c,
        first.is_low + second.is_low,
        low_minus_full_pct,
    )


def describe(found: Sequence[Change]) -> list[str]:
    """Return sentences on the changes of one level: shares by size, direction, clock."""
    lines = []
    for text, pairs in (
        ("both at the full clock", [c for c in found if c.below_clock == 0]),
        ("one or both below it", [c for c in found if c.below_clock > 0]),
    ):
        if not pairs:
            continue
        size = np.abs([c.percent for c in pairs])
        bands = pairwise(BANDS_PCT)
        shares = ", ".join(
            f"{_band(low, up)} {np.mean((size >= low) & (size < up)):.0%}" for low, up in bands
        )
        lines.append(f"{len(pairs)} pairs, {text}: median {np.median(size):.2f}%; {shares}")
    steps = [c for c in found if abs(c.percent) >= _STEP_PCT and abs(c.warmer_c) >= _WARMER_C]
    along = sum((c.percent > 0) == (c.warmer_c > 0) for c in steps)
    lines.append(f"of {len(steps)} changes over {_STEP_PCT:g}%, {along} go the way of the temperature")
    for text, pairs in (
        (
            f"of under {_SMALL_PCT:g}%",
            [c for c in found if c.below_clock == 0 and abs(c.percent) < _SMALL_PCT],
        ),
        ("of any size", [c for c in found if c.below_clock == 0]),
    ):
        if np.ptp([c.warmer_c for c in pairs] or [0.0]) > 0:
            slope = np.polyfit([c.warmer_c for c in pairs], [c.percent for c in pairs], 1)[0]
            lines.append(
                f"changes {text} at the full clock, against the temperature: {slope:+.3f}% a degree C"
            )
    odd = [c.low_minus_full_pct for c in found if c.below_clock == 1]
    if odd:
        lines.append(
            f"a round below the full clock against one at it: median {np.median(odd):+.2f}% ({len(odd)})"
        )
    return lines


def describe_sweeps(records: Iterable[TrialRecord], max_clock_mhz: float) -> list[str]:
    """Return sentences on the rounds at the full clock within a sweep of falling, or rising, power."""
    kernels = _rounds(records, max_clock_mhz)
    lines = []
    for trend, words in ((-1, "from hot to cold"), (1, "from cold to hot")):
        for low_w, up_w in pairwise(SWEEP_BANDS_W):
            size = np.array(
                [
                    abs(_change(*pair).percent)
                    for rounds in kernels
                    if low_w <= np.mean([r.power_w for r in rounds]) < up_w
                    for pair in pairwise([r for r in rounds if r.trend == trend and not r.is_low])
                ]
            )
            if len(size):
                lines.append(
                    f"{len(size)} pairs at the full clock {words}, {_band(low_w, up_w, ' W')}: "
                    f"median {np.median(size):.2f}%; under {_SMALL_PCT:g}% {np.mean(size < _SMALL_PCT):.0%}"
                )
    return lines


def _band(low: float, up: float, unit: str = "%") -> str:
    return f"{low:g} to {up:g}{unit}" if math.isfinite(up) else f"over {low:g}{unit}"


def draw(found: Sequence[Change], info: GpuInfo, path: Path) -> None:
    """Draw how often a change of each size comes, one panel a level.

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(9, 3.2)
    for axes, level in zip(figure.subplots(1, 2), OptLevel, strict=True):
        sizes = [
            [abs(c.percent) for c in found if c.opt_level is level and (c.below_clock > 0) is low]
            for low in (False, True)
        ]
        axes.hist(
            sizes,
            bins=_BINS_PCT,
            stacked=True,
            color=["#2f6fb0", "#c3c7ce"],
            label=["both at the full SM clock", "one or both below it"],
        )
        axes.set_title(f"-{level}", loc="left")
        axes.set_xlabel("change of dynamic power between two rounds, %")
        axes.set_ylabel("pairs of rounds")
        axes.legend()
    figure.suptitle(title(info))
    save(figure, path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"round_steps: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

"""The pictures of Choi and Vuduc (2012): roofline and arch line, power, energy by part, green-up, cloud."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ptxbench.experiment.roofline.point import MeasuredPoint
from ptxbench.experiment.roofline.result import RooflineResult, fitted_machine
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.power_capping import LimitedRun, trade_under_limit, under_limit
from ptxbench.model.roofline.tradeoff import Case, TradeOff
from ptxbench.report.figure import new_figure, save_pages, title

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ptxbench.report.roofline_kernels import PlacedKernel

_DARK, _ENERGY, _BYTES, _CONSTANT = "#222222", "#2f6fb0", "#c46a1b", "#999999"
_GRID = 241
_PICTURES = 5
# Of a cloud of trades: intensities, and factors on flops and bytes.
_TRADES, _MOST_FACTOR = 7, 16.0
_OF_CASE = {
    Case.BOTH_MEMORY: ("#c46a1b", "both bound by memory"),
    Case.MEMORY_TO_COMPUTE: ("#2f6fb0", "memory, then compute"),
    Case.BOTH_COMPUTE: ("#5a9e4b", "both bound by compute"),
}
# Kernels of other intensities, flop/byte, are not drawn: they would make the picture wide.
_SHOWN = (1 / 64, 8192.0)
Floats = npt.NDArray[np.float64]


def plot_roofline(
    results: Sequence[RooflineResult], path: Path, placed: Sequence[PlacedKernel] = ()
) -> tuple[Path, ...]:
    """Draw one page for each kind of flop and memory level, with a column for each run that has them.

    Args:
        results: What runs say.
        path: Picture to write; its ending says the format (.png, .svg, .pdf).
        placed: Kernels of others on the roofline of the first run.

    Returns:
        The files.

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    pages = dict.fromkeys((one.kind, one.level) for result in results for one in result.machines)
    return save_pages([_page(results, kind, level, placed) for kind, level in pages], path)


def _page(results: Sequence[RooflineResult], kind: str, level: str, placed: Sequence[PlacedKernel]) -> Figure:
    chosen = [r for r in results if any((m.kind, m.level) == (kind, level) for m in r.machines)]
    if len(chosen) == 1:
        figure = new_figure(15, 8)
        columns = [figure.subplots(2, 3).flatten()]
        columns[0][_PICTURES].axis("off")
    else:
        figure = new_figure(5.5 * len(chosen), 18.75)
        columns = list(figure.subplots(_PICTURES, len(chosen), sharey="row").T)
    for result, axes in zip(chosen, columns, strict=True):
        on_it = [k for k in placed if level == "dram" and result is results[0] and _is_drawn(k, kind)]
        points = _draw_column(axes, result, kind, level, on_it)
        if len(chosen) > 1:
            axes[0].set_title(
                f"{title(result.gpu)}, {points[0].kernel.sms} SMs", fontsize=9, parse_math=False
            )
    heading = f"{kind}, {level}, operands {chosen[0].pattern}"
    if len(chosen) == 1:
        heading = f"{title(chosen[0].gpu)}\n{heading}, {points[0].kernel.sms} SMs"
    figure.suptitle(heading, fontsize=10, parse_math=False)
    return figure


def _is_drawn(one: PlacedKernel, kind: str) -> bool:
    """Return whether a kernel is of a page: its flops are, and its intensity is near the others'."""
    low, high = _SHOWN
    return one.kind == kind and low <= one.intensity <= high


def _draw_column(
    axes: Sequence[Axes], result: RooflineResult, kind: str, level: str, placed: Sequence[PlacedKernel]
) -> list[MeasuredPoint]:
    """Draw the five pictures of one run; return the points that are shown, on the most SMs."""
    machine, _ = fitted_machine(result, kind, level)
    points = [p for p in result.points if (p.kernel.kind, p.kernel.level) == (kind, level)]
    whole = max(p.kernel.sms for p in points)
    points = [p for p in points if p.kernel.sms == whole]
    seen = [p.kernel.intensity for p in points] + [k.intensity for k in placed]
    intensities = np.geomspace(min(1 / 8, *seen), max(512.0, *seen), _GRID)
    _draw_lines(axes[0], machine, points, intensities)
    _draw_placed(axes[0], machine, placed)
    _draw_power(axes[1], machine, points, intensities)
    _draw_parts(axes[2], replace(machine, cap_w=np.inf), intensities)
    _draw_greenup(axes[3], machine)
    _draw_cloud(axes[4], machine, on_chip=level != "dram")
    for one in axes[:3]:
        one.set_xscale("log", base=2)
        one.set_xlabel("intensity, flop/byte")
        balances = (
            ("B_tau", machine.time_balance, _DARK),
            ("half", machine.half_efficiency_intensity, _ENERGY),
        )
        for label, at, color in balances:
            one.axvline(at, color=color, linestyle=":", linewidth=1, label=label)
        one.grid(alpha=0.25)
        one.legend(fontsize=8, loc="lower right")
    return points


def _draw_placed(axes: Axes, machine: RooflineMachine, placed: Sequence[PlacedKernel]) -> None:
    """Draw the flops per joule of other kernels over the best."""
    if placed:
        best = 1e-9 / machine.full_flop_j
        axes.scatter(
            [k.intensity for k in placed],
            [k.gflops_per_w / best for k in placed],
            s=18,
            color=_BYTES,
            marker="D",
            label="kernels (energy)",
        )


def _limited(
    machine: RooflineMachine, points: Sequence[MeasuredPoint], intensities: Floats
) -> list[LimitedRun]:
    """Return how algorithms of some intensities run under the power limit."""
    on_chip = points[0].kernel.level != "dram"
    return [under_limit(machine, Algorithm(float(i), 1.0), on_chip=on_chip) for i in intensities]


def _draw_lines(
    axes: Axes, machine: RooflineMachine, points: list[MeasuredPoint], intensities: Floats
) -> None:
    """Draw speed and energy-efficiency over the highest of each (figures 2a and 4)."""
    free = replace(machine, cap_w=np.inf)
    axes.plot(intensities, [free.speed(i) for i in intensities], color=_DARK, label="roofline (time)")
    if np.isfinite(machine.cap_w):
        runs = _limited(machine, points, intensities)
        speeds = [i * machine.flop_s / run.time_s for i, run in zip(intensities, runs, strict=True)]
        axes.plot(intensities, speeds, color=_DARK, linestyle="--", label="under the limit")
    axes.plot(intensities, [free.efficiency(i) for i in intensities], color=_ENERGY, label="arch (energy)")
    for slowed, marker in ((False, "o"), (True, "x")):
        chosen = [p for p in points if p.slowed is slowed]
        x = [p.kernel.intensity for p in chosen]
        of = " slowed by the limit" if slowed else ""
        axes.scatter(x, [p.flops_per_s * machine.flop_s for p in chosen], s=16, color=_DARK, marker=marker)
        efficiency = [p.flops_per_s / p.power_w * machine.full_flop_j for p in chosen]
        axes.scatter(
            x, efficiency, s=16, color=_ENERGY, marker=marker, label=f"measured{of}" if chosen else None
        )
    axes.set_yscale("log", base=2)
    axes.set_ylabel("over the highest")


def _draw_power(
    axes: Axes, machine: RooflineMachine, points: list[MeasuredPoint], intensities: Floats
) -> None:
    """Draw mean power, with the limit and without (figures 2b and 5)."""
    free = replace(machine, cap_w=np.inf)
    axes.plot(intensities, [free.power_w(i) for i in intensities], color=_ENERGY, label="Eq. 7")
    if np.isfinite(machine.cap_w):
        capped = [run.power_w for run in _limited(machine, points, intensities)]
        axes.plot(intensities, capped, color=_BYTES, linestyle="--", label="under the limit")
    axes.scatter(
        [p.kernel.intensity for p in points],
        [p.power_w for p in points],
        s=16,
        color=_DARK,
        label="measured",
    )
    axes.set_ylim(bottom=0)
    axes.set_ylabel("power, W")


def _draw_parts(axes: Axes, machine: RooflineMachine, intensities: Floats) -> None:
    """Draw where the energy of a kernel goes (figure 8)."""
    shares = []
    for intensity in intensities:
        algorithm = Algorithm(float(intensity), 1.0)
        total = machine.energy_j(algorithm)
        flops, moved = algorithm.flops * machine.flop_j, algorithm.bytes_moved * machine.byte_j
        shares.append((flops / total, moved / total, 1 - (flops + moved) / total))
    colors = (_ENERGY, _BYTES, _CONSTANT)
    axes.stackplot(intensities, np.array(shares).T, labels=("flops", "bytes", "constant"), colors=colors)
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of the energy")


def _draw_greenup(axes: Axes, machine: RooflineMachine) -> None:
    """Draw which trade-offs save time and energy, from half the time balance on (section 6)."""
    from matplotlib.colors import ListedColormap

    intensity = machine.time_balance / 2
    factors = np.geomspace(1, 16, 161)
    regions = np.zeros((len(factors), len(factors)))
    for column, m in enumerate(map(float, factors)):
        faster, greener = gaining_factors(machine, intensity, m, list(map(float, factors)))
        regions[:faster, column] += 1
        regions[:greener, column] += 2
    colors = ["#eeeeee", "#e8c39a", "#a9c7e8", "#9ccf9c"]
    axes.pcolormesh(
        factors, factors, regions, cmap=ListedColormap(colors), vmin=-0.5, vmax=3.5, rasterized=True
    )
    names = ("neither", "faster only", "greener only", "faster and greener")
    for color, name in zip(colors, names, strict=True):
        axes.scatter([], [], color=color, marker="s", label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("m: bytes are divided by")
    axes.set_ylabel("f: flops are multiplied by")
    axes.set_title(f"baseline of {intensity:.3g} flop/byte (half of B_tau)", fontsize=9)
    axes.legend(fontsize=8, loc="upper left")


def gaining_factors(
    machine: RooflineMachine, intensity: float, m: float, factors: Sequence[float]
) -> tuple[int, int]:
    """Return with how many factors on the flops a trade saves time, and with how many energy.

    Args:
        machine: The machine.
        intensity: Of the baseline, flop per byte.
        m: What the bytes are divided by.
        factors: The factors, ascending.
    """

    def is_no_faster(f: float) -> bool:
        return TradeOff(machine, intensity, f, m).speedup <= 1

    def is_no_greener(f: float) -> bool:
        return TradeOff(machine, intensity, f, m).greenup <= 1

    # Speed-up and green-up fall as f grows.
    return bisect_left(factors, True, key=is_no_faster), bisect_left(factors, True, key=is_no_greener)


def _draw_cloud(axes: Axes, machine: RooflineMachine, *, on_chip: bool) -> None:
    """Draw speed-up and green-up of many trades, from a quarter of B_tau to the later balance (figure 8)."""
    low, high = machine.time_balance / 4, max(machine.energy_balance, 1.5 * machine.time_balance)
    factors = np.geomspace(1, _MOST_FACTOR, _TRADES)
    trades = [
        TradeOff(machine, float(intensity), float(f), float(m))
        for intensity in np.geomspace(low, high, _TRADES)
        for f in factors
        for m in factors
    ]
    for case, (color, name) in _OF_CASE.items():
        own = [trade for trade in trades if trade.case is case]
        axes.scatter([t.speedup for t in own], [t.greenup for t in own], s=12, color=color, label=name)
    if np.isfinite(machine.cap_w):
        limited = [trade_under_limit(trade, on_chip=on_chip) for trade in trades]
        x, y = [one.speedup for one in limited], [one.greenup for one in limited]
        axes.scatter(x, y, s=3, color=_DARK, label="under the power limit")
    for draw in (axes.axhline, axes.axvline):
        draw(1, color=_CONSTANT, linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("speed-up")
    axes.set_ylabel("green-up")
    axes.set_title(f"trades at {low:.3g} to {high:.3g} flop/byte, f and m up to {_MOST_FACTOR:g}", fontsize=9)
    axes.legend(fontsize=8, loc="upper left")

"""The table as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.report.figure import new_figure, save, title
from ptxbench.storage.schema import TableRow

_COLOURS = {OptLevel.O0: "#8a8f99", OptLevel.O3: "#2f6fb0"}
_MARKERS = {OptLevel.O0: "s", OptLevel.O3: "o"}
_ROW_HEIGHT_IN = 0.42


def plot_energies(rows: Sequence[TableRow], info: GpuInfo, path: Path) -> None:
    """Draw the dynamic energy of every instruction at each level, with its 95% interval.

    Args:
        rows: The run's rows; those without a dynamic energy are left out.
        info: The GPU, named in the title.
        path: Picture to write; its ending says the format (.png, .svg, .pdf).

    Raises:
        InputError: matplotlib is not installed, there is nothing to draw, or the file cannot be written.
    """
    shown = [r for r in rows if r.protocol == DYNAMIC and r.status is Status.OK]
    if not shown:
        raise InputError("nothing to plot: the run has no valid dynamic energy")
    names = sorted({r.instruction for r in shown}, key=lambda name: _largest_pj(shown, name))
    figure = new_figure(8, 1.2 + _ROW_HEIGHT_IN * len(names))
    from matplotlib.ticker import LogLocator

    axes = figure.subplots()
    for offset, level in ((0.12, OptLevel.O0), (-0.12, OptLevel.O3)):
        dots = [r for r in shown if r.opt_level is level]
        axes.errorbar(
            [r.dynamic_pj for r in dots],
            [names.index(r.instruction) - offset for r in dots],
            xerr=[r.dynamic_ci95_pj for r in dots],
            fmt=_MARKERS[level],
            markersize=7,
            capsize=3,
            color=_COLOURS[level],
            label=f"-{level}",
        )
    axes.set_yticks(range(len(names)), names, family="monospace")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    # Labels of all nine would run into each other.
    axes.xaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="minor", labelsize=8)
    axes.set_xlabel("dynamic energy, pJ a thread-instruction (whiskers: 95% interval)")
    axes.set_title(title(info), loc="left")
    axes.grid(which="both", alpha=0.25)
    axes.legend(loc="lower right")
    save(figure, path)


def _largest_pj(rows: Sequence[TableRow], name: str) -> float:
    return max(r.dynamic_pj for r in rows if r.instruction == name)

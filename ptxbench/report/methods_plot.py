"""Error of every method against the kernel's duration: one panel a source and load, one line a method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.report.figure import new_figure, save, title
from ptxbench.storage.methods_file import MethodPoint, MethodsFile

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_COLOURS = {
    "sma": "#8a8f99",
    "papi": "#c25b2e",
    "mtsm": "#b8952c",
    "collector": "#d45087",
    "median": "#2a9d8f",
    "difference": "#8ab17d",
    "capacitance": "#7a5195",
    "counter": "#4c8c4a",
    "corrected": "#2f6fb0",
}
_ASIDE = 1.06
_PANEL_IN = (3.6, 2.3)
# Errors under this are drawn to scale, larger ones by their logarithm.
_LINEAR_PCT = 5.0
_TICKS_PCT = (-100, -50, -20, -5, 0, 5, 20, 50, 100)


def plot_methods(found: MethodsFile, path: Path) -> None:
    """Draw bias and spread as measured (dots with whiskers), and the bias as predicted (lines).

    Args:
        found: The comparison.
        path: Picture to write; its ending chooses the format (.png, .svg, .pdf).

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    kinds = list(dict.fromkeys(point.kind for point in found.points))
    sources = list(dict.fromkeys(point.source for point in found.points))
    width_in, height_in = _PANEL_IN
    figure = new_figure(width_in * len(kinds), 0.6 + height_in * len(sources))
    panels = figure.subplots(len(sources), len(kinds), squeeze=False, sharex=True, sharey=True)
    for row, source in zip(panels, sources, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            here = [p for p in found.points if (p.source, p.kind) == (source, kind)]
            for method in dict.fromkeys(point.method for point in here):
                place = list(_COLOURS).index(method) - len(_COLOURS) // 2
                own = [point for point in here if point.method == method]
                draw_points(axes, own, _COLOURS[method], method, place)
            axes.axhline(0, color="0.6", lw=0.8, zorder=0)
            axes.grid(alpha=0.25)
            axes.set_title(f"{source}, {kind} power", fontsize="small")
        row[0].set_ylabel("error, %")
    panels[0][0].set_xscale("log")
    panels[0][0].set_yscale("symlog", linthresh=_LINEAR_PCT)
    panels[0][0].set_yticks(_TICKS_PCT, [f"{tick:+d}" if tick else "0" for tick in _TICKS_PCT])
    drawn: dict[str, Artist] = {}
    for axes in panels.flat:
        handles, labels = axes.get_legend_handles_labels()
        drawn.update(zip(labels, handles, strict=True))
    shown = [method for method in _COLOURS if method in drawn]
    figure.legend(
        [drawn[method] for method in shown],
        shown,
        loc="outside lower center",
        ncols=len(shown),
        fontsize="small",
    )
    for axes in panels[-1]:
        axes.set_xlabel("kernel duration, s")
    figure.suptitle(
        f"{title(found.gpu)}\ndots: measured; lines: predicted from the sensor", fontsize="medium"
    )
    save(figure, path)


def draw_points(
    axes: Axes, points: Sequence[MethodPoint], colour: str, label: str | None, place: int
) -> None:
    """Draw bias and spread of one way (dots with whiskers), and the bias as predicted (a line).

    Args:
        axes: Where.
        points: Its points.
        colour: Of all.
        label: In the legend; None: not there.
        place: How far aside, so that whiskers do not hide each other.
    """
    length_s = [point.duration_s for point in points]
    axes.plot(length_s, [point.predicted_pct for point in points], color=colour, lw=1)
    axes.errorbar(
        [value * _ASIDE**place for value in length_s],
        [point.bias_pct for point in points],
        yerr=[0.0 if math.isnan(point.spread_pct) else point.spread_pct for point in points],
        fmt="o",
        markersize=4,
        capsize=2,
        color=colour,
        label=label,
    )

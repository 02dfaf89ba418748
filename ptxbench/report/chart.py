"""A chart as data, which a page's script or matplotlib draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ptxbench.report.figure import new_figure
from ptxbench.report.web_page import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of the pages' style sheet, and what a picture on white has for them.
COLOURS = {"ink": "#222222", "run0": "#1c7c3c", "run1": "#c46a1b", "run3": "#b02f5f", "run4": "#2f6fb0"}
_INK = "ink"
# Area of a dot, and of a mark that stands out, in points squared.
_SMALL, _LARGE = 14, 80


@dataclass(frozen=True, kw_only=True)
class Series:
    """Marks or a line of one kind.

    Attributes:
        x: Where they are; NaN for none.
        y: Likewise.
        label: What the legend says; "" for nothing.
        names: What each mark is.
        colour: A key of `COLOURS`.
        mark: "o", "^", "v", "*", or "_"; "" for none.
        is_hollow: Whether only the edge of a mark has the colour.
        stands_out: Whether marks are large.
        line: "" for none, "-", or "steps-post".
        shades: A number for each mark, from which it has its colour; its scale is named `label`.
        low: Lower end of the error bar of each mark.
        high: Upper end.
        bars_along: The axis of the error bars.
    """

    x: Sequence[float]
    y: Sequence[float]
    label: str = ""
    names: Sequence[str] = ()
    colour: str = _INK
    mark: str = "o"
    is_hollow: bool = False
    stands_out: bool = False
    line: str = ""
    shades: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    bars_along: str = "y"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A pair of axes.

    Attributes:
        x_title: What the horizontal axis has, with its unit.
        y_title: What the vertical one has.
        series: What is drawn, the last on top.
        is_log: Whether both are logarithmic.
        x_names: Names at 0, 1 and so on instead of numbers.
        y_names: Likewise, from the top down.
        x_range: From where to where the horizontal axis reaches; none: where there are marks.
        x_rules: Where vertical lines stand.
        y_rules: Where horizontal lines stand.
    """

    x_title: str
    y_title: str
    series: Sequence[Series]
    is_log: bool = False
    x_names: Sequence[str] = ()
    y_names: Sequence[str] = ()
    x_range: tuple[float, float] | tuple[()] = ()
    x_rules: Sequence[float] = ()
    y_rules: Sequence[float] = ()


@dataclass(frozen=True)
class Chart:
    """Panels in rows below a caption.

    Attributes:
        caption: What is shown.
        gpu: Which GPU it is of, as a picture's title says it; a page says it once.
        rows: Panels, as many in every row; all have the legend of the first.
        size_in: Width and height of a picture, inches.
    """

    caption: str
    gpu: str
    rows: Sequence[Sequence[Panel]]
    size_in: tuple[float, float]


def as_figure(chart: Chart) -> Figure:
    """Return a chart as a figure of matplotlib.

    Raises:
        InputError: matplotlib is not installed.
    """
    figure = new_figure(*chart.size_in)
    grid = figure.subplots(len(chart.rows), len(chart.rows[0]), squeeze=False)
    for panels, row in zip(chart.rows, grid, strict=True):
        for panel, axes in zip(panels, row, strict=True):
            _draw(figure, axes, panel)
    heading = f"{chart.caption}\n{chart.gpu}"
    if len(figure.axes) == 1 or len(chart.rows[0]) == 1:
        figure.axes[0].set_title(heading, loc="left", fontsize=10)
    else:
        figure.suptitle(heading, fontsize=10)
    if any(one.label for one in chart.rows[0][0].series):
        figure.axes[0].legend(fontsize=7)
    return figure


def _draw(figure: Figure, axes: Axes, panel: Panel) -> None:
    if panel.is_log:
        _logarithmic(axes)
    for one in panel.series:
        _draw_series(figure, axes, one)
    for at in panel.x_rules:
        axes.axvline(at, color=COLOURS[_INK], lw=0.8, ls=":")
    for at in panel.y_rules:
        axes.axhline(at, color=COLOURS[_INK], lw=0.8, ls=":")
    if panel.x_names:
        axes.set_xticks(range(len(panel.x_names)), panel.x_names)
    if panel.y_names:
        axes.set_yticks(range(len(panel.y_names)), panel.y_names)
        axes.invert_yaxis()
    if panel.x_range:
        axes.set_xlim(*panel.x_range)
    axes.set_xlabel(panel.x_title)
    axes.set_ylabel(panel.y_title)
    axes.grid(which="both", alpha=0.25)


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import LogFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        # Both kinds of ticks, as the values often lie within one decade.
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))


def _draw_series(figure: Figure, axes: Axes, one: Series) -> None:
    colour = COLOURS[one.colour]
    size = _LARGE if one.stands_out or one.mark == "_" else _SMALL
    if one.shades:
        drawn = axes.scatter(one.x, one.y, c=one.shades, s=size, cmap="viridis")
        figure.colorbar(drawn, ax=axes, label=one.label)
        return
    if one.low:
        bars, at = (axes.vlines, one.x) if one.bars_along == "y" else (axes.hlines, one.y)
        # Without marks they are what is shown.
        bars(at, one.low, one.high, color=colour, lw=1.5 if one.mark else 5, alpha=1 if one.mark else 0.35)
    axes.plot(
        one.x,
        one.y,
        ls="-" if one.line else "none",
        drawstyle="steps-post" if one.line == "steps-post" else "default",
        lw=1,
        color=colour,
        marker=one.mark,
        markersize=math.sqrt(size),
        markerfacecolor="none" if one.is_hollow else colour,
        label=one.label or None,
        zorder=3 if one.stands_out else 2,
    )


def as_document(chart: Chart) -> dict[str, object]:
    """Return a chart as a page's script draws it."""
    rows = [[_of_panel(panel) for panel in row] for row in chart.rows]
    return {
        "caption": chart.caption,
        "columns": len(rows[0]),
        "panels": [panel for row in rows for panel in row],
    }


def _of_panel(panel: Panel) -> dict[str, object]:
    return {**dict(_given(panel)), "series": [dict(_given(one)) for one in panel.series]}


def _given(one: Panel | Series) -> Iterator[tuple[str, object]]:
    """Yield the fields of a panel or series, with numbers as a page has them."""
    for field in fields(one):
        value = getattr(one, field.name)
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        yield field.name, [*map(plain, value)] if is_list else plain(value)

"""The table as a picture: instructions in columns, columns on pages, each unit of energy on its own axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.report.figure import new_figure, save_pages, title
from ptxbench.storage.schema import TableRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {OptLevel.O0: "#8a8f99", OptLevel.O3: "#2f6fb0"}
_MARKERS = {OptLevel.O0: "s", OptLevel.O3: "o"}
_ASIDE = {OptLevel.O0: -0.14, OptLevel.O3: 0.14}
# Most rows of a column, and most columns of a page.
_ROWS = 60
_COLUMNS = 3
_COLUMN_IN = 6.5
_ROW_IN = 0.21
_FEW_ROWS = 20
_FEW_ROW_IN = 0.42
# Title, axis and its label take as much as so many rows.
_AXIS_ROWS = 4
_ABOVE_IN = 1.4
# Labels of larger numbers need more room.
_SHORT_PJ = 1000


@dataclass(frozen=True)
class Panel:
    """Some instructions on one axis.

    Attributes:
        unit: What one execution of them is: thread, warp or warpgroup.
        labels: The instructions, from above.
    """

    unit: str
    labels: tuple[str, ...]


Column = tuple[Panel, ...]


def plot_energies(rows: Sequence[TableRow], info: GpuInfo, path: Path) -> tuple[Path, ...]:
    """Draw the dynamic energy of every instruction at each optimization level, with its 95% interval.

    Args:
        rows: The run's rows; those without a dynamic energy are left out.
        info: The GPU, named in the title.
        path: Picture to write; its ending chooses the format (.png, .svg, .pdf).

    Returns:
        The files: one a page, or one PDF.

    Raises:
        InputError: matplotlib is not installed, there is nothing to draw, or the file cannot be written.
    """
    shown = [row for row in rows if row.protocol == DYNAMIC and row.status is Status.OK]
    if not shown:
        raise InputError("nothing to plot: the run has no valid dynamic energy")
    columns = layout(shown, _ROWS)
    pages = [columns[i : i + _COLUMNS] for i in range(0, len(columns), _COLUMNS)]
    figures = [_page(page, shown, info, (n, len(pages))) for n, page in enumerate(pages, start=1)]
    return save_pages(figures, path)


def layout(rows: Sequence[TableRow], rows_a_column: int) -> list[Column]:
    """Return columns of panels, each unit from its largest energy to its least.

    Columns of one unit are filled evenly; a unit that fits below the one before it stands there.

    Args:
        rows: Valid rows.
        rows_a_column: Most instructions in a column.
    """
    columns: list[list[Panel]] = []
    for panel in _panels(rows, rows_a_column):
        last = columns[-1] if columns else []
        if last and _height(last) + _AXIS_ROWS + len(panel.labels) <= rows_a_column:
            last.append(panel)
        else:
            columns.append([panel])
    return [tuple(column) for column in columns]


def label(row: TableRow) -> str:
    """Return the name of a row's line: the instruction, and operands that are not the usual ones."""
    return row.instruction if row.operands_text == "random" else f"{row.instruction} ({row.operands_text})"


def _panels(rows: Sequence[TableRow], rows_a_column: int) -> Iterator[Panel]:
    for unit in dict.fromkeys(sorted((row.unit for row in rows), key=lambda unit: (len(unit) > 6, unit))):
        largest: dict[str, float] = {}
        for row in rows:
            if row.unit == unit:
                largest[label(row)] = max(row.dynamic_pj, largest.get(label(row), -math.inf))
        labels = sorted(largest, key=lambda name: -largest[name])
        each = math.ceil(len(labels) / math.ceil(len(labels) / rows_a_column))
        for i in range(0, len(labels), each):
            yield Panel(unit, tuple(labels[i : i + each]))


def _height(column: Sequence[Panel]) -> int:
    """Return the height of a column in rows."""
    return sum(len(panel.labels) for panel in column) + _AXIS_ROWS * (len(column) - 1)


def _page(
    columns: Sequence[Column], rows: Sequence[TableRow], info: GpuInfo, number: tuple[int, int]
) -> Figure:
    tallest = max(_height(column) for column in columns)
    row_in = _FEW_ROW_IN if tallest <= _FEW_ROWS else _ROW_IN
    width_in = 8 if tallest <= _FEW_ROWS and len(columns) == 1 else _COLUMN_IN * len(columns)
    figure = new_figure(width_in, _ABOVE_IN + row_in * tallest)
    grid = figure.add_gridspec(1, len(columns))
    for place, column in enumerate(columns):
        heights = [len(panel.labels) for panel in column]
        blank = tallest - _height(column)
        cells = grid[place].subgridspec(
            len(column) + bool(blank), 1, height_ratios=heights + [blank] * bool(blank)
        )
        for line, panel in enumerate(column):
            _draw(figure.add_subplot(cells[line]), panel, rows, small=tallest > _FEW_ROWS)
    page = f", page {number[0]} of {number[1]}" if number[1] > 1 else ""
    figure.suptitle(f"Dynamic energy: {title(info)}{page}", x=0.01, ha="left", fontsize="medium")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize="small")
    return figure


def _draw(axes: Axes, panel: Panel, rows: Sequence[TableRow], *, small: bool) -> None:
    """Draw one panel, on an axis that holds its own rows, so that their intervals are seen."""
    from matplotlib.ticker import LogLocator, NullFormatter

    here = [row for row in rows if row.unit == panel.unit and label(row) in panel.labels]
    for level in OptLevel:
        dots = [row for row in here if row.opt_level is level]
        axes.errorbar(
            [row.dynamic_pj for row in dots],
            [panel.labels.index(label(row)) + _ASIDE[level] for row in dots],
            xerr=[row.dynamic_ci95_pj for row in dots],
            fmt=_MARKERS[level],
            markersize=4 if small else 7,
            capsize=2 if small else 3,
            color=_COLOURS[level],
            label=f"-{level} (whiskers: 95% interval)",
        )
    axes.set_yticks(range(len(panel.labels)), panel.labels, family="monospace", fontsize=8 if small else 10)
    axes.set_ylim(len(panel.labels) - 0.4, -0.6)
    least, most = (pick(row.dynamic_pj for row in here) for pick in (min, max))
    low = min(row.dynamic_pj - row.dynamic_ci95_pj for row in here)
    axes.set_xscale("log")
    axes.set_xlim(
        0.85 * (low if low > 0 else least / 2),
        1.15 * max(row.dynamic_pj + row.dynamic_ci95_pj for row in here),
    )
    axes.xaxis.set_major_formatter("{x:g}")
    # Labels of all nine would run into each other, and even of three over more than two decades.
    axes.xaxis.set_minor_locator(LogLocator(subs=(2, 3, 5) if most < _SHORT_PJ else (2, 5)))
    axes.xaxis.set_minor_formatter("{x:g}" if most < 100 * least else NullFormatter())
    axes.tick_params(axis="x", which="minor", labelsize=8)
    axes.set_xlabel(f"pJ a {panel.unit}-instruction")
    axes.grid(which="both", alpha=0.25)

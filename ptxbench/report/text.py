"""The table as text for a terminal, and as Markdown for documents."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ptxbench.core.condition import ARAFA, DYNAMIC
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.status import Status
from ptxbench.report.rates import rates
from ptxbench.storage.manifest import RunCost
from ptxbench.storage.schema import TableRow

_SASS_WIDTH = 34
_ANY_WIDTH = 10_000
_HEADINGS = {
    DYNAMIC: (
        "instruction",
        "level",
        "operands",
        "SASS",
        "pJ",
        "95% CI",
        "SM cycles",
        "W",
        "status",
    ),
    ARAFA: (
        "instruction",
        "level",
        "operands",
        "SASS",
        "MTSM nJ",
        "PAPI nJ",
        "cycles",
        "W",
        "status",
    ),
}
_RATE_HEADINGS = ("instruction", "level", "operands", "pJ", "pJ/B", "pJ/bit", "pJ/flop")
_RATE_TITLE = "dynamic energy per byte moved and per floating-point operation"
_TITLES = {
    ARAFA: "arafa: Eq. 1 with one thread; mostly the board's power times the latency",
    DYNAMIC: "dynamic: energy that one instruction adds (whole chip, static power subtracted)",
}


def rich_table(rows: Sequence[TableRow], protocol: str, info: GpuInfo) -> Table:
    """Return the rows of one protocol as a table for the terminal.

    Args:
        rows: Rows of any protocol; the others are passed over.
        protocol: Which one.
        info: Where the numbers come from; anything but a real GPU is said in the title.
    """
    cells = [_cells(row) for row in rows if row.protocol == protocol]
    return _rich(_HEADINGS[protocol], _TITLES[protocol] + _origin(info), cells)


def cost_sentence(cost: RunCost) -> str:
    """Return what a row of the dynamic protocol cost, for the end of a run."""
    return (
        f"GPU time a dynamic row, median of {cost.rows}: {cost.kernel_s:.2f} s in kernels, "
        f"{cost.wall_s:.2f} s recorded; all rows: {cost.total_kernel_s / 60:.1f} and "
        f"{cost.total_wall_s / 60:.1f} min"
    )


def level_sentence(level_error: float) -> str:
    """Return what all dynamic rows of a run share beside their own intervals.

    Args:
        level_error: Standard error of the supply's mean level, as a fraction.
    """
    half_width = 1.96 * level_error
    return (
        "beside their own intervals all dynamic energies share one factor, known to "
        f"± {half_width:.2%} (95%): the mean level of the supply in this run"
    )


def reached(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows that the run came to before its time was spent, valid or not."""
    return [row for row in rows if row.status is not Status.NOT_REACHED]


def not_reached_sentence(count: int) -> str:
    """Return the line that stands for rows left out of a table because the run did not reach them."""
    rows = "1 row" if count == 1 else f"{count} rows"
    return f"{rows} not reached in the time that the run was given, not shown (--all-rows shows them)"


def print_tables(rows: Sequence[TableRow], info: GpuInfo) -> None:
    """Print one table a protocol, as wide as it must be.

    Args:
        rows: The run's rows.
        info: The GPU, whose kind is said in the titles.
    """
    for protocol in _TITLES:
        if any(row.protocol == protocol for row in rows):
            _print_whole(rich_table(rows, protocol, info))


def print_rates(rows: Sequence[TableRow], info: GpuInfo) -> None:
    """Print energies per byte and flop, where a row has any.

    Args:
        rows: The run's rows.
        info: The GPU, whose kind is said in the title.
    """
    if any(rate.known for rate in rates(rows)):
        _print_whole(_rich(_RATE_HEADINGS, _RATE_TITLE + _origin(info), rate_cells(rows)))


def rows_as_json(rows: Sequence[TableRow], info: GpuInfo) -> str:
    """Return the rows, their energies per byte and flop, and the GPU as JSON; a missing number is null."""
    known = [
        {"instruction": row.instruction, "opt_level": row.opt_level, "operands": row.operands} | asdict(rate)
        for row, rate in zip(rows, rates(rows), strict=True)
        if rate.known
    ]
    plain, per = (
        [{k: None if v != v else v for k, v in line.items()} for line in lines]
        for lines in (map(asdict, rows), known)
    )
    return json.dumps({"gpu": info.name, "kind": info.kind, "rows": plain, "rates": per}, indent=1)


def markdown_table(rows: Sequence[TableRow], protocol: str) -> str:
    """Return the rows of one protocol as a Markdown table."""
    return _markdown(_HEADINGS[protocol], [_cells(row) for row in rows if row.protocol == protocol])


def markdown_rates(rows: Sequence[TableRow]) -> str:
    """Return energies per byte and flop as a Markdown table, "" where no row has one."""
    cells = rate_cells(rows)
    return _markdown(_RATE_HEADINGS, cells) if cells else ""


def rate_cells(rows: Sequence[TableRow]) -> list[tuple[str, ...]]:
    """Return instruction, level, operands, pJ, pJ a byte, bit and flop of the rows that have any."""
    return [
        (
            *(row.instruction, row.opt_level, row.operands, number(row.dynamic_pj)),
            *(number(rate.pj_per_byte), number(rate.pj_per_bit), number(rate.pj_per_flop)),
        )
        for row, rate in zip(rows, rates(rows), strict=True)
        if rate.known
    ]


def number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, or "-" where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def _rich(headings: Sequence[str], title: str, cells: Sequence[Sequence[str]]) -> Table:
    table = Table(title=Text(title), title_justify="left")
    for heading in headings:
        table.add_column(
            heading, justify="right" if _is_number(heading) else "left", no_wrap=heading != "status"
        )
    for line in cells:
        # Text, so that brackets in a reason are not read as markup.
        table.add_row(*map(Text, line))
    return table


def _print_whole(table: Table) -> None:
    """Print a table; a file has no width, so that its cells are kept whole."""
    console = Console()
    if not console.is_terminal:
        wide = console.options.update(max_width=_ANY_WIDTH)
        console = Console(width=console.measure(table, options=wide).maximum)
    console.print(table)


def _markdown(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = [
        "| " + " | ".join(headings) + " |",
        "| " + " | ".join("---:" if _is_number(h) else "---" for h in headings) + " |",
    ]
    lines += ["| " + " | ".join(map(_markdown_cell, line)) + " |" for line in cells]
    return "\n".join(lines) + "\n"


def _origin(info: GpuInfo) -> str:
    """Return what the numbers are where they are no measurement of this moment, else ""."""
    if info.kind is GpuKind.REAL:
        return ""
    # The name of a replayed GPU tells whether it was a simulated one.
    return " (SIMULATED)" if info.kind is GpuKind.SIMULATED else f" (REPLAYED from {info.name})"


def _markdown_cell(text: str) -> str:
    """Return text that neither ends its cell nor its line."""
    return " ".join(text.split()).replace("|", r"\|")


def _is_number(heading: str) -> bool:
    return heading not in ("instruction", "level", "operands", "SASS", "status")


def _cells(row: TableRow) -> tuple[str, ...]:
    sass = row.sass if len(row.sass) <= _SASS_WIDTH else f"{row.sass_per_ptx:.3g} instructions"
    what = (row.instruction, row.opt_level, row.operands, sass)
    status = f"{row.status}: {row.reason}" if row.reason else str(row.status)
    if row.protocol == ARAFA:
        return (
            *what,
            number(row.mtsm_nj),
            number(row.papi_nj),
            number(row.cycles),
            number(row.power_w),
            status,
        )
    half_width = number(row.dynamic_ci95_pj, 2)
    return (*what, number(row.dynamic_pj), half_width, number(row.cycles), number(row.power_w), status)

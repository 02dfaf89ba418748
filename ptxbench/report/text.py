"""The table as text for a terminal, and as Markdown for documents."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ptxbench.gpu.protocol import GpuInfo, GpuKind
from ptxbench.store.manifest import RunCost
from ptxbench.store.schema import Protocol, TableRow

_SASS_WIDTH = 34
_ANY_WIDTH = 10_000
_HEADINGS = {
    Protocol.DYNAMIC: (
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
    Protocol.ARAFA: (
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
_TITLES = {
    Protocol.DYNAMIC: "dynamic: energy that one instruction adds (whole chip, static power subtracted)",
    Protocol.ARAFA: "arafa: Eq. 1 with one thread; mostly the board's power times the latency",
}


def rich_table(rows: Sequence[TableRow], protocol: Protocol, info: GpuInfo) -> Table:
    """Return the rows of one protocol as a table for the terminal.

    Args:
        rows: Rows of any protocol; the others are passed over.
        protocol: Which one.
        info: Where the numbers come from; anything but a real GPU is said in the title.
    """
    title = Text(_TITLES[protocol] + _origin(info))
    table = Table(title=title, title_justify="left")
    for heading in _HEADINGS[protocol]:
        table.add_column(
            heading, justify="right" if _is_number(heading) else "left", no_wrap=heading != "status"
        )
    for row in rows:
        if row.protocol is protocol:
            # Text, so that brackets in a reason are not read as markup.
            table.add_row(*map(Text, _cells(row)))
    return table


def cost_sentence(cost: RunCost) -> str:
    """Return what a row of the dynamic protocol cost, for the end of a run."""
    return (
        f"GPU time a dynamic row, median of {cost.rows}: {cost.kernel_s:.2f} s in kernels, "
        f"{cost.wall_s:.2f} s recorded; all rows: {cost.total_kernel_s / 60:.1f} and {cost.total_wall_s / 60:.1f} min"
    )


def print_tables(rows: Sequence[TableRow], info: GpuInfo) -> None:
    """Print one table a protocol, as wide as it must be.

    Args:
        rows: The run's rows.
        info: The GPU, whose kind is said in the titles.
    """
    for protocol in Protocol:
        if any(row.protocol is protocol for row in rows):
            table = rich_table(rows, protocol, info)
            console = Console()
            if not console.is_terminal:
                # A file has no width: cells are kept whole.
                wide = console.options.update(max_width=_ANY_WIDTH)
                console = Console(width=console.measure(table, options=wide).maximum)
            console.print(table)


def rows_as_json(rows: Sequence[TableRow], info: GpuInfo) -> str:
    """Return the rows and the GPU as JSON; a missing number is null."""
    plain = [{k: None if v != v else v for k, v in asdict(row).items()} for row in rows]
    return json.dumps({"gpu": info.name, "kind": info.kind, "rows": plain}, indent=1)


def markdown_table(rows: Sequence[TableRow], protocol: Protocol) -> str:
    """Return the rows of one protocol as a Markdown table."""
    headings = _HEADINGS[protocol]
    lines = [
        "| " + " | ".join(headings) + " |",
        "| " + " | ".join("---:" if _is_number(h) else "---" for h in headings) + " |",
    ]
    lines += [
        "| " + " | ".join(_markdown_cell(cell) for cell in _cells(row)) + " |"
        for row in rows
        if row.protocol is protocol
    ]
    return "\n".join(lines) + "\n"


def number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, or "-" where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


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
    if row.protocol is Protocol.ARAFA:
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

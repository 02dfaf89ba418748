"""The table as text for a terminal, and as Markdown for documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from ptxbench.core.condition import ARAFA, DYNAMIC
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.printable import markdown_text, printable
from ptxbench.energy.gate.verdict import SourceVerdict
from ptxbench.model.atlas import LOAD_INCLUDES
from ptxbench.model.rates import rates
from ptxbench.report.text_table import IF_SAME, Column, Kind, render_table
from ptxbench.storage.manifest import RunCost
from ptxbench.storage.schema import PJ_PER_NJ, TableRow

_SASS_WIDTH = 34
_EXPONENT_FROM = 1e9


def _number_column(heading: str, drop: int = 0) -> Column:
    return Column(heading, Kind.NUMBER, drop)


_WHAT = (Column("instruction"), Column("opt"), Column("operands", drop=IF_SAME), Column("SASS", drop=4))
_STATUS = Column("status", Kind.STATUS)
_COLUMNS: dict[str, tuple[Column, ...]] = {
    ARAFA: (
        *_WHAT,
        _number_column("MTSM nJ"),
        _number_column("± nJ (95%)", drop=5),
        _number_column("PAPI nJ", drop=3),
        _number_column("latency cycles", drop=2),
        _number_column("power W", drop=1),
        _STATUS,
    ),
    DYNAMIC: (
        *_WHAT,
        _number_column("pJ"),
        _number_column("± pJ (95%)"),
        _number_column("SM cycles", drop=2),
        _number_column("power W", drop=1),
        _STATUS,
    ),
}
HEADINGS = {protocol: tuple(column.heading for column in columns) for protocol, columns in _COLUMNS.items()}
_RATE_COLUMNS = (*_WHAT[:3], *map(_number_column, ("pJ", "pJ/B", "pJ/bit", "pJ/flop")))
_RATE_HEADINGS = tuple(column.heading for column in _RATE_COLUMNS)
_RATE_TITLE = f"dynamic energy per floating-point operation, and per byte of {LOAD_INCLUDES}"
_TITLES = {
    ARAFA: "arafa: Eq. 1 with one thread; mostly the board's power times the latency",
    DYNAMIC: "dynamic: energy that one instruction adds (whole chip, static power subtracted)",
}


def cost_sentence(cost: RunCost) -> str:
    """Return what a row of the dynamic protocol cost, for the end of a run."""
    return (
        f"GPU time of a dynamic row, median of {cost.rows}: {cost.kernel_s:.2f} s in kernels, "
        f"{cost.wall_s:.2f} s recorded; all rows: {cost.total_kernel_s / 60:.1f} and "
        f"{cost.total_wall_s / 60:.1f} min"
    )


def scale_sentence(scale_ci95: float) -> str:
    """Return what all dynamic rows of a run share beside their own intervals.

    Args:
        scale_ci95: Half-width of its 95% interval, as a fraction, as in the manifest.
    """
    return (
        "scale uncertainty, common to all dynamic energies and not in their intervals: "
        f"± {scale_ci95:.2%} (95%)"
    )


def source_sentence(source: str, verdict: SourceVerdict) -> str:
    """Return what the energy counter says of the power source of a run, for its end.

    Args:
        source: Power source of the table's numbers.
        verdict: What was found.
    """
    if math.isnan(verdict.ratio):
        return f"power source: {source}; {verdict.note}"
    counted = f"{verdict.ratio:.4f} ± {COVERAGE_FACTOR * verdict.error:.2g} of the energy counter's joules"
    return f"power source: {source}; {'; '.join(filter(None, (counted, verdict.objection or verdict.note)))}"


def tables_text(rows: Sequence[TableRow], info: GpuInfo, width: int | None) -> str:
    """Return one table a protocol, each below its title.

    Args:
        rows: The run's rows.
        info: The GPU, whose kind is in the titles.
        width: Columns of the terminal, None where there is none.
    """
    tables = []
    for protocol in sorted({row.protocol for row in rows}):
        own = [row for row in rows if row.protocol == protocol]
        if protocol in _COLUMNS:
            columns, cells = _COLUMNS[protocol], [_cells(row) for row in own]
        else:
            columns, cells = _filled(own)
        title = f"{_TITLES.get(protocol, protocol)}{_origin(info)}"
        tables.append(f"{title}\n{render_table(columns, cells, width)}")
    return "\n\n".join(tables)


def rates_text(rows: Sequence[TableRow], info: GpuInfo, width: int | None) -> str:
    """Return energies per byte and flop as a table, "" where no row has any.

    Args:
        rows: The run's rows.
        info: The GPU, whose kind is in the title.
        width: Columns of the terminal, None where there is none.
    """
    cells = rate_cells(rows)
    return f"{_RATE_TITLE}{_origin(info)}\n{render_table(_RATE_COLUMNS, cells, width)}" if cells else ""


def rows_document(rows: Sequence[TableRow], info: GpuInfo) -> dict[str, object]:
    """Return the rows, their energies per byte and flop, and the GPU for JSON; a missing number is None."""
    known = [
        {"instruction": row.instruction, "opt_level": row.opt_level, "operands": row.operands}
        | {"lanes": row.lanes}
        | asdict(rate)
        for row, rate in zip(rows, rates(rows), strict=True)
        if rate.known
    ]
    plain, per = (
        [{k: None if v != v else v for k, v in line.items()} for line in lines]
        for lines in (map(asdict, rows), known)
    )
    return {"gpu": info.name, "kind": info.kind, "rows": plain, "rates": per}


def markdown_table(rows: Sequence[TableRow], protocol: str) -> str:
    """Return the rows of one protocol as a Markdown table, "" where there are none."""
    own = [row for row in rows if row.protocol == protocol]
    if not own:
        return ""
    if protocol in HEADINGS:
        return _markdown(HEADINGS[protocol], [_cells(row) for row in own])
    columns, cells = _filled(own)
    return _markdown(tuple(column.heading for column in columns), cells)


def markdown_rates(rows: Sequence[TableRow]) -> str:
    """Return energies per byte and flop as a Markdown table, "" where no row has one."""
    cells = rate_cells(rows)
    return f"{_RATE_TITLE}\n\n{_markdown(_RATE_HEADINGS, cells)}" if cells else ""


def rate_cells(rows: Sequence[TableRow]) -> list[tuple[str, ...]]:
    """Return instruction, -O, operands, pJ, pJ a byte, bit and flop of the rows that have any."""
    return [
        (
            *(row.instruction, row.opt_level, row.operands_text, number(row.dynamic_pj)),
            *(number(rate.pj_per_byte), number(rate.pj_per_bit), number(rate.pj_per_flop)),
        )
        for row, rate in zip(rows, rates(rows), strict=True)
        if rate.known
    ]


def number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, without an exponent below 1e9; "-" for none."""
    if math.isnan(value):
        return "-"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+0" in text and abs(value) < _EXPONENT_FROM else text


def _markdown(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = [
        "| " + " | ".join(headings) + " |",
        "| " + " | ".join("---:" if _is_number(h) else "---" for h in headings) + " |",
    ]
    lines += ["| " + " | ".join(map(markdown_text, line)) + " |" for line in cells]
    return "\n".join(lines) + "\n"


def _origin(info: GpuInfo) -> str:
    """Return what the numbers are where they are no measurement of this moment, else ""."""
    if info.kind is GpuKind.REAL:
        return ""
    # The name of a replayed GPU tells whether it was a simulated one.
    return " (SIMULATED)" if info.kind is GpuKind.SIMULATED else f" (REPLAYED from {printable(info.name)})"


def _is_number(heading: str) -> bool:
    return heading not in ("instruction", "opt", "operands", "SASS", "status")


def _filled(rows: Sequence[TableRow]) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
    """Return columns and cells of a protocol without a layout of its own: every number that a row has."""
    names = [name for name, value in asdict(rows[0]).items() if isinstance(value, float)]
    names = [name for name in names if any(getattr(row, name) == getattr(row, name) for row in rows)]
    cells = [
        (*_cells(row)[: len(_WHAT)], *(number(getattr(row, name)) for name in names), _cells(row)[-1])
        for row in rows
    ]
    return (*_WHAT, *map(_number_column, names), _STATUS), cells


def _cells(row: TableRow) -> tuple[str, ...]:
    sass = row.sass if len(row.sass) <= _SASS_WIDTH else f"{row.sass_per_ptx:.3g} instructions"
    what = (row.instruction, row.opt_level, row.operands_text, sass)
    if row.protocol == ARAFA:
        return (
            *what,
            number(row.mtsm_pj / PJ_PER_NJ),
            number(row.mtsm_ci95_pj / PJ_PER_NJ, 2),
            number(row.papi_pj / PJ_PER_NJ),
            number(row.latency_cycles),
            number(row.power_w),
            row.verdict,
        )
    numbers = (number(row.dynamic_pj), number(row.dynamic_ci95_pj, 2), number(row.issue_cycles))
    return (*what, *numbers, number(row.power_w), row.verdict)

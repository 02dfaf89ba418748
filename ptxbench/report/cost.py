"""What instructions cost, looked up in tables: from the files alone, without numpy, pandas or a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace

from ptxbench.catalogue.architecture import architecture_of
from ptxbench.catalogue.load import load_named
from ptxbench.catalogue.search import Found, Selection, nothing_fits, search
from ptxbench.core.condition import DYNAMIC, operands_text
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.printable import render_csv
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.core.wrap import wrapped
from ptxbench.model.atlas import LOAD_INCLUDES, Atlas
from ptxbench.model.rates import Rate, rates
from ptxbench.model.reference_clock import at_reference_clock
from ptxbench.report.text import number
from ptxbench.report.text_table import IF_SAME, Column, Kind, render_table
from ptxbench.storage.board_spread import BoardSpread, RowSpread, by_row, factors_text
from ptxbench.storage.run_spread import spread_sentence
from ptxbench.storage.schema import TableRow

_SASS_WIDTH = 34
# Boards go to and fro by one step of 15 MHz, and the clock is measured to less.
_SAME_CLOCK = 0.01


@dataclass(frozen=True)
class Cost:
    """One row of one table, as it is printed and exported; NaN is a number that is not known.

    Attributes:
        table: Name of the table.
        gpu: The GPU's name; says so where it is not a real one.
        instruction: Catalogue name.
        category: The PTX ISA's category.
        type: PTX type, "" where today's catalogue does not have the instruction.
        opt_level: Optimization level.
        protocol: Measuring protocol.
        operands: Operand pattern.
        unit: What executes one instruction: thread, warp or warpgroup; the energy is per execution.
        energy_pj: Energy of one execution, pJ: `dynamic_pj`, or Eq. 1 with MTSM under protocol `arafa`; the
            mean of other boards where the table's run did not reach the row (`reason` says so).
        ci95_pj: Half-width of its 95% interval.
        pj_per_flop: Energy of one floating-point operation, pJ.
        pj_per_byte: Energy of one byte moved, pJ.
        latency_cycles: Cycles from one instruction of a dependent chain to the next.
        issue_cycles: Cycles of one SM from one instruction of a warp to the next.
        sass: What one copy became.
        sass_per_ptx: SASS instructions for one copy.
        boards: Boards that have an energy for it.
        boards_pj: Their mean on the scale of this table's board, pJ.
        boards_scatter: Standard deviation between them apart from one factor for each board, as a fraction.
        status: Validity.
        reason: Why there is no number, or what is odd about it.
        clock_mhz: SM clock that the energy is at.
        reference_mhz: The GPU's highest SM clock.
        reference_pj: The energy at that clock, pJ (`at_reference_clock`).
        reference_ci95_pj: Half-width of its 95% interval.
        lanes: Active lanes of each warp; the energy is that of one active thread.
    """

    table: str
    gpu: str
    instruction: str
    category: str
    type: str
    opt_level: str
    protocol: str
    operands: str
    unit: str
    energy_pj: float
    ci95_pj: float
    pj_per_flop: float
    pj_per_byte: float
    latency_cycles: float
    issue_cycles: float
    sass: str
    sass_per_ptx: float
    boards: int
    boards_pj: float
    boards_scatter: float
    status: str
    reason: str
    clock_mhz: float
    reference_mhz: float
    reference_pj: float
    reference_ci95_pj: float
    lanes: int

    @property
    def is_at_other_clock(self) -> bool:
        """Whether the energy is at another clock than the GPU's highest."""
        return abs(self.clock_mhz / self.reference_mhz - 1) > _SAME_CLOCK and not math.isnan(self.energy_pj)


def find_costs(wanted: str | Selection, tables: Sequence[Atlas]) -> tuple[Cost, ...]:
    """Return the rows of every table that patterns stand for.

    Args:
        wanted: What was found of the patterns, or one pattern (see `ptxbench.catalogue.search`).
        tables: Where to look.

    Raises:
        InputError: No table has an instruction that a pattern stands for; the text offers what is near. Or a
            table is a calibration.
    """
    for table in tables:
        table.require_own_rows()
    selection = search((wanted,)) if isinstance(wanted, str) else wanted
    names = frozenset(name for table in tables for name in table.names)
    for found in selection.found:
        if not any(map(found.has, names)):
            raise InputError(_not_in(tables, names, found))
    return tuple(
        cost
        for table in tables
        for cost in row_costs(table.name, table.manifest.gpu, _matching(selection, table), table.spread)
    )


def reached(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """Return the rows that the run of their table, or another board, measured or tried to."""
    return tuple(cost for cost in costs if cost.status not in (Status.NOT_REACHED, Status.NOT_SUPPORTED))


def costs_text(
    costs: Sequence[Cost], tables: Sequence[Atlas], width: int | None, *, is_short: bool = False
) -> str:
    """Return the rows as a table for people, and below it where each table was measured.

    Args:
        costs: The rows.
        tables: The tables that they are from.
        width: Columns of the terminal, None where there is none.
        is_short: Whether the status is its word alone, as `reasons_text` says the rest.
    """
    if is_short:
        costs = [replace(cost, reason="") for cost in costs]
    columns = _columns(costs)
    cells = map(_cells, costs)
    body = render_table(columns, [[one[column.heading] for column in columns] for one in cells], width)
    return "\n".join((body, "", *(line for table in tables for line in _origin_lines(table, costs))))


def reasons_text(costs: Sequence[Cost], width: int | None) -> str:
    """Return why rows have no number, or what to know about the one that they have.

    Args:
        costs: The rows.
        width: Columns of the terminal, None where there is none.
    """
    alike: dict[str, dict[str, list[str]]] = {}
    for cost in costs:
        condition = operands_text(cost.operands, cost.lanes)
        row = f"{cost.table} {cost.instruction} -{cost.opt_level} {condition}"
        alike.setdefault(cost.status, {}).setdefault(cost.reason, []).append(row)
    lines = []
    for status, by_reason in alike.items():
        lines.append(f"{status}: {Status(status).meaning}")
        for reason, rows in by_reason.items():
            lines += [f"  {reason or 'nothing to add'}", *(f"    {row}" for row in rows)]
    return "\n".join(part for line in lines for part in (wrapped(line, width) if width else [line]))


def costs_document(costs: Sequence[Cost], tables: Sequence[Atlas]) -> dict[str, object]:
    """Return the rows and where they were measured, for JSON."""
    return {
        "tables": [_origin(table) for table in tables],
        "rows": costs,
    }


def costs_csv(costs: Iterable[Cost]) -> str:
    """Return the rows as CSV; an unknown number is an empty cell."""
    names = [field.name for field in fields(Cost)]
    return render_csv([names, *(asdict(cost).values() for cost in costs)]).removesuffix("\n")


def costs_report(form: str, selection: Selection, tables: Sequence[Atlas], *, all_rows: bool) -> str:
    """Return the rows that patterns stand for in a format of `ptxbench report`.

    Args:
        form: The format.
        selection: What the patterns stand for.
        tables: Where to look.
        all_rows: Whether formats for people show the rows, too, that the run did not reach.
    """
    from ptxbench.report.formats import RunReport, render_report

    reports = [
        RunReport.of(replace(table, rows=tuple(_matching(selection, table))), all_rows) for table in tables
    ]
    return render_report(form, reports, None)


def _matching(selection: Selection, table: Atlas) -> list[TableRow]:
    return [row for row in table.rows if selection.has(row.instruction)]


def row_costs(name: str, gpu: GpuInfo, rows: Sequence[TableRow], spread: BoardSpread | None) -> list[Cost]:
    """Return what each row costs, in order.

    Args:
        name: What the user calls the table.
        gpu: The GPU that the table is of.
        rows: Rows of the table.
        spread: How boards of this GPU differ, None where one board was measured.
    """
    boards = by_row(rows, spread)
    catalogue = load_named(frozenset(row.instruction for row in rows))
    types = {instruction.name: instruction.type for instruction in catalogue.values()}
    return [
        _cost(row, name, gpu, rate, types.get(row.instruction, ""), boards.get(row.key))
        for row, rate in zip(rows, rates(rows), strict=True)
    ]


def _cost(
    row: TableRow, name: str, gpu: GpuInfo, rate: Rate, ptx_type: str, spread: RowSpread | None
) -> Cost:
    has_number = row.status.has_number
    at_reference = at_reference_clock(row, gpu)
    return Cost(
        table=name,
        gpu=gpu.title,
        instruction=row.instruction,
        category=row.category,
        type=ptx_type,
        opt_level=row.opt_level,
        protocol=row.protocol,
        operands=row.operands,
        unit=row.unit,
        energy_pj=row.energy_pj if has_number else math.nan,
        ci95_pj=row.ci95_pj if has_number else math.nan,
        pj_per_flop=rate.pj_per_flop,
        pj_per_byte=rate.pj_per_byte,
        latency_cycles=row.latency_cycles,
        issue_cycles=row.issue_cycles,
        sass=row.sass,
        sass_per_ptx=row.sass_per_ptx,
        boards=spread.boards if spread else int(has_number),
        boards_pj=spread.energy_pj if spread else math.nan,
        boards_scatter=math.nan if spread is None or spread.scatter is None else spread.scatter,
        status=row.status,
        reason=row.reason,
        clock_mhz=row.clock_mhz,
        reference_mhz=gpu.max_sm_clock_mhz,
        reference_pj=at_reference.value,
        reference_ci95_pj=at_reference.uncertainty,
        lanes=row.lanes,
    )


def _not_in(tables: Sequence[Atlas], names: frozenset[str], found: Found) -> str:
    """Return the message for a pattern of which no table has an instruction."""
    if not found.rows:
        return nothing_fits(found.pattern, names)
    where = ", ".join(table.name for table in tables)
    what = found.rows[0].name if len(found.rows) == 1 else f"any of its {len(found.rows)} instructions"
    targets = sorted({target for row in found.rows for target in row.targets})
    on = f" on {' or '.join(targets)}" if targets else ""
    return f"no table has {what} ({where}), for {found.pattern!r}; ptxbench table measures it{on}"


_NUMBER = Kind.NUMBER
_ALWAYS = (
    Column("instruction"),
    Column("opt"),
    Column("operands", drop=IF_SAME),
    Column("pJ", _NUMBER),
    Column("± pJ (95%)", _NUMBER),
    Column("per", drop=IF_SAME),
)


def _columns(costs: Sequence[Cost]) -> tuple[Column, ...]:
    """Return the columns: a table or protocol where there are several, clocks, rates and boards where any."""
    clocks = _CLOCKS if any(cost.is_at_other_clock for cost in costs) else ()
    optional = [(heading, drop) for heading, drop, name in _OPTIONAL if _any(costs, name)]
    return (
        *((Column("table"),) if len({cost.table for cost in costs}) > 1 else ()),
        *((Column("protocol"),) if any(cost.protocol != DYNAMIC for cost in costs) else ()),
        *_ALWAYS,
        *(Column(heading, _NUMBER, drop) for heading, drop in (*clocks, *optional)),
        Column("SASS", drop=4),
        Column("status", Kind.STATUS),
    )


_FULL_CLOCK = "pJ at full clock"
_CLOCKS = (("MHz", 6), (_FULL_CLOCK, 5))
_OPTIONAL = (
    ("pJ/flop", 7, "pj_per_flop"),
    ("pJ/B", 8, "pj_per_byte"),
    ("boards", 3, "boards_pj"),
    ("boards' mean pJ", 2, "boards_pj"),
    ("boards' scatter", 1, "boards_scatter"),
)


def _any(costs: Sequence[Cost], name: str) -> bool:
    return any(not math.isnan(getattr(cost, name)) for cost in costs)


def _cells(cost: Cost) -> dict[str, str]:
    """Return what each column may show of a row, by its heading."""
    return {
        "table": cost.table,
        "protocol": cost.protocol,
        "instruction": cost.instruction,
        "opt": cost.opt_level,
        "operands": operands_text(cost.operands, cost.lanes),
        "pJ": number(cost.energy_pj),
        "± pJ (95%)": number(cost.ci95_pj, 2),
        "per": cost.unit,
        "MHz": number(cost.clock_mhz, 4),
        _FULL_CLOCK: number(cost.reference_pj),
        "pJ/flop": number(cost.pj_per_flop),
        "pJ/B": number(cost.pj_per_byte),
        "boards": str(cost.boards),
        "boards' mean pJ": number(cost.boards_pj),
        "boards' scatter": "-" if math.isnan(cost.boards_scatter) else f"{cost.boards_scatter:.2%}",
        "SASS": cost.sass if len(cost.sass) <= _SASS_WIDTH else f"{len(cost.sass.split())} kinds",
        "status": f"{cost.status}: {cost.reason}" if cost.reason else cost.status,
    }


def _origin(table: Atlas) -> dict[str, object]:
    manifest, gpu = table.manifest, table.manifest.gpu
    return {
        "table": table.name,
        "gpu": gpu.name,
        "kind": gpu.kind,
        "target": gpu.target,
        "board": gpu.uuid_hash,
        "driver": gpu.driver,
        "run": table.run,
        "created": manifest.created and manifest.created.isoformat(),
        "ptxbench_commit": manifest.commit,
        "schema_version": manifest.schema,
        "scale_ci95": manifest.part.scale_ci95,
        "boards": table.spread.boards if table.spread else (),
    }


def _origin_lines(table: Atlas, costs: Sequence[Cost]) -> list[str]:
    origin, manifest = _origin(table), table.manifest
    if not any(cost.table == table.name for cost in costs):
        return [f"{table.name}: no such instruction"]
    lines = [
        f"{table.name}: {manifest.gpu.title}, board {origin['board']}, driver {origin['driver']}, "
        f"run {origin['run']} of {manifest.day}, protocol of commit "
        f"{(manifest.commit or 'unknown')[:12]}"
    ]
    if manifest.part.scale_ci95 is not None:
        lines.append(
            f"  scale uncertainty, common to its dynamic energies: ± {manifest.part.scale_ci95:.2%} (95%)"
        )
    spread = spread_sentence(manifest.gpu, other_boards=table.spread is not None)
    if spread:
        lines.append(f"  {spread}")
    if any(cost.is_at_other_clock for cost in costs if cost.table == table.name):
        gamma = architecture_of(manifest.gpu.target).clock_exponent
        lines.append(
            f"  {_FULL_CLOCK}: the energy at {manifest.gpu.max_sm_clock_mhz:g} MHz, by clock^gamma, "
            f"gamma {gamma.value:g} ± {COVERAGE_FACTOR * gamma.error:.2g}"
        )
    if any(cost.lanes != WARP for cost in costs if cost.table == table.name):
        lines.append(
            "  fewer lanes: the energy is that of one active thread; times the lanes it is the warp's"
        )
    if any(not math.isnan(cost.pj_per_byte) for cost in costs if cost.table == table.name):
        lines.append(f"  pJ/B: {LOAD_INCLUDES}")
        fitted = table.terms.bytes_text()
        lines += [f"  in whole kernels (estimate, tune): {fitted}"] if fitted else []
    if table.spread:
        others = table.spread.boards[1:]
        lines.append(
            f"  {len(others)} other boards have {factors_text(others)} times this board's "
            "energies, one scale factor a board; it is removed from the boards' mean and scatter, and from "
            "rows of other boards"
        )
        errors = [COVERAGE_FACTOR * board.factor_error for board in others if board.factor_error]
        if errors:
            lines.append(
                f"  {len(errors)} of them share too few rows with this one to tell their factor: "
                f"the intervals of their rows include up to ± {max(errors):.1%} for it"
            )
    return lines

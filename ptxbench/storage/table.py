"""The table of a run, one row an instruction and condition (table.csv)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from ptxbench.core.condition import ARAFA, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable, render_csv, text_of_cell
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.cells import read_csv, reader_of, rounded
from ptxbench.storage.codec import Place
from ptxbench.storage.schema import PJ_PER_NJ, TableRow

TABLE = "table.csv"
COLUMNS = tuple(codec.type_hints(TableRow))

# What columns were called in tables of before 0.3.0, whose energies by Eq. 1 were in nJ.
_FORMER = {
    "count": "executions",
    **{f"{name}_nj": f"{name}_pj" for name in ("sma", "papi", "mtsm", "counter", "mtsm_ci95")},
}
# One column had what is apart now: the latency under `arafa`, and the issue interval.
_FORMER_CYCLES = "cycles"
_CYCLES = frozenset({"latency_cycles", "issue_cycles"})


def write_table(path: Path, rows: Sequence[TableRow]) -> None:
    """Write the table atomically: floats with 6 significant digits, NaN as an empty cell.

    Raises:
        ValueError: Two rows are about the same.
        InputError: The file cannot be written.
    """
    _require_unique(rows)
    write_text(path, render_csv([COLUMNS, *map(cells_of, rows)]))


def cells_of(row: TableRow) -> tuple[object, ...]:
    """Return the cells of a row, floats with 6 significant digits."""
    return tuple(map(rounded, (getattr(row, name) for name in COLUMNS)))


def read_table(path: Path) -> tuple[TableRow, ...]:
    """Read the table.

    Raises:
        InputError: The file cannot be read, lacks a column, a cell does not fit, or a row stands twice.
    """
    rows, _ = read_rows(path, lambda _: True)
    return rows


def read_rows(
    path: Path, wanted: Callable[[str], bool], level: OptLevel | None = None
) -> tuple[tuple[TableRow, ...], frozenset[str]]:
    """Read the rows of some instructions, which takes a moment where the table is large.

    Columns are found by name: one that this version does not know is passed over, one that may be missing in
    tables of older versions has its default.

    Args:
        path: The table.
        wanted: Whether the rows of an instruction are wanted, by its name.
        level: Optimization level of the rows that are wanted; None: of any.

    Returns:
        These rows, and the names of all instructions of the table.

    Raises:
        InputError: As `read_table`; of rows that are not wanted only name and level are looked at.
    """
    lines = read_csv(path)
    names = _names(lines, path)
    instruction, opt_level = names.index("instruction"), names.index("opt_level")
    instructions = [text_of_cell(cells[instruction]) if cells[instruction:] else None for cells in lines[1:]]
    columns = _columns(names)
    rows = tuple(
        _row(cells, len(names), columns, Place(path, f"row {i}"))
        for i, (cells, name) in enumerate(zip(lines[1:], instructions, strict=True), start=1)
        if name is None or (wanted(name) and (level is None or cells[opt_level : opt_level + 1] == [level]))
    )
    try:
        _require_unique(rows)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    return rows, frozenset(filter(None, instructions))


def _names(lines: list[list[str]], path: Path) -> list[str]:
    """Return the headings of a table, which must have every column that no version was without."""
    names = lines[0] if lines else []
    known = {_FORMER.get(name, name) for name in names} | codec.optional_fields(TableRow)
    known |= _CYCLES if _FORMER_CYCLES in names else set()
    missing = [name for name in COLUMNS if name not in known]
    if missing:
        raise InputError(f"{path}: the column {', '.join(missing)} is missing; name the table.csv of a run")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: the column {', '.join(map(printable, twice))} stands twice")
    return names


def _columns(names: Sequence[str]) -> list[tuple[int, str, Callable[[str], object]]]:
    """Return place, present name and reader of each column that is known, in the units of today."""
    hints: dict[str, type] = {**codec.type_hints(TableRow), _FORMER_CYCLES: float}
    columns = []
    for place, name in enumerate(names):
        now = _FORMER.get(name, name)
        if now in hints:
            columns.append((place, now, _float_in_pj if name.endswith("_nj") else reader_of(hints[now])))
    return columns


def _row(
    cells: list[str], count: int, columns: list[tuple[int, str, Callable[[str], object]]], place: Place
) -> TableRow:
    if len(cells) != count:
        raise place.error(f"must have {count} cells, not {len(cells)}")
    values = {name: read(cells[at]) for at, name, read in columns}
    if _FORMER_CYCLES in values:
        here, other = ("latency_cycles", "issue_cycles")[:: 1 if values["protocol"] == ARAFA else -1]
        values |= {here: values.pop(_FORMER_CYCLES), other: math.nan}
    return codec.decode(TableRow, values, place)


def _float_in_pj(cell: str) -> object:
    """Return what a cell says in nJ, in pJ; a product has no more digits than its number."""
    value = reader_of(float)(cell)
    if not isinstance(value, float) or math.isnan(value):
        return value
    return float(f"{PJ_PER_NJ * value:.15g}")


def _require_unique(rows: Sequence[TableRow]) -> None:
    seen = set()
    for row in rows:
        key = row.key
        if key in seen:
            raise ValueError(f"row {' '.join(key)} stands twice")
        seen.add(key)

"""Find the table in a text file: its separator, decimal sign, header and rows."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.meter.readers.units import unit_of
from ptxbench.sensors.trace import Float64s
from ptxbench.storage.file_errors import opened

# An hour at 5 kHz with three rails; more does not fit into the memory of a small machine as a table.
MAX_BYTES = 1 << 29
# Longer ones are no numbers that a double holds, and pandas stops at such.
_MAX_DIGITS = 300
_SNIFFED_LINES = 400
_ENOUGH_ROWS = 3
# Rows at the end of the sniffed lines that show what a row of the table looks like.
_SHOWN_ROWS = 20
_MAX_LINE = 20_000
_MAX_COLUMNS = 1_000
# Tried in this order: a comma may be a decimal sign beside the two before it.
_SEPARATORS = ("\t", ";", ",", " ")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_STAMP = re.compile(r"[\d./:T+ -]*\d[:/-]\d[\d./:,T+ -]*(Z|UTC|AM|PM)?", re.IGNORECASE)
_UNIT_TAIL = re.compile(r"\s*(k|m|u|µ)?(W|V|A|Hz|s|%|MHz|MiB|C)", re.IGNORECASE)
_ABSENT = {"", "nan", "n/a", "[n/a]", "[not supported]", "[unknown error]"}


@dataclass(frozen=True)
class TextTable:
    """A table as text.

    Attributes:
        frame: Cells, numbers where a whole column is numeric; one column a name.
        units: Second header line, empty where there is none.
        preamble: Lines above the rows, the header among them.
        separator: Separator of the cells.
        torn: Rows with too many cells, left out already.
        has_header: False where columns had to be called "column1", ...
    """

    frame: pd.DataFrame
    units: tuple[str, ...]
    preamble: tuple[str, ...]
    separator: str
    torn: int
    has_header: bool


@dataclass(frozen=True)
class _Layout:
    separator: str
    decimal: str
    data_line: int
    width: int


@dataclass(frozen=True)
class _Header:
    names: list[str]
    units: tuple[str, ...]
    data_line: int
    is_named: bool


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file, unpacked where it is gzip.

    Raises:
        InputError: The file cannot be read, its gzip stream is damaged, or it is larger than `MAX_BYTES`.
    """
    with opened(path, "name a file of readings") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            # No more than the limit is ever unpacked, however small the file is.
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(MAX_BYTES + 1)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise InputError(f"{path} cannot be read: {error}") from error
    if len(data) > MAX_BYTES:
        verb = "unpacks to" if packed else "holds"
        raise InputError(f"{path} {verb} more than {MAX_BYTES >> 20} MiB; cut it to the time of the kernels")
    return data


def read_text_table(
    path: Path, data: bytes, separator: str | None = None, decimal: str | None = None
) -> TextTable:
    """Find the header and read the rows below it.

    Args:
        path: File, for messages.
        data: Its contents.
        separator: Separator of the cells, None to find it.
        decimal: Decimal sign, None to find it.

    Returns:
        The table, every cell as it stands but with white space removed.

    Raises:
        InputError: There is no table in it.
    """
    text = decode(data)
    lines = text.split("\n", _SNIFFED_LINES)[:_SNIFFED_LINES]
    if max(map(len, lines)) > _MAX_LINE:
        raise InputError(f"{path} has lines of more than {_MAX_LINE} characters: it is no meter's table")
    layout = _find_layout(lines, separator, decimal)
    if layout is None:
        raise InputError(f"{path} holds no table of numbers; is it the right file?")
    if layout.width > _MAX_COLUMNS:
        raise InputError(f"{path} has {layout.width} columns; a meter's table has at most {_MAX_COLUMNS}")
    header = _header(lines, layout)
    try:
        frame, torn = _rows(text, layout, header)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} cannot be read as a table: {printable(str(error))}") from error
    return TextTable(
        frame,
        header.units,
        tuple(line.strip() for line in lines[: header.data_line] if line.strip()),
        layout.separator,
        torn,
        header.is_named,
    )


def split_line(line: str, separator: str) -> list[str]:
    """Return the cells of one line without white space, quotes and the empty cell of a trailing separator."""
    line = line.strip("\r\n")
    cells = (
        line.split()
        if separator == " "
        else [cell.strip().strip('"').strip() for cell in line.split(separator)]
    )
    return cells[:-1] if len(cells) > 1 and not cells[-1] and separator != " " else cells


def decode(data: bytes) -> str:
    """Return the text of a file in UTF-8, UTF-16 with its mark, or else Latin-1."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # where the degree and micro signs of instruments are


def _is_value(cell: str) -> bool:
    number = _NUMBER.match(cell)
    if number is not None:
        rest = cell[number.end() :]
        if not rest or _UNIT_TAIL.fullmatch(rest):
            return True
    return _STAMP.fullmatch(cell) is not None


def _find_layout(lines: list[str], separator: str | None, decimal: str | None) -> _Layout | None:
    """Return the first separator that gives rows of one width, all of them values.

    The table's first rows must look like its last ones: the settings that an oscilloscope writes above
    the table, a name and a number for each channel, are as wide as its rows.
    """
    for candidate in (separator,) if separator else _SEPARATORS:
        rows = [split_line(line, candidate) for line in lines]
        kinds = [_kinds(row) for row in rows]
        written = [kind for kind in kinds if any(kind)]
        (usual, _), *_ = Counter(written[-_SHOWN_ROWS:]).most_common(1) or [((), 0)]
        like = [_alike(kind, usual) for kind in kinds]
        start = next(
            (
                i
                for i in range(len(rows))
                if all(like[i : i + _ENOUGH_ROWS]) and _is_table(rows[i : i + _ENOUGH_ROWS])
            ),
            None,
        )
        if start is None:
            continue
        cells = [cell for row in rows[start:] for cell in row]
        found = "," if candidate != "," and _has_decimal_comma(cells) else "."
        return _Layout(candidate, decimal or found, start, len(rows[start]))
    return None


def as_numbers(column: pd.Series[str]) -> Float64s:
    """Return the numbers of a column, NaN where a cell is none, shape (n,)."""
    if not pd.api.types.is_numeric_dtype(column):
        column = column.where(column.astype(str).str.len() <= _MAX_DIGITS)
    return np.array(pd.to_numeric(column, errors="coerce"), dtype=np.float64)


def _kinds(row: list[str]) -> tuple[str, ...]:
    """Return what each cell is: "value", "name", or "" where it is absent."""
    return tuple(
        "" if cell.lower() in _ABSENT else "value" if _is_value(cell) else "name"
        for cell in row[: _MAX_COLUMNS + 1]
    )


def _alike(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Return whether two rows hold the same kinds of cells, where both hold one."""
    return len(left) == len(right) and all(a == b or not a or not b for a, b in zip(left, right, strict=True))


def _is_table(rows: list[list[str]]) -> bool:
    if len(rows) < _ENOUGH_ROWS or len({len(row) for row in rows}) != 1:
        return False
    return all(_is_row(row) for row in rows)


def _is_row(row: list[str]) -> bool:
    values = [cell for cell in row if cell.lower() not in _ABSENT]
    named = sum(not _is_value(cell) for cell in values)
    # A marker letter (PowerSensor3), a label or a performance state may stand among the numbers.
    return len(values) - named >= max(2, len(values) / 2)


def _has_decimal_comma(cells: list[str]) -> bool:
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    commas = sum("," in cell for cell in numbers)
    return commas > 0 and not any("." in cell for cell in numbers)


def _header(lines: list[str], layout: _Layout) -> _Header:
    """Find the names, and below them perhaps the units, above the first whole row.

    A line between that begins with a value is a torn row, not a header.
    """
    above: list[tuple[int, list[str]]] = []
    for number in range(layout.data_line - 1, -1, -1):
        line = lines[number].strip().lstrip("#").strip()
        cells = split_line(line, layout.separator)
        if not line or _is_value(cells[0]):
            continue
        if len(cells) != layout.width:
            break
        above.append((number, cells))
        if len(above) == 2:
            break
    if not above:
        return _Header([f"column{i + 1}" for i in range(layout.width)], (), layout.data_line, False)
    last = above[0][0] + 1
    if len(above) == 2 and _is_unit_line(above[0][1]):
        return _Header(_unique(above[1][1]), tuple(above[0][1]), last, True)
    return _Header(_unique(above[0][1]), (), last, True)


def _is_unit_line(cells: list[str]) -> bool:
    return sum(unit_of(cell) is not None for cell in cells) >= max(1, len(cells) // 2)


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for position, name in enumerate(names):
        name = printable(name).strip() or f"column{position + 1}"
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return result


def _rows(text: str, layout: _Layout, header: _Header) -> tuple[pd.DataFrame, int]:
    separator = r"\s+" if layout.separator == " " else layout.separator
    start = _line_start(text, header.data_line)
    # A trailing separator makes one more, empty column than the header names.
    whole = _line_start(text, layout.data_line)
    first = text[whole : text.find("\n", whole)].rstrip("\r")
    columns = [*header.names, "_trailing"] if _has_trailing(first, layout) else header.names
    frame = pd.read_csv(
        io.StringIO(text[start:]),
        sep=separator,
        decimal=layout.decimal,
        header=None,
        names=columns,
        skipinitialspace=True,
        engine="c",
        on_bad_lines="skip",
        low_memory=False,
        skip_blank_lines=True,
    )
    lines = sum(1 for line in text[start:].split("\n") if line.strip())
    return frame[header.names], max(0, lines - len(frame))


def _has_trailing(line: str, layout: _Layout) -> bool:
    return layout.separator != " " and line.rstrip().endswith(layout.separator)


def _line_start(text: str, number: int) -> int:
    position = 0
    for _ in range(number):
        position = text.index("\n", position) + 1
    return position

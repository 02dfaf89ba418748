"""Find the table in a text file: its separator, header and rows, and the decimal sign of its numbers."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import COMMA, POINT, DecimalSign, is_number, quoted
from ptxbench.core.printable import printable
from ptxbench.meter.readers.cells import is_absent, unit_of
from ptxbench.meter.readers.stamps import SampleClock
from ptxbench.storage.text_file import TextFile

# An hour at 5 kHz with three rails.
MAX_BYTES = 1 << 29
# Lines in which a table must begin, and rows of one form in turn that make one; chosen.
_SNIFFED_LINES = 400
_ENOUGH_ROWS = 3
# Rows at the end of the sniffed lines that show what a row of the table looks like.
_SHOWN_ROWS = 20
# Characters and columns of a line: more is no meter's table.
_MAX_LINE = 20_000
_MAX_COLUMNS = 1_000
# Tried in this order: a comma may be a decimal sign beside the two before it.
_SEPARATORS = ("\t", ";", ",", " ")
_STAMP = re.compile(
    r"[\d./:T+ -]*\d([:/-]|\.\d+\.)\d[\d./:,T+ -]*(Z|UTC|GMT|[AP]M)?", re.ASCII | re.IGNORECASE
)
# Commas that stand before the fraction of a second or of a number in a file that separates by commas, too.
_CUT_SECOND = re.compile(r"(?<=\d:\d\d:\d\d),(?=\d{3,9}(?![\d.]))", re.ASCII)
_CUT_NUMBER = (
    re.compile(r"(?<=\d),(?=\d+\s*[mkµu]?[WVAJ]\b)", re.ASCII),
    # Separators have a blank behind them, as nvidia-smi writes them.
    re.compile(r"(?<=\d),(?=\d)", re.ASCII),
)
# What PicoScope writes beyond its range.
_OVERFLOWS = {"∞", "-∞"}


@dataclass(frozen=True)
class Piece:
    """Some rows of a table.

    Attributes:
        columns: The cells of each column that was requested.
        numbers: Number of each row among all below the header, counted from 0.
        torn: Rows with too few or too many cells, which are left out.
        marks: Rows that are marks.
    """

    columns: tuple[Sequence[str], ...]
    numbers: Sequence[int]
    torn: int
    marks: int


@dataclass(frozen=True)
class TextTable:
    """A table in a text, whose rows are read in pieces.

    Attributes:
        file: The text.
        names: Name of each column, once each.
        units: Second header line, empty where there is none.
        preamble: Lines above the rows, the header among them.
        sample: The first rows.
        separator: Separator of the cells.
        first_line: Line of the first row, counted from 0.
        header: The line of names, which may come again; "" where columns are called "column1", ...
        doubt: What is odd about the header, for a message.
        cut: Commas that separate no cells though the separator is one.
        is_ended: Whether each row ends with a separator.
        decimal: Decimal sign; None where it is not told yet.
        clock: Where no column is the time, but the file says how often it was sampled.
        mark: First cell of rows of another width that are marks and not torn.
        chosen: A column and the value that the rows to read have in it; None for every row.
        section: What stands before the sections of a mapping that are about it: "nvml." or nothing.
    """

    file: TextFile
    names: tuple[str, ...]
    units: tuple[str, ...]
    preamble: tuple[str, ...]
    sample: tuple[tuple[str, ...], ...]
    separator: str
    first_line: int
    header: str = ""
    doubt: str = ""
    cut: re.Pattern[str] | None = None
    is_ended: bool = False
    decimal: str | None = None
    clock: SampleClock | None = None
    mark: str = ""
    chosen: tuple[str, str] | None = None
    section: str = ""

    @property
    def path(self) -> Path:
        """The file."""
        return self.file.path

    @property
    def listed(self) -> str:
        """The names of the columns, for a message."""
        return ", ".join(self.names) + self.doubt

    def samples(self, name: str) -> list[str]:
        """Return the first cells of a column that are not absent."""
        at = self._position(name)
        return [row[at] for row in self.sample if not is_absent(row[at])]

    def pieces(self, names: Sequence[str]) -> Iterator[Piece]:
        """Yield the cells of some columns, in pieces of rows.

        Raises:
            InputError: The file has no such column, or cannot be read.
        """
        at = [self._position(name) for name in names]
        chosen = None if self.chosen is None else (self._position(self.chosen[0]), self.chosen[1])
        width = len(self.names) + self.is_ended
        skipped, number = self.first_line, 0
        for lines in self.file.lines():
            rows = self._rows(lines[skipped:])
            skipped = max(0, skipped - len(lines))
            whole = [n for n, row in enumerate(rows) if len(row) == width]
            marks = sum(row[0] == self.mark and len(row) != width for row in rows) if self.mark else 0
            torn = len(rows) - len(whole) - marks
            if chosen is not None:
                whole = [n for n in whole if rows[n][chosen[0]] == chosen[1]]
            columns = tuple([rows[n][i] for n in whole] for i in at)
            yield Piece(columns, [number + n for n in whole], torn, marks)
            number += len(rows)

    def _rows(self, lines: Sequence[str]) -> list[list[str]]:
        """Return the cells of each line that is neither blank nor a comment nor the header once more."""
        return [
            split_line(line, self.separator, self.cut)
            for line in lines
            if _is_written(line) and line.strip() != self.header
        ]

    def _position(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"{self.path} has no column {name!r} among {self.listed}")
        return self.names.index(name)


def open_text(path: Path) -> TextFile:
    """Return a file of a meter, an instrument or a driver, which is not read yet."""
    return TextFile(path, _MAX_LINE, MAX_BYTES)


def read_text_table(file: TextFile, separator: str | None = None, decimal: str | None = None) -> TextTable:
    """Find the header and the first row below it.

    Args:
        file: The text.
        separator: Separator of the cells, None to find it.
        decimal: Decimal sign, None to tell it from the numbers of the whole file (`with_decimal`).

    Raises:
        InputError: There is no table in it.
    """
    lines = list(islice(chain.from_iterable(file.lines()), _SNIFFED_LINES))
    table = _find_table(file, lines, separator)
    if table is None:
        raise InputError(
            f"{file.path} holds no table of numbers ({_ENOUGH_ROWS} rows of one form in turn); is it the"
            " right file?"
        )
    if len(table.names) > _MAX_COLUMNS:
        raise InputError(
            f"{file.path} has {len(table.names)} columns; a meter's table has at most {_MAX_COLUMNS}"
        )
    return replace(table, decimal=decimal)


def read_header(file: TextFile) -> TextTable:
    """Return the table whose names stand in the first line that is not blank.

    Raises:
        InputError: There is no such line.
    """
    lines = enumerate(islice(chain.from_iterable(file.lines()), _SNIFFED_LINES))
    number, line = next(((n, line) for n, line in lines if _is_written(line)), (0, ""))
    separator = next((one for one in _SEPARATORS if one in line), COMMA)
    names = unique_names(split_line(line, separator))
    return TextTable(file, names, (), (), (), separator, number + 1, line.strip())


def with_decimal(table: TextTable, columns: Sequence[str]) -> TextTable:
    """Return the table with the decimal sign of its numbers, which all cells of some columns tell.

    Where no number tells it, a comma that also separates cells is not it. Beside another separator the
    one sign that stands in every number of a column is.

    Raises:
        InputError: The numbers contradict each other, or leave it open.
    """
    if table.decimal is not None:
        return table
    if table.separator == COMMA and not any('"' in line for lines in table.file.lines() for line in lines):
        # No cell can hold a comma.
        return replace(table, decimal=POINT)
    sign = DecimalSign()
    for piece in table.pieces(columns):
        for name, cells in zip(columns, piece.columns, strict=True):
            sign.see(name, cells)
    cure = f'say it in a mapping (`mapping`): decimal = "." or "," under [{table.section}format]'
    try:
        told = sign.told()
    except InputError as error:
        raise InputError(f"{table.path} holds {error}; {cure}") from error
    if told is None and table.separator == COMMA:
        told = POINT
    if told is None and (len(sign.unclear) > 1 or sign.mixed):
        example = next(iter(sign.unclear.values()))
        raise InputError(f"{table.path}: {quoted(example)} may be thousands or a fraction; {cure}")
    return replace(table, decimal=told or next(iter(sign.unclear), POINT))


def split_line(line: str, separator: str, cut: re.Pattern[str] | None = None) -> list[str]:
    """Return the cells of one line without white space and quotes."""
    if separator == " ":
        return line.split()
    if cut is not None:
        line = cut.sub(POINT, line)
    if '"' in line:
        # One line at a time: a quote that is never closed must not swallow the lines behind it.
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True))]
    cells = line.split(separator)
    return [cell.strip() for cell in cells] if " " in line or "\t" in line else cells


def settings_of(line: str, separator: str) -> list[str]:
    """Return the cells of a line above the table, without the empty one of a trailing separator."""
    cells = split_line(line, separator)
    return cells[:-1] if len(cells) > 1 and not cells[-1] else cells


def is_stamp(cell: str) -> bool:
    """Return whether a cell is a date, a time of day, or both."""
    return _STAMP.fullmatch(cell) is not None


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names fit for a terminal, each once: "column2" for an empty one, "C.2" for a second C."""
    seen: Counter[str] = Counter()
    result = []
    for position, raw in enumerate(names, 1):
        name = printable(raw).strip() or f"column{position}"
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return tuple(result)


def _is_written(line: str) -> bool:
    """Return whether a line is neither blank nor a comment."""
    return line.lstrip()[:1] not in ("", "#")


def _is_value(cell: str) -> bool:
    return is_number(cell) or is_stamp(cell) or cell in _OVERFLOWS


def _find_table(file: TextFile, lines: list[str], separator: str | None) -> TextTable | None:
    """Return the table by the first separator that gives rows of one width, all of them values.

    A comma that would stand before fractions, too, is tried where no line of names is as wide as the rows.
    """
    for candidate in (separator,) if separator else _SEPARATORS:
        table = _table(file, lines, candidate, None)
        if table is None:
            continue
        if candidate != COMMA or table.header:
            return table
        seconds = _table(file, lines, candidate, _CUT_SECOND)
        for cut in _CUT_NUMBER:
            number = _table(file, lines, candidate, cut)
            if number is not None and number.header:
                return number
        return seconds or table
    return None


def _table(file: TextFile, lines: list[str], separator: str, cut: re.Pattern[str] | None) -> TextTable | None:
    """Return the table that begins somewhere under a separator, None where there is none.

    The table's first rows must look like its last ones: the settings that an oscilloscope writes above
    the table, a name and a number for each channel, are as wide as its rows. A line of names that comes
    again and again is none of them.
    """
    names = {line for line, count in Counter(lines).items() if count > 1 and not _has_value(line, separator)}
    rows = [
        (number, split_line(line, separator, cut))
        for number, line in enumerate(lines)
        if _is_written(line) and line not in names
    ]
    kinds = [_kinds(row) for _, row in rows]
    written = [kind for kind in kinds if any(kind)]
    (usual, _), *_ = Counter(written[-_SHOWN_ROWS:]).most_common(1) or [((), 0)]
    like = [_alike(kind, usual) for kind in kinds]
    if not _is_row(usual):
        return None
    for i in range(len(rows) - _ENOUGH_ROWS + 1):
        if all(like[i : i + _ENOUGH_ROWS]):
            alike = [row for (_, row), fits in zip(rows[i:], like[i:], strict=True) if fits]
            return _with_header(file, lines, rows[i][0], alike, separator, cut)
    return None


def _has_value(line: str, separator: str) -> bool:
    return any(map(_is_value, split_line(line, separator)))


def _kinds(row: list[str]) -> tuple[str, ...]:
    """Return what each cell is: "value", "name", or "" where it is absent."""
    return tuple(
        "" if is_absent(cell) else "value" if _is_value(cell) else "name" for cell in row[: _MAX_COLUMNS + 1]
    )


def _alike(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Return whether a row holds a value, and the same kinds of cells as another where both hold one."""
    return (
        len(left) == len(right)
        and "value" in left
        and all(a == b or not a or not b for a, b in zip(left, right, strict=True))
    )


def _is_row(kinds: tuple[str, ...]) -> bool:
    # A marker letter (PowerSensor3), a label or a performance state may stand among the numbers.
    return kinds.count("value") >= max(2, kinds.count("name"))


def _with_header(
    file: TextFile,
    lines: list[str],
    first_line: int,
    rows: list[list[str]],
    separator: str,
    cut: re.Pattern[str] | None,
) -> TextTable:
    """Find the names, and below them perhaps the units, above the first whole row.

    A line between that begins with a value is a torn row, not a header. Behind the last separator of each
    row there may be nothing.
    """
    width = len(rows[0])
    widths = (width,) if any(row[-1] for row in rows) else (width, width - 1)
    above: list[tuple[int, list[str]]] = []
    doubt = ""
    for number in range(first_line - 1, -1, -1):
        line = lines[number].strip().lstrip("#").strip()
        cells = settings_of(line, separator)
        if not line or _is_value(cells[0]):
            continue
        if len(cells) not in widths or (above and len(cells) != len(above[0][1])):
            doubt = f" (the line above the rows has {len(cells)} cells and each row {widths[-1]})"
            break
        above.append((number, cells))
        if len(above) == 2:
            break
    names = tuple(f"column{i + 1}" for i in range(widths[-1]))
    units: tuple[str, ...] = ()
    header = ""
    if above:
        lowest, cells = above[0]
        commented = all(lines[number].lstrip().startswith("#") for number, _ in above)
        if len(above) == 2 and (commented or _is_unit_line(cells)):
            units = tuple(cells)
        number, cells = above[1 if units else 0]
        names, header = unique_names(cells), lines[number].strip()
        first_line, doubt = lowest + 1, ""
    return TextTable(
        file,
        names,
        units,
        tuple(line.strip() for line in lines[:first_line] if line.strip()),
        tuple(tuple(row[: len(names)]) for row in rows),
        separator,
        first_line,
        header,
        doubt,
        cut,
        len(names) < width,
    )


def _is_unit_line(cells: list[str]) -> bool:
    return sum(unit_of(cell) is not None for cell in cells) >= max(1, len(cells) // 2)

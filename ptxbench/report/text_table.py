"""Tables as text: in a terminal no name, number or status is cut or broken, in a pipe nothing is.

Where a terminal is too narrow, what wraps at blanks is wrapped first, and what a status says beside its word
goes into notes below the table. Then optional columns are left out, first those that say the same in all
rows, then others in a fixed order; lines below the table name them. Where even that does not fit, the longest
names stand above their rows, and at last a row is a line for each column.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import zip_longest

from ptxbench.core.printable import printable
from ptxbench.core.wrap import width_of, wrapped

_GAP = "  "
# Text is not wrapped to less than this.
_TEXT_WIDTH = 20
# Order of a column that is left out only where it says the same in every row.
IF_SAME = 99
# Where text may be wrapped: before a blank, and behind a bar between SASS opcodes.
_PIECE = re.compile(r"\s*[^\s|]+\|*|\s*\|+")


class Kind(Enum):
    """What the cells of a column are."""

    TEXT = auto()  # wrapped at blanks
    NUMBER = auto()  # never wrapped, aligned to the right
    STATUS = auto()  # a word, and behind a colon what is said of it


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        heading: Its heading.
        kind: What its cells are.
        drop: Place in the order in which columns are left out, from 1; 0 for one that never is, `IF_SAME` for
            one that is where it says the same in every row.
    """

    heading: str
    kind: Kind = Kind.TEXT
    drop: int = 0


def output_width() -> int | None:
    """Return the columns of the terminal, or None where the output is no terminal."""
    return width_of(sys.stdout)


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Return a table, each line without blanks at its end.

    Args:
        columns: The columns.
        rows: Cells, one a column.
        width: Columns of the terminal; None: as wide as needed, one line a row.
    """
    cells = [list(map(printable, row)) for row in rows]
    everything = list(range(len(columns)))
    natural = [_natural(columns, cells, i) for i in everything]
    if width is None:
        shown = ([column.heading for column in columns], *cells)
        return "\n".join(line for row in shown for line in _row(row, columns, everything, natural))
    notes: list[str] = []
    if _total(natural) > width:
        cells, notes = _noted(columns, cells)
    least = [_least(columns, cells, i) for i in everything]
    kept, named = _kept(columns, cells, least, everything, width), None
    if not _fits(least, kept, width):
        texts = [i for i in everything if columns[i].kind is Kind.TEXT]
        named = max(texts, key=lambda i: max((len(row[i]) for row in cells), default=0), default=0)
        kept = _kept(columns, cells, least, [i for i in everything if i != named], width - len(_GAP))
    if named is None or _fits(least, kept, width - len(_GAP)):
        lines = _ruled(columns, cells, least, kept, width, named)
    else:
        kept, lines = everything, _records(columns, cells, width)
    below = [*_left_out(columns, cells, {*kept, named}, width), *notes]
    return "\n".join([*lines, *(part for line in below for part in wrapped(line, width))])


def _ruled(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    least: Sequence[int],
    kept: Sequence[int],
    width: int,
    named: int | None,
) -> list[str]:
    """Return the lines of a table below a rule, with the column `named`, if any, above its rows."""
    indent = "" if named is None else _GAP
    widths = _widths(columns, rows, least, kept, width - len(indent))
    headings = [column.heading for column in columns]
    lines = [] if named is None else [headings[named]]
    lines += [indent + line for line in _row(headings, columns, kept, widths)]
    lines.append(indent + _GAP.join("-" * width for width in widths))
    above = None
    for row in rows:
        if named is not None and row[named] != above:
            above = row[named]
            lines.append(above)
        lines += [indent + line for line in _row(row, columns, kept, widths)]
    return lines


def _noted(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
    """Return rows whose statuses are words, with the number of a note where more is said, and the notes."""
    numbers: dict[str, int] = {}
    found = [list(row) for row in rows]
    for i, column in enumerate(columns):
        for row in found if column.kind is Kind.STATUS else ():
            word, colon, note = row[i].partition(": ")
            if colon:
                row[i] = f"{word} [{numbers.setdefault(note, len(numbers) + 1)}]"
    return found, [f"[{number}] {note}" for note, number in numbers.items()]


def _fits(least: Sequence[int], kept: Sequence[int], width: int) -> bool:
    return _total([least[i] for i in kept]) <= width


def _kept(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    least: Sequence[int],
    among: Sequence[int],
    width: int,
) -> list[int]:
    """Return the columns that fit, each at its least width; those that must stay do in any case."""
    kept = list(among)
    same = {i for i in kept if columns[i].kind is Kind.TEXT and _same(rows, i) is not None}
    droppable = [i for i in kept if columns[i].drop and (columns[i].drop != IF_SAME or i in same)]
    for i in sorted(droppable, key=lambda i: (i not in same, columns[i].drop)):
        if _fits(least, kept, width):
            break
        kept.remove(i)
    return kept


def _same(rows: Sequence[Sequence[str]], i: int) -> str | None:
    """Return what a column says in every row, None where rows differ or are too few to tell."""
    values = {row[i] for row in rows}
    return values.pop() if len(values) == 1 else None


def _left_out(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Collection[int | None], width: int
) -> list[str]:
    """Return lines that name the columns that are left out, and what they say in every row."""
    out = [i for i in range(len(columns)) if i not in kept]
    same = [f"{columns[i].heading} {_same(rows, i)}" for i in out if _same(rows, i) not in (None, "", "-")]
    other = [columns[i].heading for i in out if _same(rows, i) is None]
    return [
        *([f"in every row: {', '.join(same)}"] if same else []),
        *([f"not shown at {width} columns: {', '.join(other)}"] if other else []),
    ]


def _widths(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    least: Sequence[int],
    kept: Sequence[int],
    width: int,
) -> list[int]:
    """Return the width of each column that is kept: the least, and what is left from the first column on."""
    widths = [least[i] for i in kept]
    spare = width - _total(widths)
    for place, i in enumerate(kept):
        more = min(max(spare, 0), max(_natural(columns, rows, i) - widths[place], 0))
        widths[place] += more
        spare -= more
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]], i: int) -> int:
    return max(len(columns[i].heading), *(len(row[i]) for row in rows), 0)


def _least(columns: Sequence[Column], rows: Sequence[Sequence[str]], i: int) -> int:
    heading = max(map(len, columns[i].heading.split()), default=0)
    if columns[i].kind is not Kind.TEXT:
        return max(heading, *(len(row[i]) for row in rows), 0)
    longest = max((len(piece.strip()) for row in rows for piece in _PIECE.findall(row[i])), default=0)
    return min(_natural(columns, rows, i), max(heading, longest, _TEXT_WIDTH))


def _records(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return a line for each cell of each row, behind its heading; those below the first are indented."""
    headings = [f"{_GAP if i else ''}{column.heading}" for i, column in enumerate(columns)]
    longest = max(map(len, headings))
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for heading, cell in zip(headings, row, strict=True):
            lines += wrapped(f"{heading:<{longest}}{_GAP}{cell}".rstrip(), width)
    return lines


def _row(
    cells: Sequence[str], columns: Sequence[Column], kept: Sequence[int], widths: Sequence[int]
) -> list[str]:
    """Return one row as lines."""
    parts = [_parts(cells[i], width) for i, width in zip(kept, widths, strict=True)]
    return [
        _GAP.join(
            part.rjust(width) if columns[i].kind is Kind.NUMBER else part.ljust(width)
            for i, part, width in zip(kept, line, widths, strict=True)
        ).rstrip()
        for line in zip_longest(*parts, fillvalue="")
    ]


def _parts(cell: str, width: int) -> list[str]:
    """Return a cell as lines, broken between its pieces."""
    if len(cell) <= width:
        return [cell]
    lines = [""]
    for piece in _PIECE.findall(cell):
        if lines[-1] and len(lines[-1] + piece) > width:
            lines.append(piece.lstrip())
        else:
            lines[-1] += piece
    return lines

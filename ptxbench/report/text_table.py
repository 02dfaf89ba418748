"""Tables as text: in a terminal no number and no status is cut, in a pipe nothing is.

Where a terminal is too narrow, names, SASS and reasons are wrapped first; then optional columns are left
out in a fixed order, and a line below the table names them.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import zip_longest

from ptxbench.core.printable import printable

_GAP = "  "
# Names are not wrapped to less than this.
_NAME_WIDTH = 12


class Kind(Enum):
    """What the cells of a column are."""

    TEXT = auto()  # wrapped anywhere
    NUMBER = auto()  # never wrapped, aligned to the right
    STATUS = auto()  # its first word is never wrapped


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        heading: Its heading.
        kind: What its cells are.
        drop: Place in the order in which columns are left out, from 1; 0 for a column that never is.
    """

    heading: str
    kind: Kind = Kind.TEXT
    drop: int = 0


def output_width() -> int | None:
    """Return the columns of the terminal, or None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Return a table, each line without blanks at its end.

    Args:
        columns: The columns.
        rows: Cells, one a column.
        width: Columns of the terminal; None: as wide as needed, one line a row.
    """
    cells = [list(map(printable, row)) for row in rows]
    if width is None:
        return "\n".join(_lines(columns, cells, [_natural(columns, cells, i) for i in range(len(columns))]))
    kept = _kept(columns, cells, width)
    shown = [columns[i] for i in kept]
    lines = _lines(
        shown, [[row[i] for i in kept] for row in cells], _widths(columns, cells, kept, width), ruled=True
    )
    dropped = [column.heading for i, column in enumerate(columns) if i not in kept]
    if dropped:
        lines.append(f"not shown at {width} columns: {', '.join(dropped)}")
    return "\n".join(lines)


def _kept(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns that fit, each at its least width; those that must stay do in any case."""
    kept = list(range(len(columns)))
    least = [_least(columns, rows, i) for i in kept]
    for i in sorted((i for i in kept if columns[i].drop), key=lambda i: columns[i].drop):
        if sum(least[k] for k in kept) + len(_GAP) * (len(kept) - 1) <= width:
            break
        kept.remove(i)
    return kept


def _widths(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int], width: int
) -> list[int]:
    """Return the width of each column that is kept: the least, and what is left from the first column on."""
    widths = [_least(columns, rows, i) for i in kept]
    spare = width - sum(widths) - len(_GAP) * (len(kept) - 1)
    for place, i in enumerate(kept):
        more = min(max(spare, 0), max(_natural(columns, rows, i) - widths[place], 0))
        widths[place] += more
        spare -= more
    return widths


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]], i: int) -> int:
    return max(len(columns[i].heading), *(len(row[i]) for row in rows), 0)


def _least(columns: Sequence[Column], rows: Sequence[Sequence[str]], i: int) -> int:
    heading = max(map(len, columns[i].heading.split()), default=0)
    if columns[i].kind is Kind.NUMBER:
        return max(heading, *(len(row[i]) for row in rows), 0)
    if columns[i].kind is Kind.STATUS:
        return max(heading, *(len(row[i].split(" ", 1)[0]) for row in rows), 0)
    return min(_natural(columns, rows, i), max(heading, _NAME_WIDTH))


def _lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], *, ruled: bool = False
) -> list[str]:
    headings = [column.heading for column in columns]
    lines = _wrapped(columns, headings, widths)
    if ruled:
        lines.append(_GAP.join("-" * width for width in widths))
    for row in rows:
        lines += _wrapped(columns, row, widths)
    return lines


def _wrapped(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return one row as lines."""
    parts = [
        textwrap.wrap(cell, width, break_on_hyphens=False) if len(cell) > width else [cell]
        for cell, width in zip(cells, widths, strict=True)
    ]
    return [
        _GAP.join(
            part.rjust(width) if column.kind is Kind.NUMBER else part.ljust(width)
            for column, part, width in zip(columns, line, widths, strict=True)
        ).rstrip()
        for line in zip_longest(*parts, fillvalue="")
    ]

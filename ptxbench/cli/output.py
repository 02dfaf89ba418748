"""How commands print: tables for people, aligned text for pipes, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import click

# On a narrow terminal the longer columns are folded, so that names stay whole.
_NAME_WIDTH = 20


def print_json(document: dict[str, Any]) -> None:
    """Print JSON; a number that is not known (NaN) is null."""
    click.echo(json.dumps(_without_nan(document), indent=1))


def print_encoded(document: object, beside: dict[str, Any]) -> None:
    """Print a dataclass as it is kept in JSON files, with `beside` before it."""
    from ptxbench.storage.codec import encode

    plain = encode(document)
    assert isinstance(plain, dict)  # noqa: S101
    print_json({**beside, **plain})


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Print a table: drawn to fit a terminal, or in plain columns as wide as they need where there is none.

    Args:
        headings: One a column.
        rows: Cells, one a column.
        numbers: Headings of the columns that are aligned to the right.
    """
    if sys.stdout.isatty():
        _print_drawn(headings, rows, numbers)
    else:
        _print_plain(headings, rows, numbers)


def _print_drawn(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column, heading in enumerate(headings):
        short = all(len(row[column]) <= _NAME_WIDTH for row in rows)
        table.add_column(
            heading, justify="right" if heading in numbers else "left", overflow="fold", no_wrap=short
        )
    for row in rows:
        # Text, so that brackets are not read as markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _print_plain(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> None:
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        cells = (
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for heading, cell, width in zip(headings, line, widths, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value

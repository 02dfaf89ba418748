"""How commands print: tables for people and pipes, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ptxbench.cli.terminal import as_written
from ptxbench.report.text_table import Column, Kind, output_width, render_table
from ptxbench.storage.codec import encode

if TYPE_CHECKING:
    from ptxbench.catalogue.search import Selection


def print_json(document: dict[str, Any]) -> None:
    """Print JSON; a number that is not known (NaN), or has no bound, is null: JSON has no word for these."""
    plain = encode(document)
    try:
        text = json.dumps(plain, indent=1, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(json.dumps(plain), parse_constant=lambda _: None), indent=1)
    click.echo(text, file=as_written())


def encoded(document: object) -> dict[str, Any]:
    """Return a dataclass as it is kept in JSON files."""
    plain = encode(document)
    assert isinstance(plain, dict)  # noqa: S101
    return plain


def print_encoded(document: object, beside: dict[str, Any]) -> None:
    """Print a dataclass as it is kept in JSON files, with `beside` before it."""
    print_json({**beside, **encoded(document)})


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> None:
    """Print a table: wrapped to fit a terminal, or in columns as wide as they need where there is none.

    Args:
        headings: One a column.
        rows: Cells, one a column.
        numbers: Headings of the columns of numbers: aligned to the right, never cut.
        optional: Headings of the columns that a narrow terminal leaves out, in this order.
    """
    columns = [
        Column(
            heading,
            Kind.NUMBER if heading in numbers else Kind.TEXT,
            optional.index(heading) + 1 if heading in optional else 0,
        )
        for heading in headings
    ]
    click.echo(render_table(columns, rows, output_width()))


def say(text: str) -> None:
    """Say something beside the output: one line on standard error."""
    click.echo(f"ptxbench: {text}", err=True)


def say_found(selection: Selection) -> None:
    """Say what was found by something else than its name."""
    for sentence in selection.sentences:
        say(sentence)


def say_lost(lost: Sequence[str], what: str) -> None:
    """Say which trials or recordings have to be measured again, if any.

    Args:
        lost: What they are called.
        what: What they are: "trial" or "recording".
    """
    if lost:
        several = len(lost) > 1
        text = f"the readings of {len(lost)} {what}{'s' * several} are missing or damaged"
        say(f"{text} ({lost[0]}{', ...' * several}); measuring again")

"""`ptxbench diff`: runs set beside each other."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.options import AllRows
from ptxbench.cli.output import print_encoded, print_json, print_table
from ptxbench.cli.parameters import Fraction
from ptxbench.core.condition import operands_text
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json
from ptxbench.core.status import Status
from ptxbench.storage.codec import encode
from ptxbench.storage.shipped import find_table

if TYPE_CHECKING:
    from ptxbench.report.diff import Agreement, RowDiff, RunDiff, RunSide

_WHAT = ("instruction", "opt", "protocol", "operands")
_NUMBERS = ("A", "B", "B/A", "change")
_OPTIONAL = ("protocol", "unit", "B/A", "operands")


@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of `ptxbench diff`.

    Attributes:
        limit: Exit with 1 if a number differs by more than this, such as 2%, and by more than both intervals.
    """

    run_a: Annotated[Path, Arg()]
    others: Annotated[tuple[Path, ...], Arg(metavar="RUN_B [RUN_C]...")]
    limit: Annotated[float | None, Opt(kind=Fraction(), metavar="FRACTION", flag="--fail-over")] = None
    all_rows: AllRows = False
    as_json: Json = False


@command_of(_Options, "diff")
def command(options: _Options) -> None:
    """Compare the tables of runs: each RUN_B over RUN_A.

    The scale factor between two runs comes first. Then come the rows that differ beyond both 95% intervals
    apart from that factor, the largest first, and the rows that became other SASS.
    """
    from ptxbench.report.diff import diff_runs, over_limit
    from ptxbench.storage.run_folder import RunFolder

    found = []
    with RunFolder.open(find_table(options.run_a)) as a:
        for path in options.others:
            with RunFolder.open(find_table(path)) as b:
                found.append(diff_runs(a, b))
    if options.as_json:
        _print_json(found)
    else:
        for number, one in enumerate(found):
            click.echo("\n" * (2 * (number > 0)), nl=False)
            _print(one, options.all_rows)
    over = [] if options.limit is None else [row for one in found for row in over_limit(one, options.limit)]
    if over:
        rows = "1 row differs" if len(over) == 1 else f"{len(over)} rows differ"
        click.echo(
            f"ptxbench: {rows} by more than {options.limit:.3g} and by more than both intervals", err=True
        )
        sys.exit(1)


def _print_json(found: Sequence[RunDiff]) -> None:
    if len(found) == 1:
        print_encoded(found[0], {})
    else:
        print_json({"diffs": [encode(one) for one in found]})


def _print(found: RunDiff, all_rows: bool) -> None:
    from ptxbench.storage.run_spread import spread_sentence

    for letter, side in (("A", found.a), ("B", found.b)):
        click.echo(f"{letter}: {side.path}, {_boards(side)}")
    click.echo("one board" if found.same_board else "two different boards")
    sentences = (
        spread_sentence(side.gpus[0], other_boards=not found.same_board) for side in (found.a, found.b)
    )
    for line in dict.fromkeys(filter(None, sentences)):
        click.echo(line)
    for one in found.agreements:
        click.echo("\n" + "\n".join(_sentences(one)))
    _print_movers(found)
    _print_sass(found)
    if all_rows:
        click.echo("\nall rows that both runs hold")
        rows = [row for row in found.rows if row.a_status and row.b_status]
        print_table((*_WHAT, "A", "B", "unit", "B/A", "note"), [_cells(row) for row in rows], _NUMBERS)
    for line in _not_compared(found.rows):
        click.echo(line)


def _boards(side: RunSide) -> str:
    boards = ", ".join(f"{gpu.name} {gpu.uuid_hash}" for gpu in side.gpus)
    kind = side.gpus[0].kind
    note = "" if kind == "real" else f" ({kind.upper()}, no measurement)"
    return f"{boards}{note}, driver {side.gpus[0].driver}, source {side.source}"


def _sentences(one: Agreement) -> list[str]:
    rows = f"{one.rows} row{'s' if one.rows > 1 else ''}"
    if math.isnan(one.factor):
        lines = [f"{one.protocol}, {rows} of both: too few for a scale factor"]
    else:
        lines = [f"{one.protocol}, {rows} of both: B is {one.factor:.4f} times A (scale factor)"]
        if not math.isnan(one.explained):
            lines[0] += f", which explains {max(one.explained, 0.0):.0%} of the spread"
    lines.append(f"  as measured: {_changes(one.median, one.p95, one.beyond, one.judged)}")
    if not math.isnan(one.factor):
        left = _changes(one.median_left, one.p95_left, one.beyond_left, one.judged)
        lines.append(f"  scale factor removed: {left}")
    lines.append("  5% is expected by chance" if one.judged else "  its rows have no intervals")
    return lines


def _changes(median: float, p95: float, beyond: int, judged: int) -> str:
    """Return by how much rows change, and how many by more than their intervals allow."""
    text = f"rows change by {median:.2%} (median), {p95:.2%} (95th percentile)"
    if not judged:
        return text
    return f"{text}; {beyond / judged:.0%} ({beyond} of {judged}) by more than both 95% intervals allow"


def _print_movers(found: RunDiff) -> None:
    from ptxbench.report.diff import movers

    moved = movers(found)
    if not moved:
        click.echo("\nwith the scale factor removed, no row changes by more than both intervals allow")
        return
    click.echo("\nrows that change by more than both intervals allow, scale factor removed, largest first")
    rows = [(*_cells(mover.row)[:-1], f"{mover.change:+.2%}", _clocks(mover.row)) for mover in moved]
    print_table((*_WHAT, "A", "B", "unit", "B/A", "change", "MHz"), rows, _NUMBERS, _OPTIONAL)


def _print_sass(found: RunDiff) -> None:
    other = {
        (row.instruction, row.opt_level, row.a_sass, row.b_sass): None
        for row in found.rows
        if row.same_sass is False
    }
    if other:
        click.echo("\nother SASS")
        print_table(("instruction", "opt", "SASS in A", "SASS in B"), list(other))


def _not_compared(rows: Sequence[RowDiff]) -> list[str]:
    """Return a line for each kind of rows that are not compared, with their number."""
    missing = (None, Status.NOT_REACHED)
    neither = sum(row.a_status in missing and row.b_status in missing for row in rows)
    only_a = sum(row.a_status not in missing and row.b_status in missing for row in rows)
    only_b = sum(row.a_status in missing and row.b_status not in missing for row in rows)
    both = [row for row in rows if row.a_status not in missing and row.b_status not in missing]
    lines = [""]
    if neither:
        lines.append(f"{_rows(neither)} reached by neither run")
    if only_a or only_b:
        lines.append(f"{_rows(only_a)} reached by A alone, {only_b} by B alone")
    for letter, changed in (
        ("A", [row.b_status for row in both if row.a_status == Status.OK != row.b_status]),
        ("B", [row.a_status for row in both if row.b_status == Status.OK != row.a_status]),
    ):
        if changed:
            other = "B" if letter == "A" else "A"
            kinds = ", ".join(f"{changed.count(kind)} {kind}" for kind in dict.fromkeys(changed))
            lines.append(f"{_rows(len(changed))} valid in {letter} alone; in {other}: {kinds}")
    return lines if len(lines) > 1 else []


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _cells(row: RowDiff) -> tuple[str, ...]:
    from ptxbench.report.text import number

    what = (row.instruction, row.opt_level, row.protocol, operands_text(row.operands, row.lanes))
    ratio = f"{row.ratio:.4f}" if row.compared else "-"
    return (*what, number(row.a), number(row.b), "pJ", ratio, _note(row))


def _clocks(row: RowDiff) -> str:
    """Return the clocks of both where they are unlike, as boards run products of matrices."""
    return f"{row.a_clock_mhz:.0f}, {row.b_clock_mhz:.0f}" if row.at_unlike_clocks else ""


def _note(row: RowDiff) -> str:
    notes = []
    if row.beyond:
        notes.append("beyond both intervals")
    if row.same_sass is False:
        notes.append("other SASS")
    if row.at_unlike_clocks:
        notes.append(f"at {_clocks(row)} MHz")
    for letter, status in (("A", row.a_status), ("B", row.b_status)):
        if status != "ok":
            notes.append(f"{letter}: {status}")
    return ", ".join(notes)

"""`ptxbench diff`: two runs set beside each other."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import json_option
from ptxbench.cli.output import print_encoded, print_table

if TYPE_CHECKING:
    from ptxbench.report.diff import Agreement, RowDiff, RunSide

_HEADINGS = ("instruction", "level", "protocol", "operands", "A", "B", "unit", "B/A", "remark")
_NUMBERS = ("A", "B", "B/A")


@click.command(name="diff")
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@json_option
def command(run_a: Path, run_b: Path, as_json: bool) -> None:
    """Compare the tables of two runs row by row, RUN_B over RUN_A.

    Rows that differ by more than both 95% intervals are marked; the summary says how far the runs are
    apart, and how much of that one common factor explains.
    """
    from ptxbench.report.diff import diff_runs
    from ptxbench.storage.run_folder import RunFolder
    from ptxbench.storage.shipped import find_table

    with RunFolder.open(find_table(run_a)) as a, RunFolder.open(find_table(run_b)) as b:
        found = diff_runs(a, b)
    if as_json:
        print_encoded(found, {})
        return
    for letter, side in (("A", found.a), ("B", found.b)):
        click.echo(f"{letter}: {side.path}, {_boards(side)}")
    click.echo("one board\n" if found.same_board else "NOT one and the same board\n")
    shared = [row for row in found.rows if row.a_status and row.b_status]
    print_table(_HEADINGS, [_cells(row) for row in shared], _NUMBERS)
    only_a = sum(row.b_status is None for row in found.rows)
    only_b = sum(row.a_status is None for row in found.rows)
    if only_a or only_b:
        click.echo(f"\n{only_a} more rows are in A alone, {only_b} in B alone")
    for one in found.agreements:
        click.echo("\n" + "\n".join(_sentences(one)))


def _boards(side: RunSide) -> str:
    boards = ", ".join(f"{gpu.name} {gpu.uuid_hash}" for gpu in side.gpus)
    kind = side.gpus[0].kind
    remark = "" if kind == "real" else f" ({kind.upper()}, no measurement)"
    return f"{boards}{remark}, driver {side.gpus[0].driver}, source {side.source}"


def _cells(row: RowDiff) -> tuple[str, ...]:
    from ptxbench.report.diff import NUMBERS
    from ptxbench.report.text import number

    what = (row.instruction, row.opt_level, row.protocol, row.operands)
    _, unit = NUMBERS[row.protocol]
    ratio = f"{row.ratio:.4f}" if row.compared else "-"
    return (*what, number(row.a), number(row.b), unit, ratio, _remark(row))


def _remark(row: RowDiff) -> str:
    remarks = []
    if row.beyond:
        remarks.append("beyond both intervals")
    if row.same_sass is False:
        remarks.append("other SASS")
    for letter, status in (("A", row.a_status), ("B", row.b_status)):
        if status != "ok":
            remarks.append(f"{letter}: {status}")
    return ", ".join(remarks)


def _sentences(one: Agreement) -> list[str]:
    judged = f"{one.beyond} of {one.judged} differ beyond both 95% intervals (5% would by chance)"
    count = f"{one.rows} row{'s' if one.rows > 1 else ''} compared"
    lines = [
        f"{one.protocol}: {count}; {judged if one.judged else 'no intervals are known'}",
        f"  |B/A - 1|: median {one.median:.2%}, 95th percentile {one.p95:.2%}",
    ]
    if not math.isnan(one.factor):
        lines.append(
            f"  one factor of {one.factor:.4f} leaves: median {one.median_left:.2%},"
            f" 95th percentile {one.p95_left:.2%}"
            + (f", {one.beyond_left} of {one.judged} beyond both intervals" if one.judged else "")
        )
    if not math.isnan(one.explained):
        lines.append(f"  it explains {max(one.explained, 0.0):.0%} of the spread")
    return lines

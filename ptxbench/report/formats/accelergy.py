"""An energy reference table (ERT) of Accelergy 0.4, in YAML: one action an instruction, energies in pJ.

Accelergy keeps one number an action, so that intervals, SASS and reasons stand in comments. Components are
what executes an instruction, since what a thread, a warp and a warpgroup take are no quantities of one kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ptxbench.core.printable import printable
from ptxbench.report.formats import RunReport
from ptxbench.report.text import number
from ptxbench.storage.schema import TableRow

_HEAD = """\
# What one more execution adds on a busy GPU, in Accelergy's unit, pJ. Fetch, issue, registers and result are
# in it: a component with parts of its own would count these twice. Static power is not.
ERT:
  version: "0.4"
  tables:"""


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return one document with the components of all runs."""
    tables = [line for report in reports for line in _tables(report)] or ["    []"]
    return "\n".join([*(f"# {printable(_about(report))}" for report in reports), _HEAD, *tables])


def _about(report: RunReport) -> str:
    return f"{report.path}: {report.gpu.title}, board {report.gpu.uuid_hash}, driver {report.gpu.driver}"


def _tables(report: RunReport) -> Iterator[str]:
    rows = [row for row in report.rows if row.status.has_number]
    for unit in dict.fromkeys(row.unit for row in rows):
        yield f"    - name: {_quoted(f'{report.path}.{unit}')}"
        yield "      actions:"
        for row in rows:
            if row.unit == unit:
                yield from _action(row)


def _action(row: TableRow) -> Iterator[str]:
    condition = {"opt_level": row.opt_level, "operands": row.operands_text, "protocol": row.protocol}
    arguments = ", ".join(f"{name}: {_quoted(value)}" for name, value in condition.items())
    said = f"± {number(row.ci95_pj, 2)} (95%), {row.status}, {row.sass}"
    yield f"        - name: {_quoted(row.instruction)}"
    yield f"          arguments: {{{arguments}}}"
    yield f"          energy: {row.energy_pj:.6g}  # {printable(said)}"


def _quoted(text: str) -> str:
    return json.dumps(printable(text), ensure_ascii=False)

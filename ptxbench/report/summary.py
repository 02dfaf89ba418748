"""One line an instruction: what a reader looks up first."""

from __future__ import annotations

from collections.abc import Sequence

from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.printable import markdown_code, markdown_text
from ptxbench.core.status import Status
from ptxbench.report.text import number
from ptxbench.storage.schema import TableRow

_HEADINGS = (
    "instruction",
    "SASS at -O3",
    "energy at -O3, pJ",
    "energy at -O0, pJ",
    "latency at -O3, cycles",
    "latency at -O0, cycles",
)
_SASS_WIDTH = 30


def summary_table(rows: Sequence[TableRow], pattern: str = "random") -> str:
    """Return a Markdown table: dynamic energy with its 95% interval, and latency, at O3 and O0.

    Args:
        rows: A run's rows, both protocols.
        pattern: Operand pattern to show.
    """
    cells = {(r.instruction, r.opt_level, r.protocol): r for r in rows if r.operands_text == pattern}
    lines = ["| " + " | ".join(_HEADINGS) + " |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for name in dict.fromkeys(r.instruction for r in rows):
        fast = cells.get((name, OptLevel.O3, DYNAMIC))
        energies = [_energy(cells.get((name, level, DYNAMIC))) for level in (OptLevel.O3, OptLevel.O0)]
        latencies = [_latency(cells.get((name, level, ARAFA))) for level in (OptLevel.O3, OptLevel.O0)]
        lines.append("| " + " | ".join((markdown_code(name), _sass(fast), *energies, *latencies)) + " |")
    return "\n".join(lines) + "\n"


def _sass(row: TableRow | None) -> str:
    if row is None:
        return "-"
    whole = len(row.sass) <= _SASS_WIDTH
    return markdown_text(row.sass) if whole else f"{row.sass_per_ptx:.3g} instructions"


def _energy(row: TableRow | None) -> str:
    if row is None:
        return "-"
    if row.status is not Status.OK:
        return row.status
    return f"{number(row.dynamic_pj)} ± {number(row.dynamic_ci95_pj, 2)}{markdown_text(row.mark)}"


def _latency(row: TableRow | None) -> str:
    return "-" if row is None else number(row.latency_cycles, 3)

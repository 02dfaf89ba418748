"""LaTeX (booktabs) in the shape of Table I of Arafa et al. (2020): by category, with GPUs side by side.

One table a protocol. Each run has two columns, as the GPUs of the paper: -O3 ("optimized") and -O0
("non-optimized").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ptxbench.core.condition import ARAFA, DYNAMIC, OptLevel
from ptxbench.core.printable import latex_text, printable
from ptxbench.core.status import Status
from ptxbench.report.formats import RunReport
from ptxbench.report.text import number
from ptxbench.storage.schema import PJ_PER_NJ, TableRow

_LEVELS = (OptLevel.O3, OptLevel.O0)
_MARKED = r"\par * valid, with something odd about it, such as loops at unlike clocks: see the status in csv"
_CAPTIONS = {
    ARAFA: "Energy of one instruction by Eq.~1 of Arafa et al.\\ (2020), MTSM, in nJ",
    DYNAMIC: "Dynamic energy of one instruction with its 95\\% interval, in pJ",
}


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return the tables; the preamble needs the package booktabs."""
    tables = [
        _table(reports, protocol)
        for protocol in sorted({row.protocol for report in reports for row in report.shown})
    ]
    notes = [f"% {printable(report.path)}: {report.footer}" for report in reports if report.footer]
    return "\n".join([*tables, *notes])


def _table(reports: Sequence[RunReport], protocol: str) -> str:
    cells = [
        {
            (row.instruction, row.operands_text, row.opt_level): row
            for row in report.shown
            if row.protocol == protocol
        }
        for report in reports
    ]
    rows = {(key[0], key[1]): row.category for run in cells for key, row in run.items()}
    columns = 2 * len(reports)
    lines = [
        *(f"% {printable(report.path)}" for report in reports),
        r"\begin{table}",
        rf"\caption{{{_CAPTIONS.get(protocol, latex_text(protocol))}}}",
        rf"\begin{{tabular}}{{l{'r' * columns}}}",
        r"\toprule",
        " & ".join(
            ["", *(rf"\multicolumn{{2}}{{c}}{{{latex_text(report.gpu.title)}}}" for report in reports)]
        )
        + r" \\",
        "".join(rf"\cmidrule(lr){{{2 * n + 2}-{2 * n + 3}}}" for n in range(len(reports))),
        " & ".join(["Instruction", *["Optimized", "Non-optimized"] * len(reports)]) + r" \\",
    ]
    for category in dict.fromkeys(rows.values()):
        lines.append(r"\midrule")
        lines.append(rf"\multicolumn{{{columns + 1}}}{{l}}{{\textbf{{{latex_text(category)}}}}} \\")
        for instruction, operands in (key for key, of in rows.items() if of == category):
            name = instruction if operands == "random" else f"{instruction} ({operands})"
            found = [_cell(run.get((instruction, operands, level))) for run in cells for level in _LEVELS]
            lines.append(" & ".join([rf"\texttt{{{latex_text(name)}}}", *found]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if any(row.mark for run in cells for row in run.values()):
        lines.append(_MARKED)
    return "\n".join([*lines, r"\end{table}", ""])


def _cell(row: TableRow | None) -> str:
    if row is None:
        return "--"
    if row.status is not Status.OK:
        return latex_text(str(row.status))
    if row.protocol == ARAFA:
        # Runs from before 0.3.0 have no interval of it.
        energy_nj, ci95_nj = row.mtsm_pj / PJ_PER_NJ, row.mtsm_ci95_pj / PJ_PER_NJ
        return number(energy_nj) + ("" if math.isnan(ci95_nj) else rf" $\pm$ {number(ci95_nj, 2)}")
    if row.protocol != DYNAMIC:
        return f"{number(row.mtsm_pj)} pJ" if math.isnan(row.dynamic_pj) else f"{number(row.dynamic_pj)} pJ"
    return rf"{number(row.dynamic_pj)} $\pm$ {number(row.dynamic_ci95_pj, 2)}{row.mark}"

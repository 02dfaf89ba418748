"""Tables for a terminal or a pipe, one a protocol, and energies per byte and operation."""

from __future__ import annotations

from collections.abc import Sequence

from ptxbench.core.printable import printable
from ptxbench.report.formats import RunReport
from ptxbench.report.text import rates_text, tables_text


def render(reports: Sequence[RunReport], width: int | None) -> str:
    """Return the runs one below the other; of several, each below its folder's name."""
    return "\n\n\n".join(_one(report, width, named=len(reports) > 1) for report in reports)


def _one(report: RunReport, width: int | None, *, named: bool) -> str:
    parts = (
        printable(f"{report.path}: {report.gpu.title}") if named else "",
        tables_text(report.shown, report.gpu, width),
        rates_text(report.shown, report.gpu, width),
        report.footer,
    )
    return "\n\n".join(part for part in parts if part)

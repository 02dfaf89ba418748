"""Markdown: a summary with one line an instruction, then every row, and energies per byte and operation."""

from __future__ import annotations

from collections.abc import Sequence

from ptxbench.core.printable import markdown_text
from ptxbench.report.formats import RunReport
from ptxbench.report.summary import summary_table
from ptxbench.report.text import HEADINGS, markdown_rates, markdown_table


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return the runs one below the other; of several, each below a heading."""
    return "\n".join(_one(report, named=len(reports) > 1) for report in reports)


def _one(report: RunReport, *, named: bool) -> str:
    parts = (
        f"## {markdown_text(f'{report.path}: {report.gpu.title}')}\n" if named else "",
        summary_table(report.shown),
        *(markdown_table(report.shown, protocol) for protocol in HEADINGS),
        markdown_rates(report.shown),
        f"{report.footer}\n" if report.footer else "",
    )
    return "\n".join(part for part in parts if part).rstrip("\n")

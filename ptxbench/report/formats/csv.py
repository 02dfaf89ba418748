"""CSV with every row: the columns of table.csv behind the run's folder, its GPU and its kind."""

from __future__ import annotations

from collections.abc import Sequence

from ptxbench.report.formats import RunReport
from ptxbench.storage.table import csv_lines


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return one table of all runs."""
    return "\n".join(
        csv_lines(
            ("run", "gpu", "kind"),
            [
                ((report.path, report.gpu.name, str(report.gpu.kind)), row)
                for report in reports
                for row in report.rows
            ],
        )
    )

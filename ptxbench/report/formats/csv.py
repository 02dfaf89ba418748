"""CSV with every row: the columns of table.csv behind the run's folder, its GPU and its kind."""

from __future__ import annotations

from collections.abc import Sequence

from ptxbench.core.printable import render_csv
from ptxbench.report.formats import RunReport
from ptxbench.storage.table import COLUMNS, cells_of


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return one table of all runs."""
    rows = [
        (report.path, report.gpu.name, report.gpu.kind, *cells_of(row))
        for report in reports
        for row in report.rows
    ]
    return render_csv([("run", "gpu", "kind", *COLUMNS), *rows]).removesuffix("\n")

"""JSON with every row: {"gpu", "kind", "rows", "rates"}; of several runs {"runs": [...]}, each with "path".

`gpu` is the GPU's name and `kind` is real, simulated or replayed. A row has the columns of table.csv, and
`rates` has pJ per byte, bit and operation of the rows that have any. An unknown number is null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ptxbench.report.formats import RunReport
from ptxbench.report.text import rows_document


def render(reports: Sequence[RunReport], width: int | None) -> str:  # noqa: ARG001
    """Return one document."""
    documents = [rows_document(report.rows, report.gpu) for report in reports]
    if len(documents) == 1:
        return json.dumps(documents[0], indent=1)
    runs = [{"path": report.path} | document for report, document in zip(reports, documents, strict=True)]
    return json.dumps({"runs": runs}, indent=1)

"""The rows of a run as they are believed: what only other runs tell of them is worked out as they are read.

A run is kept as it was measured. Whatever shows, compares or uses its rows takes them from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.precision import judged
from ptxbench.storage.run_spread import find_run_spread, widened
from ptxbench.storage.schema import TableRow
from ptxbench.storage.withdrawn import without_withdrawn

# What runs of before 2026-11-26 say in other words.
_FORMER_WORDS = {"set aside:": "excluded trials:", "level of the supply voltage": "drift level"}


def known_rows(
    rows: Sequence[TableRow], manifest: TableManifest, *, other_boards: bool = False
) -> tuple[TableRow, ...]:
    """Return the rows of a run as they are believed.

    - Reasons are in today's words.
    - A row that is known to be wrong is `withdrawn`, and has no number (`withdrawn.toml`).
    - One whose own interval is far wider than was requested is `imprecise` (`PRECISION`).
    - Intervals have what rows differ by from run to run of this GPU model (`run_spread.json`).

    Args:
        rows: Rows as they were measured.
        manifest: What the run was.
        other_boards: Whether the intervals shall hold for other boards of the model, too, apart from one
            factor for each board.
    """
    return widened(measured_rows(rows, manifest), find_run_spread(manifest.gpu), other_boards=other_boards)


def measured_rows(rows: Sequence[TableRow], manifest: TableManifest) -> tuple[TableRow, ...]:
    """Return the same with the intervals that the run itself gives: what runs are compared by.

    Args:
        rows: Rows as they were measured.
        manifest: What the run was.
    """
    reworded = [_in_todays_words(row) for row in rows]
    return judged(without_withdrawn(reworded, manifest), manifest.part.arguments.precision)


def _in_todays_words(row: TableRow) -> TableRow:
    text = row.reason
    for former, now in _FORMER_WORDS.items():
        text = text.replace(former, now)
    return row if text == row.reason else replace(row, reason=text)

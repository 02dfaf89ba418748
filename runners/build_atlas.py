"""Write boards.json of every table that comes with ptxbench: how its rows differ between boards.

    python runners/build_atlas.py

It reads the table.csv of every run `table-*`, `board-*` and `zeros-*`, and `operands-moving`, below
results/GPU: all of them ran the same machine code by the same protocol. Of several runs of one board the
first by name counts, and later ones give the rows that it lacks. Rows that are withdrawn are left out. Exit
codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from ptxbench.analysis.board_spread import BoardRun, board_spread
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.status import Status
from ptxbench.storage.board_spread import BoardSpread, write_board_spread
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.shipped import SHIPPED
from ptxbench.storage.table import TABLE, read_table
from ptxbench.storage.withdrawn import without_withdrawn

RESULTS = Path(__file__).parents[1] / "results"
# The run that comes with ptxbench, by GPU; its board has the factor 1.
REFERENCES = {"h100": "table-57c3", "h200": "table-6eda"}
# A second run of the same rows on a board that has one already.
_AGAIN = ("-repeat", "-after")
# Runs that have the rows of a board.
_RUNS = ("table-*", "board-*", "zeros-*", "operands-moving")


def main() -> int:
    """Write the files."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for name, reference in REFERENCES.items():
        folder = SHIPPED[name]
        write_board_spread(folder, spread_of(RESULTS / folder.name, reference))
    return 0


def spread_of(results: Path, reference: str) -> BoardSpread:
    """Return how boards differ.

    Args:
        results: Folder with the runs.
        reference: The run whose board has the factor 1.

    Raises:
        InputError: A run cannot be read.
    """
    paths = sorted(
        path for pattern in _RUNS for path in results.glob(pattern) if not path.name.endswith(_AGAIN)
    )
    boards: dict[str, BoardRun] = {}
    for path in (results / reference, *(path for path in paths if path.name != reference)):
        run = _run(path)
        board = run.manifest.gpu.uuid_hash
        boards[board] = _with_more(boards[board], run) if board in boards else run
    first, *others = boards.values()
    return board_spread(first, others, any_rows=True)


def _with_more(first: BoardRun, later: BoardRun) -> BoardRun:
    """Return a board's run with the rows that only a later run of the same board has."""
    held = {row.key for row in first.rows if row.status is Status.OK}
    kept = [row for row in first.rows if row.key in held]
    return replace(first, rows=(*kept, *(row for row in later.rows if row.key not in held)))


def _run(folder: Path) -> BoardRun:
    manifest = read_run_manifest(folder)
    return BoardRun(folder.name, manifest, without_withdrawn(read_table(folder / TABLE), manifest))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"build_atlas: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

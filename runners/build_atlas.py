"""Write boards.json of every table that comes with ptxbench: how its rows differ between boards.

    python runners/build_atlas.py

It reads the table.csv of every run `table-*` and `board-*` below results/GPU, one run for each board: all of
them ran the same machine code by the same protocol. Rows that are withdrawn are left
out. Exit codes are those of `ptxbench`.
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
# A second run on a board that has one already.
_AGAIN = ("-repeat", "-after")
# What was measured later on a board that has a run, by the folder of the GPU and that run.
_ADDED = {("nvidia-h200", "board-c5c1"): "operands-moving"}


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
    paths = sorted([*results.glob("table-*"), *results.glob("board-*")])
    names = [path.name for path in paths if not path.name.endswith(_AGAIN) and path.name != reference]
    runs = [_board(results, name) for name in (reference, *names)]
    return board_spread(runs[0], runs[1:], any_rows=True)


def _board(results: Path, name: str) -> BoardRun:
    """Return what a board's run says, and beside it what a later run of the same board added."""
    run = _run(results / name)
    added = results / _ADDED.get((results.name, name), name)
    held = {row.key for row in run.rows if row.status is Status.OK}
    rows = (row for row in _run(added).rows if row.key not in held)
    return replace(run, rows=(*(row for row in run.rows if row.key in held), *rows))


def _run(folder: Path) -> BoardRun:
    manifest = read_run_manifest(folder)
    rows = without_withdrawn(read_table(folder / TABLE), manifest)
    return BoardRun(folder.name, manifest, rows)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"build_atlas: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

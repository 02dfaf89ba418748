"""Write boards.json of every table that comes with ptxbench: how its rows differ between boards.

    python runners/build_atlas.py

It reads the table.csv of every run `table-*`, `board-*` and `zeros-*` below results/GPU: all of them ran the
same machine code by the same protocol. A run NAME-rest has more rows of the board of NAME. Rows that are
withdrawn are left out. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from ptxbench.analysis.board_spread import BoardRun, board_spread
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.status import Status
from ptxbench.storage.board_spread import BoardSpread, write_board_spread
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.shipped import SHIPPED
from ptxbench.storage.table import TABLE, read_table
from ptxbench.storage.withdrawn import without_withdrawn

RESULTS = Path(__file__).parents[1] / "results"
# The run that comes with ptxbench, by GPU; its board has the factor 1.
REFERENCES = {"h100": "table-57c3", "h200": "table-6eda"}
# A second run of the same rows on a board that has one already, and one of other rows.
_AGAIN = ("-repeat", "-after")
_REST = "-rest"
# What else was measured later on a board that has a run, by the folder of the GPU and that run.
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
    paths = sorted(path for kind in ("table", "board", "zeros") for path in results.glob(f"{kind}-*"))
    firsts = [path.name for path in paths if not path.name.endswith((*_AGAIN, _REST))]
    names = [name for name in firsts if name != reference]
    runs = [_board(results / name) for name in (reference, *names)]
    return board_spread(runs[0], runs[1:], any_rows=True)


def _board(path: Path) -> BoardRun:
    """Return what a board's run says, and what a later run of the same board added.

    Raises:
        InputError: A run cannot be read, or the later one is of another board.
    """
    run = _run(path)
    added = path.with_name(_ADDED.get((path.parent.name, path.name), path.name + _REST))
    if not added.is_dir():
        return run
    later = _run(added)
    if later.manifest.gpu.uuid_hash != run.manifest.gpu.uuid_hash:
        raise InputError(f"{added} is not of the board of {path}; give it another name")
    held = {row.key for row in run.rows if row.status is Status.OK}
    rows = (row for row in later.rows if row.key not in held)
    return replace(run, rows=(*(row for row in run.rows if row.key in held), *rows))


def _run(folder: Path) -> BoardRun:
    manifest = read_run_manifest(folder)
    return BoardRun(folder.name, manifest, without_withdrawn(read_table(folder / TABLE), manifest))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"build_atlas: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

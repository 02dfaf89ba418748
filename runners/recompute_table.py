"""Work the records and the table of finished runs out from their traces recomputed. Needs no GPU.

    python runners/recompute_table.py results/nvidia-h200/full

For runs that were measured before the arithmetic changed. Traces and kernels stay as they are; the
manifest says by which commit records and table were made. Exit codes: 0 done, 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import ptxbench
from ptxbench.core.errors import PtxbenchError
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.run import measure_table
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.session import start_run
from ptxbench.model.solve_run import store_solved
from ptxbench.storage.commit import git_commit
from ptxbench.storage.manifest import Recomputed
from ptxbench.storage.run_folder import RunFolder


def main() -> int:
    """Recompute the runs that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a finished run")
    paths = parser.parse_args().runs
    # Once: what is rewritten may itself be in the checkout.
    commit = git_commit(Path(ptxbench.__file__).parents[1])
    for path in paths:
        recompute(path, Recomputed(datetime.now(UTC), ptxbench.__version__, commit))
    return 0


def recompute(path: Path, by: Recomputed) -> None:
    """Recompute one run, and say how many rows changed their status."""
    with tempfile.TemporaryDirectory() as place, RunFolder.open(path) as recorded:
        before = {row.key: row.status for row in recorded.rows()}
        gpu = ReplayGpu(recorded)
        with start_run(gpu, RunOptions(), Path(place, "run")) as recomputed:
            rows = measure_table(gpu, recomputed)
            recorded.rewrite(recomputed.records(), rows, by, recomputed.manifest)
    with RunFolder.open(path) as rewritten:
        store_solved(rewritten)
    changed = sum(before.get(row.key) != row.status for row in rows)
    print(f"{path}: {len(rows)} rows, {changed} of them with another status than before")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"recompute_table: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

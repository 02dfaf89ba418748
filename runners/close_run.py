"""Finish a run that will not be gone on with: its final files, from what it holds. Needs no GPU.

    python runners/close_run.py results/nvidia-h200/full
    python runners/close_run.py --methods results/nvidia-h100/methods

Rows that the run did not reach stay in table.csv as not_reached. Where the process was killed before it
wrote a table, all rows do; `runners/recompute_table.py` then works out those that have trials. --methods is
for a folder of `ptxbench doctor methods`, whose comparison is then that of the recordings it holds. Exit
codes: 0 done, 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.analysis.run_cost import run_cost
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.status import Status
from ptxbench.experiment.method_errors import compare
from ptxbench.experiment.plan import plan_subjects
from ptxbench.experiment.sampling import PURPOSE
from ptxbench.model.solve_run import store_solved
from ptxbench.storage.document import write_document
from ptxbench.storage.methods_file import METHODS_FILE
from ptxbench.storage.recording import RecordingFolder
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import TableRow


def main() -> int:
    """Finish the run that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--methods", action="store_true", help="it is a folder of `ptxbench doctor methods`")
    arguments = parser.parse_args()
    return _close_methods(arguments.run) if arguments.methods else _close_table(arguments.run)


def _close_methods(path: Path) -> int:
    with RecordingFolder.open(path, PURPOSE) as seen:
        manifest = seen.manifest
    with RecordingFolder.resume(path, manifest) as folder:
        if folder.finished:
            print(f"{path} is finished already")
            return 0
        write_document(path / METHODS_FILE, compare(folder))
        folder.finish()
    print(f"{path}: {len(folder.recordings)} recordings")
    return 0


def _close_table(path: Path) -> int:
    with RunFolder.take_over(path) as folder:
        if folder.finished:
            print(f"{path} is finished already")
            return 0
        if folder.lost:
            print(f"{path}: left out, as their readings are missing or damaged: {', '.join(folder.lost)}")
        if not len(folder):
            raise InputError(f"{path} holds no trial yet: go on with it by `ptxbench table --resume`")
        rows = folder.rows() or _unwritten(folder)
        # The run ended when its last process did, not now.
        ended = folder.manifest.part.sessions[-1].end or datetime.now(UTC)
        folder.finish(rows, ended, run_cost(folder.records()))
        store_solved(folder)
    left = sum(row.status is Status.NOT_REACHED for row in rows)
    print(f"{path}: {len(rows) - left} rows, {left} more were not reached")
    return 0


def _unwritten(folder: RunFolder) -> tuple[TableRow, ...]:
    """Return the rows of a run whose process was killed before it wrote any."""
    reason = "the process was killed before it wrote a table"
    return tuple(
        subject.row(Status.NOT_REACHED, reason) for subject in plan_subjects(folder.manifest.part.arguments)
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"close_run: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

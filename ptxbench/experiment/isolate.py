"""Tables that are measured in processes of their own: work for the supervisor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ptxbench.core.status import Status
from ptxbench.devices.select import NamedGpu
from ptxbench.experiment.fleet_runs import board_folder
from ptxbench.experiment.supervise import Death, Work, own_command
from ptxbench.experiment.table_options import TableOptions
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.run_folder import RunFolder

# A board's process that a signal from outside ended is started again so often.
_RESTARTS = 2
# Of a budget that is spent: 0 is refused.
_LEAST_MINUTES = 0.01


def table_work(options: TableOptions, out: Path) -> Work:
    """Return the work of `ptxbench table` on one GPU.

    Each process goes on with the run in the folder, if it is there. With `isolate` a kernel that breaks one
    is kept as failed, and another one goes on without.

    Args:
        options: What is measured.
        out: Folder of the run.
    """

    def command(passed_s: float) -> Sequence[str]:
        left_minutes = options.most_minutes
        if left_minutes is not None:
            left_minutes = max(round(left_minutes - passed_s / 60, 3), _LEAST_MINUTES)
        own = replace(options, out=out, isolate=False, budget_minutes=left_minutes)
        if options.resume or (out / MANIFEST).exists():
            own = replace(own, resume=True, sensor_path=None)
        return own_command("table", own)

    return Work(out.name, command, blame=_blame(out) if options.isolate else None)


def board_work(options: TableOptions, gpu: NamedGpu, folder: Path) -> Work:
    """Return the work of one of several GPUs, which go on with the runs of their boards.

    Args:
        options: What is measured on each.
        gpu: The GPU.
        folder: Folder of all boards.
    """
    out = board_folder(folder, gpu.board)
    work = table_work(replace(options, spec=gpu.spec, resume=False, as_json=False), out)
    # The process can open no other GPU than its own.
    environment = {"CUDA_VISIBLE_DEVICES": gpu.spec} if gpu.spec.startswith("GPU-") else {}
    return replace(work, log=Path(f"{out}.log"), environment=environment, restarts=_RESTARTS)


def _blame(path: Path) -> Callable[[Death], str]:
    """Return what keeps a trial that crashed its process as failed, and names all that broke it."""
    failed = _failed_trials(path)

    def blame(death: Death) -> str:
        nonlocal failed
        if death.crashed and (path / MANIFEST).exists():
            RunFolder.blame_trial_in_progress(path)
        before, failed = failed, _failed_trials(path)
        broke = ", ".join(sorted(failed - before))
        return f"{broke} broke the process; going on without" if broke else ""

    return blame


def _failed_trials(path: Path) -> frozenset[str]:
    """Return the trials of a run that could not be launched."""
    if not (path / MANIFEST).exists():
        return frozenset()
    with RunFolder.open(path) as folder:
        return frozenset(r.trial_id for r in folder.records() if r.status is Status.LAUNCH_FAILED)

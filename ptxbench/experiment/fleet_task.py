"""One task of a fleet: measure a table on one GPU, whichever board the task has met."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ptxbench.devices.select import named_gpus
from ptxbench.experiment.fleet_runs import board_folder
from ptxbench.storage.folder_kind import MANIFEST

# The first GPU that CUDA shows to the task.
_FIRST = "all"


def measure_task(
    words: Sequence[str],
    out: str,
    spec: str | None = None,
    call: Callable[..., int] = subprocess.call,
) -> int:
    """Measure on one GPU, in a process of its own; go on with the run of its board where there is one.

    Args:
        words: What follows `ptxbench table`, without --gpu, --out and --resume.
        out: Folder of all boards.
        spec: The GPU; None: the first one that the task is shown, as by Slurm.
        call: Runs a command line and returns its exit code.

    Returns:
        The exit code of `ptxbench table`.

    Raises:
        GpuError: There is no such GPU.
    """
    gpu = named_gpus(spec or _FIRST)[0]
    folder = board_folder(Path(out), gpu.board)
    own = [f"--gpu={gpu.spec}", f"--out={folder}", *(["--resume"] if (folder / MANIFEST).exists() else [])]
    environment = dict(os.environ)
    if gpu.spec.startswith("GPU-"):
        environment["CUDA_VISIBLE_DEVICES"] = gpu.spec
    with Path(f"{folder}.log").open("ab") as log:
        return call(
            # Of an option that is given twice the last counts; what follows -- are names.
            [sys.executable, "-m", "ptxbench", "table", *own, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )

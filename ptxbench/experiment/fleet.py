"""Many GPUs of many machines: a job array over submitit, each task one GPU.

submitit keeps what it runs as pickles in the folder `jobs`: nobody else should be able to write there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.devices.select import ALL, named_gpus
from ptxbench.experiment.isolate import board_work
from ptxbench.experiment.supervise import supervise
from ptxbench.experiment.table_options import TableOptions

# Between two looks at the tasks.
_LOOK_S = 0.5
# So long before its limit Slurm signals a task, which then keeps its run; chosen.
_GRACE_S = 60
_FAILED = -1


@dataclass(frozen=True)
class Cluster:
    """Where the tasks run, and with what.

    Attributes:
        name: "local", or "slurm".
        minutes: Time after which a task is stopped.
        partition: Slurm's partition, "" for the default.
        extra: Further options of sbatch, by name.
    """

    name: str = "local"
    minutes: int = 60
    partition: str = ""
    extra: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Job:
    """How one task ended.

    Attributes:
        job_id: What the engine calls it.
        code: Exit code of its `ptxbench table`; -1 where it did not come to one.
        error: Why it did not, "" where it did.
    """

    job_id: str
    code: int
    error: str


def run_fleet(
    out: Path,
    options: TableOptions,
    specs: Sequence[str | None],
    cluster: Cluster,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Job, ...]:
    """Submit one task for each GPU as one array, and wait for all of them.

    Runs that are there go on where a task meets their board; finished ones are not measured again.

    Args:
        out: Folder of all boards; every machine must see it under this path.
        options: What `ptxbench table` measures in every task.
        specs: The GPU of each task; None: the one that the engine gives it.
        cluster: Where they run.
        on_progress: Told how many tasks have ended, of how many.

    Raises:
        InputError: submitit is not installed, or refuses the options.
        KeyboardInterrupt: This process was interrupted; local tasks are stopped, those of a cluster go on.
    """
    executor = _executor(out, cluster)
    with executor.batch():
        jobs = [executor.submit(measure_task, options, out.resolve(), spec) for spec in specs]
    try:
        while not all(job.done() for job in jobs):
            on_progress(sum(bool(job.done()) for job in jobs), len(jobs))
            sleep(_LOOK_S)
    except KeyboardInterrupt:
        if cluster.name == "local":
            for job in jobs:
                job.cancel()
        raise
    on_progress(len(jobs), len(jobs))
    return tuple(_ended(job) for job in jobs)


def measure_task(options: TableOptions, out: Path, spec: str | None) -> int:
    """Measure on one GPU; go on with the run of its board where there is one.

    Args:
        options: What is measured.
        out: Folder of all boards.
        spec: The GPU; None: the first one that the task is shown, as by Slurm.

    Returns:
        The exit code of `ptxbench table`.

    Raises:
        GpuError: There is no such GPU.
    """
    gpu = named_gpus(spec or ALL)[0]
    # What a signal ends here, the engine meant to end.
    (ended,) = supervise([replace(board_work(options, gpu, out), restarts=0)])
    return ended.code


def _executor(out: Path, cluster: Cluster) -> Any:
    try:
        import submitit
    except ImportError as missing:
        raise InputError("the Python package submitit is missing: run 'pip install submitit'") from missing
    options: dict[str, Any] = {"timeout_min": cluster.minutes, "gpus_per_node": 1, "tasks_per_node": 1}
    if cluster.name == "slurm":
        options |= {
            "slurm_job_name": "ptxbench",
            "slurm_signal_delay_s": _GRACE_S,
            "slurm_additional_parameters": dict(cluster.extra or {}),
        }
        if cluster.partition:
            options["slurm_partition"] = cluster.partition
    try:
        executor = submitit.AutoExecutor(folder=out / "jobs", cluster=cluster.name)
        executor.update_parameters(**options)
    except (RuntimeError, ValueError, NameError) as error:
        raise InputError(f"submitit refuses to use {cluster.name}: {error}") from error
    return executor


def _ended(job: Any) -> Job:
    error = job.exception()
    if error is None:
        return Job(str(job.job_id), int(job.result()), "")
    lines = str(error).strip().splitlines()
    return Job(str(job.job_id), _FAILED, lines[-1] if lines else repr(error))

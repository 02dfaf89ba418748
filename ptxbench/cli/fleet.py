"""`ptxbench fleet`: measure on many GPUs of many machines, and compare the boards."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.command import command_of
from ptxbench.cli.output import print_encoded, say
from ptxbench.cli.progress import progress_bar
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import Json, Resume

if TYPE_CHECKING:
    from ptxbench.experiment.fleet import Job
    from ptxbench.experiment.table_options import TableOptions
    from ptxbench.storage.fleet_file import FleetFile

# What every task has of its own.
_OWN = {"spec": "--gpu", "out": "--out", "resume": "--resume", "as_json": "--json"}


@click.group(name="fleet")
def command() -> None:
    """Measure on many GPUs of many machines, and compare the boards."""


@dataclass(frozen=True, kw_only=True)
class _RunOptions:
    """Options of `ptxbench fleet run`.

    Attributes:
        out: Where to write: a folder of all runs, which every machine must see.
        tasks: Tasks of the job array, each with one GPU.
        spec: The GPU: all of this machine, or a list such as 0,2; a task for each.
        cluster: Where tasks run (default: local).
        minutes: Time of a task (default: 60).
        partition: Slurm: the partition.
        sbatch: Slurm: a further option (may be repeated).
    """

    words: Annotated[tuple[str, ...], Arg(metavar="[-- TABLE ARGUMENTS]...", kind=click.UNPROCESSED)] = ()
    out: Path
    tasks: Annotated[int | None, Opt(1, 10_000)] = None
    spec: Annotated[str | None, Opt(metavar="GPUS", flag="--gpu")] = None
    cluster: Annotated[str, Opt(choices=["local", "slurm"])] = "local"
    minutes: Annotated[int, Opt(1, 100_000)] = 60
    partition: str = ""
    sbatch: Annotated[tuple[str, ...], Opt(metavar="KEY=VALUE")] = ()
    resume: Resume = False
    as_json: Json = False


@command_of(_RunOptions, "run", group=command, context_settings={"ignore_unknown_options": True})
def run_command(options: _RunOptions) -> None:
    """Run `ptxbench table` on many GPUs: a job array over submitit, each task one GPU.

    What follows -- goes to `ptxbench table` in every task, without --gpu, --out, --resume and --json. Each
    board has a run below --out; a task continues the run of the board that it meets. When all tasks have
    ended, the boards are compared (`ptxbench fleet report`).
    """
    from ptxbench.devices.select import named_gpus
    from ptxbench.experiment.fleet import Cluster, run_fleet
    from ptxbench.experiment.fleet_runs import gather, require_fleet_folder

    table = _table_options(options.words)
    extra = dict(_pair(text) for text in options.sbatch)
    specs: list[str | None]
    if options.cluster == "slurm":
        if options.spec is not None or options.tasks is None:
            raise click.UsageError(
                "--cluster slurm needs --tasks, and takes no --gpu: Slurm gives each its GPU."
            )
        specs = [None] * options.tasks
    elif options.tasks is not None:
        raise click.UsageError("--tasks is for --cluster slurm; here --gpu says how many there are.")
    else:
        specs = [gpu.spec for gpu in named_gpus(options.spec or "all")]
    require_fleet_folder(options.out, resume=options.resume)
    with progress_bar() as show:
        try:
            jobs = run_fleet(
                options.out,
                table,
                specs,
                Cluster(options.cluster, options.minutes, options.partition, extra),
                lambda done, total: show(done, total, "tasks ended"),
            )
        except KeyboardInterrupt:
            say(f"stopped waiting; compare what is there: ptxbench fleet report {options.out}")
            raise
    for job in jobs:
        if job.error:
            say(f"task {job.job_id} failed: {job.error}")
    _print(gather(options.out), options.out, options.as_json, jobs)
    sys.exit(int(any(job.code for job in jobs)))


@dataclass(frozen=True, kw_only=True)
class _ReportOptions:
    """Options of `ptxbench fleet report`."""

    folder: Annotated[Path, Arg()]
    as_json: Json = False


@command_of(_ReportOptions, "report", group=command)
def report_command(options: _ReportOptions) -> None:
    """Compare the boards of all runs below FOLDER: factor, scatter beside it, temperature, outliers.

    FOLDER stays as it is.
    """
    from ptxbench.experiment.fleet_runs import compare_runs

    _print(compare_runs(options.folder), options.folder, options.as_json)


def _table_options(words: tuple[str, ...]) -> TableOptions:
    """Return the options of `ptxbench table` in every task, and refuse what it would refuse there."""
    from ptxbench.cli.table import command as table

    options = table.read(words)
    for name, flag in _OWN.items():
        if getattr(options, name):
            raise click.UsageError(f"{flag} is set for each task; leave it out behind --.")
    _ = options.names
    return options


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--sbatch {text!r} is not KEY=VALUE.")
    return key, value


def _print(document: FleetFile, folder: Path, as_json: bool, jobs: tuple[Job, ...] = ()) -> None:
    from ptxbench.report.fleet import fleet_text
    from ptxbench.report.text_table import output_width

    if as_json:
        codes = {job.job_id: job.code for job in jobs}
        print_encoded(document, {"folder": str(folder), **({"exit_codes": codes} if jobs else {})})
        return
    click.echo(fleet_text(document, output_width()))
    for job in jobs:
        click.echo(f"task {job.job_id}: {'failed' if job.error else f'exit code {job.code}'}")
    click.echo(f"\nfolder: {folder}")

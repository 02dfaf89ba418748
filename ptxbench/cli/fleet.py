"""`ptxbench fleet`: measure on many GPUs of many machines, and compare the boards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import json_option, resume_option
from ptxbench.cli.output import print_encoded
from ptxbench.cli.progress import progress_bar

if TYPE_CHECKING:
    from ptxbench.experiment.fleet import Job
    from ptxbench.storage.fleet_file import FleetFile

_PATH = click.Path(path_type=Path)
# What every task has of its own.
_OWN = {"spec": "--gpu", "out": "--out", "resume": "--resume", "as_json": "--json"}


@click.group(name="fleet")
def command() -> None:
    """Measure on many GPUs of many machines, and compare the boards."""


@command.command(name="run", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- TABLE ARGUMENTS]...")
@click.option(
    "--out",
    type=_PATH,
    required=True,
    help="Where to write: a folder of all runs, which every machine must see.",
)
@click.option("--tasks", type=click.IntRange(1, 10_000), help="Tasks of the job array, each with one GPU.")
@click.option(
    "--gpu",
    "spec",
    metavar="GPUS",
    help="The GPU: all of this machine, or a list such as 0,2; a task for each.",
)
@click.option(
    "--cluster",
    type=click.Choice(["local", "slurm"]),
    default="local",
    help="Where tasks run (default: local).",
)
@click.option("--minutes", type=click.IntRange(1, 100_000), default=60, help="Time of a task (default: 60).")
@click.option("--partition", default="", help="Slurm: the partition.")
@click.option(
    "--sbatch", multiple=True, metavar="KEY=VALUE", help="Slurm: a further option (may be repeated)."
)
@resume_option
@json_option
def run_command(
    words: tuple[str, ...],
    out: Path,
    tasks: int | None,
    spec: str | None,
    cluster: str,
    minutes: int,
    partition: str,
    sbatch: tuple[str, ...],
    resume: bool,
    as_json: bool,
) -> None:
    """Run `ptxbench table` on many GPUs: a job array over submitit, each task one GPU.

    What follows -- goes to `ptxbench table` in every task, without --gpu, --out, --resume and --json. Each
    board has a run below --out; a task continues the run of the board that it meets. When all tasks have
    ended, the boards are compared (`ptxbench fleet report`).
    """
    from ptxbench.devices.select import named_gpus
    from ptxbench.experiment.fleet import Cluster, run_fleet
    from ptxbench.experiment.fleet_runs import gather, require_fleet_folder

    _check_words(words)
    extra = dict(_pair(text) for text in sbatch)
    specs: list[str | None]
    if cluster == "slurm":
        if spec is not None or tasks is None:
            raise click.UsageError(
                "--cluster slurm needs --tasks, and takes no --gpu: Slurm gives each its GPU."
            )
        specs = [None] * tasks
    elif tasks is not None:
        raise click.UsageError("--tasks is for --cluster slurm; here --gpu says how many there are.")
    else:
        specs = [gpu.spec for gpu in named_gpus(spec or "all")]
    require_fleet_folder(out, resume=resume)
    with progress_bar() as show:
        try:
            jobs = run_fleet(
                *(out, words, specs, Cluster(cluster, minutes, partition, extra)),
                lambda done, total: show(done, total, "tasks ended"),
            )
        except KeyboardInterrupt:
            click.echo(
                f"ptxbench: stopped waiting; compare what is there: ptxbench fleet report {out}", err=True
            )
            raise
    for job in jobs:
        if job.error:
            click.echo(f"ptxbench: task {job.job_id} failed: {job.error}", err=True)
    _print(gather(out), out, as_json, jobs)
    sys.exit(int(any(job.code for job in jobs)))


@command.command(name="report")
@click.argument("folder", type=_PATH)
@json_option
def report_command(folder: Path, as_json: bool) -> None:
    """Compare the boards of all runs below FOLDER: factor, scatter beside it, temperature, outliers.

    FOLDER stays as it is.
    """
    from ptxbench.experiment.fleet_runs import compare_runs

    _print(compare_runs(folder), folder, as_json)


def _check_words(words: tuple[str, ...]) -> None:
    """Refuse what `ptxbench table` would refuse in every task."""
    from ptxbench.catalogue.select import chosen_names
    from ptxbench.cli.table import command as table

    context = table.make_context("table", list(words))
    for name, option in _OWN.items():
        if context.params[name]:
            raise click.UsageError(f"{option} is set for each task; leave it out behind --.")
    whole = context.params["whole_catalogue"]
    chosen_names(("*",) if whole else context.params["instructions"], context.params["category"])


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

"""`ptxbench table --cluster`: measure on many GPUs of many machines, and compare the boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.output import print_encoded, say
from ptxbench.cli.progress import progress_bar
from ptxbench.core.option import Opt
from ptxbench.experiment.table_options import TableOptions
from ptxbench.report.fleet import fleet_text
from ptxbench.report.text_table import output_width

if TYPE_CHECKING:
    from ptxbench.storage.fleet_file import FleetFile


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(TableOptions):
    """Options of `ptxbench table`.

    Attributes:
        cluster: Measure by tasks of a job array, each with one GPU, which run there.
        tasks: With --cluster slurm: tasks of the job array.
        minutes: With --cluster: time of a task (default: 60).
        partition: With --cluster slurm: the partition.
        sbatch: With --cluster slurm: a further option of sbatch (may be repeated).
    """

    cluster: Annotated[str | None, Opt(choices=["local", "slurm"])] = None
    tasks: Annotated[int | None, Opt(1, 10_000)] = None
    minutes: Annotated[int, Opt(1, 100_000)] = 60
    partition: str = ""
    sbatch: Annotated[tuple[str, ...], Opt(metavar="KEY=VALUE")] = ()

    @property
    def of_table(self) -> TableOptions:
        """What is measured, wherever that is."""
        return TableOptions(**{field.name: getattr(self, field.name) for field in fields(TableOptions)})


def measure_on_cluster(options: ClusterOptions) -> int:
    """Run `ptxbench table` on many GPUs: a job array over submitit, each task one GPU; return the exit code.

    Raises:
        UsageError: The options do not go together.
        InputError: The folder is not fit, or submitit is missing or refuses.
    """
    from ptxbench.devices.select import named_gpus
    from ptxbench.experiment.fleet import Cluster, run_fleet
    from ptxbench.experiment.fleet_runs import gather, require_fleet_folder

    out = options.out
    if out is None:
        raise click.UsageError("--cluster needs --out, the folder of all runs, which every machine must see.")
    options.selection()  # what a task would refuse is refused here
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
    require_fleet_folder(out, resume=options.resume)
    with progress_bar() as show:
        try:
            jobs = run_fleet(
                out,
                options.of_table,
                specs,
                Cluster(str(options.cluster), options.minutes, options.partition, extra),
                lambda done, total: show(done, total, "tasks ended"),
            )
        except KeyboardInterrupt:
            say(f"stopped waiting; compare what is there: ptxbench report --boards {out}")
            raise
    for job in jobs:
        if job.error:
            say(f"task {job.job_id} failed: {job.error}")
    ends = [f"task {job.job_id}: {'failed' if job.error else f'exit code {job.code}'}" for job in jobs]
    print_boards(gather(out), out, options.as_json, {job.job_id: job.code for job in jobs}, ends)
    return int(any(job.code for job in jobs))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--sbatch {text!r} is not KEY=VALUE.")
    return key, value


def print_boards(
    document: FleetFile,
    folder: Path,
    as_json: bool,
    codes: Mapping[str, int] | None = None,
    ends: Sequence[str] = (),
) -> None:
    """Print how the boards of a folder differ.

    Args:
        document: How they do.
        folder: The folder.
        as_json: Print JSON.
        codes: Exit codes of what measured them, by name; None: nothing did now.
        ends: How these ended, a line each.
    """
    if as_json:
        print_encoded(document, {"folder": str(folder), **({"exit_codes": codes} if codes else {})})
        return
    click.echo(fleet_text(document, output_width()))
    for line in ends:
        click.echo(line)
    click.echo(f"\nfolder: {folder}")

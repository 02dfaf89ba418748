"""`ptxbench table`: measure instructions and fill a run folder."""

from __future__ import annotations

import math
import shlex
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import require_out
from ptxbench.cli.output import say, say_found, say_lost
from ptxbench.cli.progress import progress_bar
from ptxbench.cli.table_cluster import ClusterOptions, measure_on_cluster
from ptxbench.cli.terminal import as_written
from ptxbench.core.option import words_of
from ptxbench.core.target import find_target
from ptxbench.experiment.table_options import TableOptions
from ptxbench.report.text_table import output_width

if TYPE_CHECKING:
    from ptxbench.devices.base import Gpu
    from ptxbench.storage.run_folder import RunFolder
    from ptxbench.storage.schema import TableRow


@command_of(ClusterOptions, "table")
def command(given: ClusterOptions) -> None:
    """Measure the energy of instructions (default: twelve common ones).

    Each trial is saved before the next begins; --resume continues a run that was stopped. --gpu all, or a
    list such as 0,2, measures on several GPUs at once and compares them: a process for each, and a run for
    each below --out. A word that is neither a name nor a pattern with * may stand for 40 instructions.

    --cluster measures on GPUs of many machines by submitit: each task has one GPU, and continues the run of
    the board that it meets. The boards are compared at the end (`ptxbench report --boards`).
    """
    from ptxbench.cli.table_many import measure_many
    from ptxbench.devices.select import names_several
    from ptxbench.experiment.sensor_choice import sensors_for
    from ptxbench.experiment.session import resume_run, start_run
    from ptxbench.storage.doctor_file import known_difference

    if given.cluster:
        sys.exit(measure_on_cluster(given))
    if given.tasks or given.partition or given.sbatch:
        raise click.UsageError("--tasks, --partition and --sbatch go with --cluster slurm.")
    if names_several(given.spec):
        sys.exit(measure_many(given))
    if given.isolate:
        sys.exit(_isolate(given))
    require_out(given.resume, given.out)
    if given.resume and given.sensor_path is not None:
        raise click.UsageError("--resume uses the sensors of the run; leave out --sensor.")
    say_found(given.selection())
    with closing(open_chosen_gpu(given.spec)) as gpu:
        options = given.wanted(find_target(gpu.info.target))
        if given.out is not None and given.resume:
            folder = resume_run(gpu, options, given.out)
            say_lost(folder.lost, "trial")
        elif given.sensor_path is not None:
            sensors = sensors_for(given.sensor_path, gpu)
            folder = start_run(
                gpu, options, given.out, sensors, known_difference(given.sensor_path, gpu.info)
            )
        else:
            folder = start_run(gpu, options, given.out)
        with folder:
            minutes = math.inf if given.most_minutes is None else given.most_minutes
            rows = _measure(gpu, folder, given.spec, 60 * minutes)
            _say_changed(gpu, folder)
    _print_rows(rows, folder, given)
    if any(row.status != "ok" for row in rows):
        sys.exit(1)


def _isolate(given: TableOptions) -> int:
    """Run this very command in another process, and again where a kernel broke it; return the exit code."""
    from ptxbench.experiment.isolate import table_work
    from ptxbench.experiment.supervise import supervise

    if given.out is None:
        raise click.UsageError("--isolate needs --out, the folder of the run")
    (ended,) = supervise([table_work(given, given.out)], say)
    if ended.code < 0:
        _say_signal(-ended.code, given.out, given.spec)
    return ended.shell_code


def _say_signal(number: int, out: Path, spec: str | None) -> None:
    """Say which signal ended the measuring process."""
    cause = f"{signal.Signals(number).name} ended the measuring process"
    if number == signal.SIGKILL:
        cause += " (as the system does when memory runs out)"
    if (out / "manifest.json").exists():
        cause += f"; what was measured is kept. {_go_on(out, spec, isolate=True)}"
    say(cause)


def _measure(gpu: Gpu, folder: RunFolder, spec: str | None, budget_s: float) -> tuple[TableRow, ...]:
    """Measure with a progress bar; say where the run is when it is stopped."""
    from ptxbench.experiment.run import measure_table
    from ptxbench.storage.known_rows import known_rows

    with progress_bar() as show:
        try:
            rows = measure_table(gpu, folder, show, budget_s=budget_s)
        except KeyboardInterrupt:
            say(f"stopped; what was measured is kept. {_go_on(folder.path, spec)}")
            raise
    return known_rows(rows, folder.manifest)


def _say_changed(gpu: Gpu, folder: RunFolder) -> None:
    """Say how many rows of a replay are not those that were recorded."""
    from ptxbench.devices.replay import ReplayGpu

    if not isinstance(gpu, ReplayGpu):
        return
    recorded = {row.subject: repr(row) for row in gpu.rows}
    rows = [row for row in folder.rows() if row.subject in recorded]
    changed = sum(repr(row) != recorded[row.subject] for row in rows)
    if changed:
        show = shlex.join(["ptxbench", "diff", str(gpu.path), str(folder.path)])
        say(
            f"{changed} of {len(rows)} rows differ from the recorded table.csv, which another "
            f"version or other options computed; show them with: {show}"
        )


def _go_on(path: Path, spec: str | None, *, isolate: bool = False) -> str:
    words = words_of(TableOptions(spec=spec, out=path, resume=True, isolate=isolate))
    return f"Continue with: {shlex.join(['ptxbench', 'table', *words])}"


def _print_rows(rows: tuple[TableRow, ...], folder: RunFolder, given: TableOptions) -> None:
    from ptxbench.report.formats import RunReport, render_report
    from ptxbench.report.text import cost_sentence, scale_sentence, source_sentence, tables_text
    from ptxbench.storage.run_spread import spread_sentence

    info, part = folder.manifest.gpu, folder.manifest.part
    if given.as_json:
        click.echo(render_report("json", [RunReport(str(folder.path), info, rows)], None), file=as_written())
        return
    paragraphs = [
        tables_text(rows, info, output_width()),
        scale_sentence(part.scale_ci95) if part.scale_ci95 else "",
        spread_sentence(info, other_boards=False),
        source_sentence(part.source, part.source_check) if part.source_check is not None else "",
        cost_sentence(part.cost) if part.cost is not None else "",
        "" if folder.finished else f"not finished. {_go_on(folder.path, given.spec)}",
        f"run folder: {folder.path}",
    ]
    click.echo("\n\n".join(filter(None, paragraphs)))

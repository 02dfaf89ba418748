"""`ptxbench table`: measure instructions and fill a run folder."""

from __future__ import annotations

import math
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.options import (
    category_option,
    gpu_option,
    json_option,
    opt_level_option,
    out_option,
    resume_option,
    seed_option,
    sensor_option,
    window_option,
)
from ptxbench.cli.output import say_lost
from ptxbench.cli.parameters import Number
from ptxbench.cli.progress import progress_bar
from ptxbench.experiment.criteria import criterion_names
from ptxbench.experiment.protocols import protocol_names
from ptxbench.sensors.base import POWER_SOURCES

if TYPE_CHECKING:
    from ptxbench.core.gpu_info import GpuInfo
    from ptxbench.devices.base import Gpu
    from ptxbench.storage.run_folder import RunFolder
    from ptxbench.storage.schema import TableRow

_PATTERNS = ("random", "zeros")
_LINEARITY = ("all", "sample", "none")
# Exit codes of shells: this plus the number of the signal that ended a process.
_BY_SIGNAL = 128


@click.command(name="table")
@click.argument("instructions", nargs=-1, metavar="[INSTRUCTION]...")
@click.option("--all", "whole_catalogue", is_flag=True, help="Measure the whole catalogue.")
@category_option
@gpu_option
@out_option
@resume_option
@click.option(
    "--allow-other-board", is_flag=True, help="Let another board of the same model continue the run."
)
@opt_level_option(None)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Choice(protocol_names()),
    help="Protocol (default: all).",
)
@click.option(
    "--operands",
    "patterns",
    multiple=True,
    type=click.Choice(_PATTERNS),
    help="Operand pattern (default: random).",
)
@sensor_option
@click.option(
    "--source",
    type=click.Choice([source.value for source in POWER_SOURCES]),
    help="Power source (default: the GPU's best).",
)
@click.option(
    "--precision",
    type=Number(1e-5, 1.0),
    help="End a row when the half-width of its 95% interval is below this fraction (default: 0.005).",
)
@click.option(
    "--min-repeats", type=click.IntRange(2, 1000), help="Repeat each row at least so often (default: 3)."
)
@click.option(
    "--max-repeats", type=click.IntRange(2, 1000), help="Repeat each row at most so often (default: 6)."
)
@click.option(
    "--stop-on",
    type=click.Choice(criterion_names()),
    help="End a row at its precision (default), or always after --max-repeats.",
)
@window_option(None)
@seed_option
@click.option(
    "--check-linearity",
    "linearity",
    type=click.Choice(_LINEARITY),
    help="Compare N copies with 2N: for all rows, a sample (one for each template and optimization level; "
    "default) or none.",
)
@click.option(
    "--budget-minutes",
    type=Number(0, 1e6, above=True),
    help="Measure for so many minutes at most, the most important rows first; --resume measures the rest.",
)
@click.option(
    "--survive",
    is_flag=True,
    help="Measure in a separate process; if a kernel breaks it, continue without that kernel.",
)
@json_option
def command(
    instructions: tuple[str, ...],
    whole_catalogue: bool,
    category: str,
    spec: str | None,
    out: Path | None,
    resume: bool,
    allow_other_board: bool,
    opt_levels: tuple[str, ...],
    protocols: tuple[str, ...],
    patterns: tuple[str, ...],
    sensor_path: Path | None,
    source: str | None,
    precision: float | None,
    stop_on: str | None,
    min_repeats: int | None,
    max_repeats: int | None,
    window_s: float | None,
    seed: int | None,
    linearity: str | None,
    budget_minutes: float | None,
    survive: bool,
    as_json: bool,
) -> None:
    """Measure the energy of instructions, by name or pattern ('*.f16x2'; default: twelve common ones).

    Each trial is saved before the next begins; --resume continues a run that was stopped. --gpu all, or a
    list such as 0,2, measures on several GPUs at once and compares them: a process for each, and a run for
    each below --out.
    """
    from ptxbench.catalogue.select import chosen_names
    from ptxbench.cli.table_many import measure_many
    from ptxbench.core.condition import OptLevel, Pattern
    from ptxbench.devices.select import names_several
    from ptxbench.experiment.linearity import Linearity
    from ptxbench.experiment.run_options import RunOptions
    from ptxbench.experiment.sensor_choice import sensors_for
    from ptxbench.experiment.session import resume_run, start_run
    from ptxbench.sensors.base import SourceName
    from ptxbench.storage.doctor_file import known_difference

    if names_several(spec):
        sys.exit(measure_many(str(spec), out, budget_minutes, resume=resume, as_json=as_json))
    if survive:
        if out is None:
            raise click.UsageError("--survive needs --out, the folder of the run")
        sys.exit(_survive(out, spec, resume, budget_minutes))
    if resume and out is None:
        raise click.UsageError("--resume needs --out, the folder of the run to continue.")
    if resume and sensor_path is not None:
        raise click.UsageError("--resume uses the sensors of the run; leave out --sensor.")
    options = RunOptions(
        instructions=chosen_names(("*",) if whole_catalogue else instructions, category),
        opt_levels=tuple(OptLevel(level) for level in opt_levels),
        protocols=protocols,
        patterns=tuple(Pattern(pattern) for pattern in patterns),
        precision=precision,
        stop_on=stop_on,
        min_repeats=min_repeats,
        max_repeats=max_repeats,
        window_s=window_s,
        source=SourceName(source) if source else None,
        seed=seed,
        linearity=Linearity(linearity) if linearity else None,
    )
    gpu = open_chosen_gpu(spec)
    try:
        if out is not None and resume:
            folder = resume_run(gpu, options, out, allow_other_board=allow_other_board)
            say_lost(folder.lost, "trial")
        else:
            sensors = sensors_for(sensor_path, gpu) if sensor_path is not None else ()
            known = known_difference(sensor_path, gpu.info) if sensor_path is not None else 0.0
            folder = start_run(gpu, options, out, sensors, known)
        with folder:
            rows = _measure(gpu, folder, spec, 60 * budget_minutes if budget_minutes else math.inf)
            _say_changed(gpu, folder)
    finally:
        gpu.close()
    _print_rows(rows, gpu.info, folder, as_json)
    if any(row.status != "ok" for row in rows):
        sys.exit(1)


def _survive(out: Path, spec: str | None, resume: bool, budget_minutes: float | None) -> int:
    """Run this very command line without --survive, and again where a kernel broke it."""
    from time import monotonic

    from ptxbench.experiment.isolation import run_surviving

    begin_s = monotonic()

    def command() -> list[str]:
        words = [word for word in sys.argv[1:] if word != "--survive"]
        # What follows -- are names.
        end = words.index("--") if "--" in words else len(words)
        own = ["--resume"] if not resume and (out / "manifest.json").exists() else []
        if budget_minutes is not None:
            # Of an option that is given twice the last counts.
            left = max(budget_minutes - (monotonic() - begin_s) / 60, 0.01)
            own.append(f"--budget-minutes={left:.3f}")
        return [sys.executable, "-m", "ptxbench", *words[:end], *own, *words[end:]]

    code = run_surviving(command, out, lambda text: click.echo(f"ptxbench: {text}", err=True))
    return code if code >= 0 else _ended_by_signal(-code, out, spec)


def _ended_by_signal(number: int, out: Path, spec: str | None) -> int:
    """Say which signal ended the measuring process; return the exit code that a shell gives it."""
    cause = f"{signal.Signals(number).name} ended the measuring process"
    if number == signal.SIGKILL:
        cause += " (as the system does when memory runs out)"
    if (out / "manifest.json").exists():
        cause += f"; what was measured is kept. {_go_on(out, spec, '--survive')}"
    click.echo(f"ptxbench: {cause}", err=True)
    return _BY_SIGNAL + number


def _measure(gpu: Gpu, folder: RunFolder, spec: str | None, budget_s: float) -> tuple[TableRow, ...]:
    """Measure with a progress bar; say where the run is when it is stopped."""
    from ptxbench.experiment.run import measure_table

    with progress_bar() as show:
        try:
            return measure_table(
                gpu, folder, lambda at: show(at.done, at.total, at.subject), budget_s=budget_s
            )
        except KeyboardInterrupt:
            click.echo(f"ptxbench: stopped; what was measured is kept. {_go_on(folder.path, spec)}", err=True)
            raise


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
        click.echo(
            f"ptxbench: {changed} of {len(rows)} rows differ from the recorded table.csv, which another "
            f"version or other options computed; show them with: {show}",
            err=True,
        )


def _go_on(path: Path, spec: str | None, *others: str) -> str:
    resuming = [
        "ptxbench",
        "table",
        "--resume",
        *others,
        "--out",
        str(path),
        *(["--gpu", spec] if spec else []),
    ]
    return f"Continue with: {shlex.join(resuming)}"


def _print_rows(rows: tuple[TableRow, ...], info: GpuInfo, folder: RunFolder, as_json: bool) -> None:
    from ptxbench.report.formats import RunReport, render_report
    from ptxbench.report.text import cost_sentence, scale_sentence, source_sentence, tables_text
    from ptxbench.report.text_table import output_width

    if as_json:
        click.echo(render_report("json", [RunReport(str(folder.path), info, rows)], None))
        return
    click.echo(tables_text(rows, info, output_width()))
    if folder.manifest.part.scale_ci95:
        click.echo(f"\n{scale_sentence(folder.manifest.part.scale_ci95)}")
    if folder.manifest.part.source_check is not None:
        click.echo(f"\n{source_sentence(folder.manifest.part.source, folder.manifest.part.source_check)}")
    if folder.manifest.part.cost is not None:
        click.echo(f"\n{cost_sentence(folder.manifest.part.cost)}")
    if not folder.finished:
        click.echo(f"\nnot finished. {_go_on(folder.path, None)}")
    click.echo(f"\nrun folder: {folder.path}")

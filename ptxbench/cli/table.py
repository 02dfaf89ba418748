"""`ptxbench table`: measure instructions and fill a run folder."""

from __future__ import annotations

import math
import shlex
import signal
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.command_line import words_of
from ptxbench.cli.options import Category, GpuSpec, Json, Operands, OptionalPatterns, Out, Resume, SensorPath
from ptxbench.cli.output import say_found, say_lost
from ptxbench.cli.progress import progress_bar
from ptxbench.core.option import Opt
from ptxbench.core.shared_options import OptLevels
from ptxbench.experiment.protocols import protocol_names
from ptxbench.experiment.row_options import RowOptions
from ptxbench.sensors.base import POWER_SOURCES

if TYPE_CHECKING:
    from ptxbench.core.gpu_info import GpuInfo
    from ptxbench.devices.base import Gpu
    from ptxbench.storage.run_folder import RunFolder
    from ptxbench.storage.schema import TableRow

# Exit codes of shells: this plus the number of the signal that ended a process.
_BY_SIGNAL = 128


@dataclass(frozen=True, kw_only=True)
class _What:
    """What is measured, and where.

    Attributes:
        whole_catalogue: Measure the whole catalogue.
        allow_other_board: Let another board of the same model continue the run.
        protocols: Protocol (default: all).
        source: Power source (default: the GPU's best).
    """

    instructions: OptionalPatterns = ()
    whole_catalogue: Annotated[bool, Opt(flag="--all")] = False
    category: Category = ""
    spec: GpuSpec = None
    out: Out = None
    resume: Resume = False
    allow_other_board: bool = False
    opt_levels: OptLevels = ()
    protocols: Annotated[tuple[str, ...], Opt(choices=protocol_names(), flag="--protocol")] = ()
    operands: Operands = ()
    sensor_path: SensorPath = None
    source: Annotated[str | None, Opt(choices=[source.value for source in POWER_SOURCES])] = None


@dataclass(frozen=True, kw_only=True)
class _Options(RowOptions, _What):
    """Options of `ptxbench table`.

    Attributes:
        linearity: Compare N copies with 2N: for all rows, a sample (one for each template and optimization
            level; default) or none.
        budget_minutes: Measure for so many minutes at most, the most important rows first; --resume measures
            the rest.
        survive: Measure in a separate process; if a kernel breaks it, continue without that kernel.
    """

    linearity: Annotated[str | None, Opt(choices=("all", "sample", "none"), flag="--check-linearity")] = None
    budget_minutes: Annotated[float | None, Opt(0, 1e6, above=True)] = None
    survive: bool = False
    as_json: Json = False


@command_of(_Options, "table")
def command(given: _Options) -> None:
    """Measure the energy of instructions (default: twelve common ones).

    Each trial is saved before the next begins; --resume continues a run that was stopped. --gpu all, or a
    list such as 0,2, measures on several GPUs at once and compares them: a process for each, and a run for
    each below --out. A word that is neither a name nor a pattern with * may stand for 40 instructions.
    """
    from ptxbench.catalogue.select import chosen
    from ptxbench.cli.table_many import measure_many
    from ptxbench.core.condition import OptLevel, Pattern
    from ptxbench.devices.select import names_several
    from ptxbench.experiment.linearity import Linearity
    from ptxbench.experiment.run_options import RunOptions
    from ptxbench.experiment.sensor_choice import sensors_for
    from ptxbench.experiment.session import resume_run, start_run
    from ptxbench.sensors.base import SourceName
    from ptxbench.storage.doctor_file import known_difference

    if names_several(given.spec):
        sys.exit(
            measure_many(
                str(given.spec), given.out, given.budget_minutes, resume=given.resume, as_json=given.as_json
            )
        )
    if given.survive:
        if given.out is None:
            raise click.UsageError("--survive needs --out, the folder of the run")
        sys.exit(_survive(given.out, given))
    if given.resume and given.out is None:
        raise click.UsageError("--resume needs --out, the folder of the run to continue.")
    if given.resume and given.sensor_path is not None:
        raise click.UsageError("--resume uses the sensors of the run; leave out --sensor.")
    selection = chosen(("*",) if given.whole_catalogue else given.instructions, given.category)
    say_found(selection)
    options = RunOptions(
        instructions=selection.names,
        opt_levels=tuple(OptLevel(level) for level in given.opt_levels),
        protocols=given.protocols,
        patterns=tuple(Pattern(pattern) for pattern in given.operands),
        source=SourceName(given.source) if given.source else None,
        linearity=Linearity(given.linearity) if given.linearity else None,
        **{field.name: getattr(given, field.name) for field in fields(RowOptions)},
    )
    gpu = open_chosen_gpu(given.spec)
    try:
        if given.out is not None and given.resume:
            folder = resume_run(gpu, options, given.out, allow_other_board=given.allow_other_board)
            say_lost(folder.lost, "trial")
        else:
            sensors = sensors_for(given.sensor_path, gpu) if given.sensor_path is not None else ()
            known = known_difference(given.sensor_path, gpu.info) if given.sensor_path is not None else 0.0
            folder = start_run(gpu, options, given.out, sensors, known)
        with folder:
            rows = _measure(
                gpu, folder, given.spec, 60 * given.budget_minutes if given.budget_minutes else math.inf
            )
            _say_changed(gpu, folder)
    finally:
        gpu.close()
    _print_rows(rows, gpu.info, folder, given.as_json)
    if any(row.status != "ok" for row in rows):
        sys.exit(1)


def _survive(out: Path, given: _Options) -> int:
    """Run this very command without --survive, and again where a kernel broke it."""
    from time import monotonic

    from ptxbench.experiment.isolation import run_surviving

    begin_s = monotonic()
    context = click.get_current_context()

    def command() -> list[str]:
        own = ["--resume"] if given.resume or (out / "manifest.json").exists() else []
        if given.budget_minutes is not None:
            left = max(given.budget_minutes - (monotonic() - begin_s) / 60, 0.01)
            own.append(f"--budget-minutes={left:.3f}")
        words = words_of(context, ("survive", "resume", "budget_minutes"), own)
        return [sys.executable, "-m", "ptxbench", *words]

    code = run_surviving(command, out, lambda text: click.echo(f"ptxbench: {text}", err=True))
    return code if code >= 0 else _ended_by_signal(-code, out, given.spec)


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

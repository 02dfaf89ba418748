"""`ptxbench table` on several GPUs: a process for each, one progress view, one report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.command_line import words_of
from ptxbench.cli.output import print_encoded
from ptxbench.cli.progress import progress_bar

if TYPE_CHECKING:
    from ptxbench.devices.select import NamedGpu
    from ptxbench.experiment.workers import Outcome, Work

_OWN = ("spec", "out", "resume", "as_json", "budget_minutes")
_LEAST_MINUTES = 0.01


def measure_many(
    spec: str, out: Path | None, budget_minutes: float | None, *, resume: bool, as_json: bool
) -> int:
    """Measure on every GPU that --gpu names, compare the boards, and return the exit code.

    Args:
        spec: What --gpu says.
        out: Folder of all boards.
        budget_minutes: Time for each board.
        resume: Whether the runs in `out` are continued.
        as_json: Whether to print JSON.

    Raises:
        GpuError: A GPU is not there.
        InputError: --gpu does not name several GPUs, or the folder is not fit.
    """
    from ptxbench.devices.select import named_gpus
    from ptxbench.experiment.fleet_runs import gather, require_fleet_folder
    from ptxbench.experiment.workers import run_workers
    from ptxbench.report.fleet import fleet_text
    from ptxbench.report.text_table import output_width

    if out is None:
        raise click.UsageError("--gpu with several GPUs needs --out, the folder of all their runs.")
    gpus = named_gpus(spec)
    require_fleet_folder(out, resume=resume)
    works = [_work(gpu, out, budget_minutes) for gpu in gpus]
    with progress_bar() as show:
        try:
            outcomes = run_workers(
                works, lambda at: show(at.done, at.total, f"{at.running} of {len(works)} GPUs"), _say_end
            )
        except KeyboardInterrupt:
            click.echo(f"ptxbench: stopped; what was measured is kept. {_go_on(out, spec)}", err=True)
            raise
    document = gather(out)
    if as_json:
        print_encoded(document, {"folder": str(out), "exit_codes": {one.name: one.code for one in outcomes}})
    else:
        click.echo(fleet_text(document, output_width()))
        _print_ends(outcomes, out, spec)
    return int(any(outcome.code for outcome in outcomes))


def _work(gpu: NamedGpu, out: Path, budget_minutes: float | None) -> Work:
    from ptxbench.experiment.fleet_runs import board_folder
    from ptxbench.experiment.workers import Work

    folder = board_folder(out, gpu.board)
    context = click.get_current_context()

    def command(passed_s: float) -> Sequence[str]:
        own = [f"--gpu={gpu.spec}", f"--out={folder}"]
        left_out: tuple[str, ...] = _OWN
        if (folder / "manifest.json").exists():
            own.append("--resume")
            left_out = (*_OWN, "sensor_path")
        if budget_minutes is not None:
            own.append(f"--budget-minutes={max(budget_minutes - passed_s / 60, _LEAST_MINUTES):.3f}")
        return [sys.executable, "-m", "ptxbench", *words_of(context, left_out, own)]

    # The process can open no other GPU than its own.
    environment = {"CUDA_VISIBLE_DEVICES": gpu.spec} if gpu.spec.startswith("GPU-") else {}
    return Work(folder.name, command, out / f"{folder.name}.log", environment)


def _say_end(outcome: Outcome) -> None:
    if outcome.code not in (0, 1):
        click.echo(f"ptxbench: {outcome.name} failed: {_reason(outcome)}", err=True)


def _reason(outcome: Outcome) -> str:
    if outcome.code < 0:
        return f"signal {-outcome.code} ended it, {outcome.restarts + 1} times"
    return outcome.said.removeprefix("ptxbench: error: ") or f"exit code {outcome.code}"


def _print_ends(outcomes: Sequence[Outcome], out: Path, spec: str) -> None:
    for outcome in outcomes:
        text = "done" if outcome.code == 0 else "some rows are not valid" if outcome.code == 1 else "failed"
        again = f", resumed {outcome.restarts} times" if outcome.restarts else ""
        click.echo(f"{outcome.name}: {text} in {outcome.took_s:.0f} s{again}")
    if any(outcome.code not in (0, 1) for outcome in outcomes):
        click.echo(_go_on(out, spec))
    click.echo(f"\nfolder: {out}")


def _go_on(out: Path, spec: str) -> str:
    own = ["--resume", f"--out={out}", f"--gpu={spec}"]
    words = words_of(click.get_current_context(), (*_OWN, "sensor_path"), own)
    return f"Continue with: {shlex.join(['ptxbench', *words])}"

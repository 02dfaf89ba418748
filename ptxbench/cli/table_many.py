"""`ptxbench table` on several GPUs: a process for each, one progress view, one report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ptxbench.cli.output import print_encoded, say
from ptxbench.cli.progress import progress_bar
from ptxbench.core.option import words_of
from ptxbench.report.fleet import fleet_text
from ptxbench.report.text_table import output_width

if TYPE_CHECKING:
    from ptxbench.experiment.supervise import Outcome
    from ptxbench.experiment.table_options import TableOptions


def measure_many(options: TableOptions) -> int:
    """Measure on every GPU that --gpu names, compare the boards, and return the exit code.

    Raises:
        GpuError: A GPU is not there.
        InputError: --gpu does not name several GPUs, or the folder is not fit.
    """
    from ptxbench.devices.select import named_gpus
    from ptxbench.experiment.fleet_runs import gather, require_fleet_folder
    from ptxbench.experiment.isolate import board_work
    from ptxbench.experiment.supervise import supervise

    out = options.out
    if out is None:
        raise click.UsageError("--gpu with several GPUs needs --out, the folder of all their runs.")
    gpus = named_gpus(str(options.spec))
    require_fleet_folder(out, resume=options.resume)
    works = [board_work(options, gpu, out) for gpu in gpus]
    with progress_bar() as show:
        try:
            outcomes = supervise(
                works, say, lambda at: show(at.done, at.total, f"{at.running} of {len(works)} GPUs"), _say_end
            )
        except KeyboardInterrupt:
            say(f"stopped; what was measured is kept. {_go_on(options)}")
            raise
    document = gather(out)
    if options.as_json:
        print_encoded(document, {"folder": str(out), "exit_codes": {one.name: one.code for one in outcomes}})
    else:
        click.echo(fleet_text(document, output_width()))
        _print_ends(outcomes, options)
    return int(any(outcome.code for outcome in outcomes))


def _say_end(outcome: Outcome) -> None:
    if outcome.code not in (0, 1):
        say(f"{outcome.name} failed: {_reason(outcome)}")


def _reason(outcome: Outcome) -> str:
    if outcome.code < 0:
        return f"signal {-outcome.code} ended it, {outcome.restarts + 1} times"
    return outcome.said or f"exit code {outcome.code}"


def _print_ends(outcomes: Sequence[Outcome], options: TableOptions) -> None:
    for outcome in outcomes:
        text = "done" if outcome.code == 0 else "some rows are not valid" if outcome.code == 1 else "failed"
        again = f", resumed {outcome.restarts} times" if outcome.restarts else ""
        click.echo(f"{outcome.name}: {text} in {outcome.took_s:.0f} s{again}")
    if any(outcome.code not in (0, 1) for outcome in outcomes):
        click.echo(_go_on(options))
    click.echo(f"\nfolder: {options.out}")


def _go_on(options: TableOptions) -> str:
    again = replace(options, resume=True, as_json=False, budget_minutes=None, sensor_path=None)
    return f"Continue with: {shlex.join(['ptxbench', 'table', *words_of(again)])}"

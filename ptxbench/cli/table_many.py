"""`ptxbench table` on several GPUs: a process for each, one progress view, one report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ptxbench.cli.output import say
from ptxbench.cli.progress import progress_bar
from ptxbench.cli.table_cluster import print_boards
from ptxbench.core.option import words_of

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
    codes = {one.name: one.code for one in outcomes}
    print_boards(gather(out), out, options.as_json, codes, _ends(outcomes, options))
    return int(any(outcome.code for outcome in outcomes))


def _say_end(outcome: Outcome) -> None:
    if outcome.code not in (0, 1):
        say(f"{outcome.name} failed: {_reason(outcome)}")


def _reason(outcome: Outcome) -> str:
    if outcome.code < 0:
        return f"signal {-outcome.code} ended it, {outcome.restarts + 1} times"
    return outcome.said or f"exit code {outcome.code}"


def _ends(outcomes: Sequence[Outcome], options: TableOptions) -> list[str]:
    """Return how each GPU's process ended, and how to go on where one failed."""
    lines = []
    for outcome in outcomes:
        text = {0: "done", 1: "some rows are not valid"}.get(outcome.code, "failed")
        again = f", resumed {outcome.restarts} times" if outcome.restarts else ""
        lines.append(f"{outcome.name}: {text} in {outcome.took_s:.0f} s{again}")
    if any(outcome.code not in (0, 1) for outcome in outcomes):
        lines.append(_go_on(options))
    return lines


def _go_on(options: TableOptions) -> str:
    again = replace(options, resume=True, as_json=False, budget_minutes=None, sensor_path=None)
    return f"Continue with: {shlex.join(['ptxbench', 'table', *words_of(again)])}"

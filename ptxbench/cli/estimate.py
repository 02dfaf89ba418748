"""`ptxbench estimate`: the energy of a kernel, from a measured table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.api.estimate_options import EstimateOptions
from ptxbench.cli.command import command_of
from ptxbench.cli.output import print_encoded, print_table
from ptxbench.core.option import Arg
from ptxbench.core.shared_options import TABLE, Json

if TYPE_CHECKING:
    from ptxbench.core.gpu_info import GpuInfo
    from ptxbench.model.estimate import KernelEstimate

_FILLS_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class _Options(EstimateOptions):
    """Options of `ptxbench estimate`."""

    kernel: Annotated[str, Arg()] = field()
    table: Annotated[Path, TABLE] = field()
    as_json: Json = False


@command_of(_Options, "estimate")
def command(options: _Options) -> None:
    """Estimate the energy of KERNEL: a PTX or cubin file or, with --ncu, a kernel's name or part of it.

    From a file, the executed instructions are counted along its control-flow graph. Trip counts are those in
    the code, or those of --trips (`--trips 0=128`). The traffic beyond L1 is then unknown. A CSV of ncu has
    the executed counts. Without --time-s (or gpu__time_duration in the CSV) the time is modelled.
    """
    from ptxbench.api.kernel import estimate_of
    from ptxbench.api.table import load_table

    if options.ncu is None and (options.grid is None or options.block is None):
        raise click.UsageError(
            "give the launch's shape with --grid BLOCKS --block THREADS, or counts with --ncu."
        )
    measured = load_table(options.table)
    kernel = options.kernel if options.ncu is not None else Path(options.kernel)
    result = estimate_of(kernel, measured, options)
    if options.as_json:
        print_encoded(result, {"gpu": measured.gpu.name, "kind": measured.gpu.kind})
    else:
        _print(result, measured.gpu, options.explain)


def _print(result: KernelEstimate, gpu: GpuInfo, explain: bool) -> None:
    click.echo(f"{result.kernel} on {gpu.title}")
    click.echo(
        f"{result.energy_j:.4g} J (95%: {result.low_j:.4g} to {result.high_j:.4g}), {result.power_w:.4g} W,"
        f" {result.time_s:.4g} s{', at the power limit' if result.capped else ''}"
    )
    if result.clock_ratio < 1:
        click.echo(f"at {result.clock_ratio * gpu.max_sm_clock_mhz:.0f} MHz SM clock")
    _print_parts(result, explain)
    click.echo(f"{100 * result.uncovered_share:.1f}% of the executed instructions are not in the table")
    for fill in result.fills[:_FILLS_SHOWN]:
        beside = f" ({fill.source})" if fill.source else ""
        click.echo(f"  {fill.opcode}, {100 * fill.share:.2f}%: {fill.rule}{beside}")
    _print_answers(result)
    for note in result.notes:
        click.echo(f"note: {note}")


def _print_parts(result: KernelEstimate, with_errors: bool) -> None:
    rows = []
    for part in result.parts:
        row = [part.name, f"{part.energy_j:.4g}", f"{100 * part.energy_j / result.energy_j:.1f}"]
        error = "" if math.isnan(part.error_j) else f"{part.error_j:.2g}"
        rows.append([*row, error] if with_errors else row)
    headings = ("where", "J", "%", "± J") if with_errors else ("where", "J", "%")
    print_table(headings, rows, headings[1:])


def _print_answers(result: KernelEstimate) -> None:
    """Print what models that know less say, with their errors on judged kernels."""
    if not result.answers:
        return
    sets = [f"error %, {one.cases} {one.kernels}" for one in result.answers[0].errors]
    rows = [
        (
            answer.name,
            f"{answer.energy_j:.4g}",
            f"{100 * (answer.energy_j / result.energy_j - 1):+.1f}",
            *(f"{one.mean_absolute_pct:.1f}" for one in answer.errors),
        )
        for answer in result.answers
    ]
    headings = ("model", "J", "% from the table's", *sets)
    print_table(headings, rows, headings[1:])
    click.echo(
        "error %: mean absolute error of the energy on kernels that no model was fitted to, with counts by "
        "ncu, measured time and clock"
    )

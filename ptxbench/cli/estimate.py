"""`ptxbench estimate`: the energy of a kernel, from a measured table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import json_option, opt_level_option, table_option
from ptxbench.cli.output import print_encoded, print_table
from ptxbench.cli.parameters import LoopCount, Number, one_of_each

if TYPE_CHECKING:
    from ptxbench.core.gpu_info import GpuInfo
    from ptxbench.model.estimate import KernelEstimate

_FILLS_SHOWN = 8


@click.command(name="estimate")
@click.argument("kernel")
@table_option(required=True)
@click.option("--entry", help="Name of the entry, if the file has several.")
@click.option("--grid", type=click.IntRange(1, 2**31 - 1), help="Blocks of the launch (for PTX and cubin).")
@click.option("--block", type=click.IntRange(min=1, max=1024), help="Threads per block (for PTX and cubin).")
@click.option(
    "--trips",
    multiple=True,
    type=LoopCount(),
    metavar="LOOP=N",
    callback=one_of_each,
    help="Passes of a loop, named by its number or address (may be repeated).",
)
@opt_level_option("O3")
@click.option(
    "--ncu", type=click.Path(path_type=Path), help="CSV of `ncu --csv --page raw` with the executed counts."
)
@click.option("--time-s", type=Number(0, 1e6, above=True), help="Time of one launch in seconds.")
@click.option(
    "--steady",
    is_flag=True,
    help="Take --time-s as the time in a steady state, with the power cap in effect if there is one.",
)
@click.option("--clock-mhz", type=Number(1, 10_000), help="SM clock during the launch.")
@click.option(
    "--activity",
    type=Number(0, 1),
    help="Activity of the operands, from 0 (zeros) to 1 (random).",
)
@click.option(
    "--data",
    metavar="KIND",
    help="Kind of data, in place of --activity: random (default), zeros, or another that the table's terms"
    " know, such as image, integers, sparse, text, weights or constant.",
)
@click.option(
    "--integer-data", is_flag=True, help="The kernel's integer instructions compute data, not addresses."
)
@click.option("--temperature-c", type=Number(-100, 200), help="GPU temperature (default: the run's).")
@click.option(
    "--set-clock-mhz",
    type=Number(1, 10_000),
    help="Estimate for this SM clock; --time-s is then the time at the full clock.",
)
@click.option("--memory-ratio", type=Number(0.1, 1), help="Estimate for this memory clock over the full one.")
@click.option(
    "--set-limit-w",
    "limit_w",
    type=Number(1, 1e5),
    help="Estimate for this power limit (default: the run's).",
)
@click.option(
    "--clock-samples",
    type=click.Path(path_type=Path),
    help="CSV file of power at several clocks, as `ptxbench ridge` takes it: its voltage curve stands in for"
    " the table's power law of the clock.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Show the error of each part, and what models that know less than the table say of the kernel.",
)
@json_option
def command(
    kernel: str,
    table: Path,
    entry: str | None,
    grid: int | None,
    block: int | None,
    trips: dict[int | str, float],
    opt_level: str,
    ncu: Path | None,
    time_s: float | None,
    steady: bool,
    clock_mhz: float | None,
    activity: float | None,
    data: str | None,
    integer_data: bool,
    temperature_c: float | None,
    set_clock_mhz: float | None,
    memory_ratio: float | None,
    limit_w: float | None,
    clock_samples: Path | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Estimate the energy of KERNEL: a PTX or cubin file or, with --ncu, a kernel's name or part of it.

    From a file, the executed instructions are counted along its control-flow graph. Trip counts are those in
    the code, or those of --trips (`--trips 0=128`). The traffic beyond L1 is then unknown. A CSV of ncu has
    the executed counts. Without --time-s (or gpu__time_duration in the CSV) the time is modelled.
    """
    from ptxbench.api.kernel import estimate_kernel
    from ptxbench.api.table import load_table

    if ncu is None and (grid is None or block is None):
        raise click.UsageError(
            "give the launch's shape with --grid BLOCKS --block THREADS, or counts with --ncu."
        )
    measured = load_table(table)
    result = estimate_kernel(
        kernel if ncu is not None else Path(kernel),
        table=measured,
        ncu=ncu,
        entry=entry,
        grid=grid,
        block=block,
        trips=trips,
        opt_level=opt_level,
        time_s=time_s,
        steady=steady,
        clock_mhz=clock_mhz,
        activity=activity,
        data=data,
        integer_data=integer_data,
        temperature_c=temperature_c,
        set_clock_mhz=set_clock_mhz,
        memory_ratio=memory_ratio,
        limit_w=limit_w,
        clock_samples=clock_samples,
        explain=explain,
    )
    if as_json:
        print_encoded(result, {"gpu": measured.gpu.name, "kind": measured.gpu.kind})
    else:
        _print(result, measured.gpu, explain)


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
    sets = [f"% off, {one.cases} {one.kernels}" for one in result.answers[0].errors]
    rows = [
        (
            answer.name,
            f"{answer.energy_j:.4g}",
            f"{100 * (answer.energy_j / result.energy_j - 1):+.1f}",
            *(f"{one.mean_absolute_pct:.1f}" for one in answer.errors),
        )
        for answer in result.answers
    ]
    headings = ("model", "J", "% beside", *sets)
    print_table(headings, rows, headings[1:])
    click.echo("% off: mean absolute error on judged kernels, with counts by ncu, measured time and clock")

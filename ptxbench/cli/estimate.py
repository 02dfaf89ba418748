"""`ptxbench estimate`: the energy of a kernel, from a measured table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import OPT_LEVELS, json_option
from ptxbench.cli.output import print_encoded, print_table

if TYPE_CHECKING:
    from ptxbench.core.gpu_info import GpuInfo
    from ptxbench.model.estimate import KernelEstimate
    from ptxbench.model.inputs import Table
    from ptxbench.model.work import KernelWork

_FILLS_SHOWN = 8


def _trips(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Return the trip count by loop of options such as 0=128."""
    trips = {}
    for value in values:
        loop, _, count = value.partition("=")
        try:
            trips[loop] = float(count)
        except ValueError:
            trips[loop] = math.nan
        if not trips[loop] >= 0:
            raise click.BadParameter(
                f"{value!r} must be LOOP=N with N not negative, such as 0=128 or 0x1a0=128"
            )
    return trips


@click.command(name="estimate")
@click.argument("kernel")
@click.option(
    "--table", "run", required=True, type=click.Path(path_type=Path), help="Run folder of this GPU."
)
@click.option("--entry", help="Entry name, where the file has several.")
@click.option("--grid", type=click.IntRange(min=1), help="Blocks (for PTX and cubin).")
@click.option("--block", type=click.IntRange(min=1, max=1024), help="Threads a block (for PTX and cubin).")
@click.option(
    "--trips",
    multiple=True,
    metavar="LOOP=N",
    callback=_trips,
    help="Passes of a loop, by number or address.",
)
@click.option("--opt-level", type=click.Choice(OPT_LEVELS), default="O3", help="Level to assemble PTX at.")
@click.option("--ncu", type=click.Path(path_type=Path), help="Executed counts from `ncu --csv --page raw`.")
@click.option("--time-s", type=click.FloatRange(min=0, min_open=True), help="Time of one launch.")
@click.option(
    "--steady", is_flag=True, help="The time is that of a steady state, under the power cap if any."
)
@click.option(
    "--clock-mhz", type=click.FloatRange(min=0, min_open=True), help="SM clock that the time is at."
)
@click.option("--activity", type=click.FloatRange(0, 1), help="Operands: 0 zeros, 1 random (default).")
@click.option("--temperature-c", type=float, default=math.nan, help="GPU temperature (default: the run's).")
@json_option
def command(
    kernel: str,
    run: Path,
    entry: str | None,
    grid: int | None,
    block: int | None,
    trips: dict[str, float],
    opt_level: str,
    ncu: Path | None,
    time_s: float | None,
    steady: bool,
    clock_mhz: float | None,
    activity: float | None,
    temperature_c: float,
    as_json: bool,
) -> None:
    """Estimate the energy of KERNEL: a PTX or cubin file, or with --ncu (part of) a kernel's name.

    From a file the executed instructions are counted by its control-flow graph, with the trip counts that
    the code shows or that --trips gives (`--trips 0=128`); bytes beyond L1 are then not known. From ncu's
    CSV they are what was executed. Without --time-s (or gpu__time_duration in the CSV) the time is modelled.
    """
    from ptxbench.model.estimate import Conditions, estimate
    from ptxbench.model.inputs import read_table
    from ptxbench.model.work import activity_between

    table = read_table(run)
    if ncu is not None:
        work, notes = _profiled(kernel, ncu, time_s, table)
    else:
        work, notes = _static(Path(kernel), entry, grid, block, trips, opt_level, time_s, table)
    terms = table.machine.terms
    conditions = Conditions(
        activity=activity_between(terms.zeros, terms.random, 1.0 if activity is None else activity),
        temperature_c=temperature_c,
        clock_ratio=math.nan if clock_mhz is None else clock_mhz / table.gpu.max_sm_clock_mhz,
        steady_time=steady,
    )
    result = estimate(work, table.machine, conditions)
    if as_json:
        print_encoded(result, {"gpu": table.gpu.name, "kind": table.gpu.kind, "assumptions": notes})
    else:
        _print(result, table.gpu, notes)


def _profiled(kernel: str, ncu: Path, time_s: float | None, table: Table) -> tuple[KernelWork, list[str]]:
    from dataclasses import replace

    from ptxbench.model.inputs import profiled_work

    work = profiled_work(ncu, kernel, table)
    return (work if time_s is None else replace(work, time_s=time_s)), []


def _static(
    path: Path,
    entry: str | None,
    grid: int | None,
    block: int | None,
    trips: dict[str, float],
    opt_level: str,
    time_s: float | None,
    table: Table,
) -> tuple[KernelWork, list[str]]:
    from ptxbench.core.condition import OptLevel
    from ptxbench.model.inputs import Shape, read_kernel, static_work

    if grid is None or block is None:
        raise click.UsageError(
            "give the launch's shape with --grid BLOCKS --block THREADS, or counts with --ncu."
        )
    sass = read_kernel(path, entry, table, OptLevel(opt_level))
    given_s = math.nan if time_s is None else time_s
    work, modelled = static_work(sass, Shape(grid, block), trips, given_s, table)
    if not modelled:
        return work, []
    return work, ["the time is modelled by the busiest pipe: a kernel that waits for memory takes longer"]


def _print(result: KernelEstimate, gpu: GpuInfo, notes: list[str]) -> None:
    click.echo(f"{result.kernel} on {gpu.title}")
    click.echo(
        f"{result.energy_j:.4g} J (95%: {result.low_j:.4g} to {result.high_j:.4g}), {result.power_w:.4g} W,"
        f" {result.time_s:.4g} s{', at the power limit' if result.capped else ''}"
    )
    print_table(
        ("where", "J", "%"),
        [
            (part.name, f"{part.energy_j:.4g}", f"{100 * part.energy_j / result.energy_j:.1f}")
            for part in result.parts
        ],
        ("J", "%"),
    )
    click.echo(f"{100 * result.uncovered_share:.1f}% of the executed instructions are not in the table")
    for fill in result.fills[:_FILLS_SHOWN]:
        beside = f" ({fill.source})" if fill.source else ""
        click.echo(f"  {fill.opcode}, {100 * fill.share:.2f}%: {fill.rule}{beside}")
    for note in (*notes, *result.notes):
        click.echo(f"note: {note}")

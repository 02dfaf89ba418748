"""`ptxbench roofline`: what a flop, a byte and a second cost, and what follows from it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.options import (
    gpu_option,
    json_option,
    out_option,
    plot_option,
    resume_option,
    seed_option,
    table_option,
    window_option,
)
from ptxbench.cli.output import encoded, print_json
from ptxbench.cli.parameters import Number
from ptxbench.cli.progress import progress_bar
from ptxbench.cli.roofline_output import print_kernels, print_result, print_tradeoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxbench.experiment.roofline.result import RooflineResult
    from ptxbench.model.atlas import Figure
    from ptxbench.model.roofline.equations import RooflineMachine
    from ptxbench.model.roofline.quantity import Quantity
    from ptxbench.report.roofline_kernels import PlacedKernel

# No machine and no algorithm is outside; figures of another unit mostly are, and products stay finite.
_INTENSITY = Number(1e-6, 1e9)
_SPEED = Number(1e-3, 1e9)
_ENERGY_PJ = Number(1e-3, 1e6)
_PATH = click.Path(path_type=Path)
_MACHINE = ("gflops", "gbytes", "flop_pj", "byte_pj")
_KIND = click.Choice(["f32", "f64", "f16x2", "mma-f16", "mma-bf16", "mma-tf32", "mma-f64"])
_LEVEL = click.Choice(["dram", "l2", "l1", "shared"])
pattern_option = click.option(
    "--operands",
    "pattern",
    type=click.Choice(["random", "zeros"]),
    default="random",
    help="Operand pattern (default: random).",
)


@click.group(name="roofline")
def command() -> None:
    """Find what a flop, a byte and a second cost, and what follows from it (Choi and Vuduc 2012)."""


@command.command(name="run")
@gpu_option
@out_option
@resume_option
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=_KIND,
    help="Kind of flop (may be repeated; default: f32 and f64).",
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=_LEVEL,
    help="Memory level (may be repeated; default: dram).",
)
@click.option(
    "--operands",
    "patterns",
    multiple=True,
    type=click.Choice(["random", "zeros"]),
    help="Operand pattern (may be repeated; default: random).",
)
@click.option(
    "--sms",
    multiple=True,
    type=click.IntRange(1, 10_000),
    help="SMs to run on (may be repeated; default: all, and an eighth of them).",
)
@click.option(
    "--intensity",
    "intensities",
    multiple=True,
    type=_INTENSITY,
    help="Intensity in flop/byte (may be repeated; default: 1/8 to 512 in steps of sqrt 2).",
)
@window_option(None)
@seed_option
@click.option(
    "--budget-minutes",
    type=Number(0, 1e6, above=True),
    help="Measure for so many minutes at most; --resume measures the rest.",
)
@json_option
def run(
    spec: str | None,
    out: Path | None,
    resume: bool,
    kinds: tuple[str, ...],
    levels: tuple[str, ...],
    patterns: tuple[str, ...],
    sms: tuple[int, ...],
    intensities: tuple[float, ...],
    window_s: float | None,
    seed: int | None,
    budget_minutes: float | None,
    as_json: bool,
) -> None:
    """Measure kernels of many intensities, and fit what a flop, a byte and a second cost.

    Readings are kept after every kernel; --resume continues a stopped run. No setting of the GPU is changed.
    Of the simulated GPUs, h200-memory, rtx3090-memory and rtx5090 have a memory of limited bandwidth.
    """
    from ptxbench.experiment.roofline.measure import measure
    from ptxbench.experiment.roofline.point import RooflineOptions
    from ptxbench.experiment.roofline.result import write_result

    options = RooflineOptions(
        kinds or ("f32", "f64"), levels or ("dram",), patterns or ("random",), sms, intensities,
        window_s or 0.0, seed or 0,
    )  # fmt: skip
    options.kernels()
    gpu = open_chosen_gpu(spec)
    budget_s = 60 * budget_minutes if budget_minutes else math.inf
    try:
        with progress_bar() as show:
            folder = measure(gpu, options, out, resume=resume, show=show, budget_s=budget_s)
    finally:
        gpu.close()
    click.echo(f"folder: {folder.path}", err=True)
    if not folder.finished:
        click.echo("the time given is spent: continue with --resume", err=True)
    write_result(folder, options.patterns[0])
    paths = (folder.path,)
    _report(paths, _results(paths, options.patterns[0]), None, (), as_json=as_json)


@command.command(name="show")
@click.argument("run_paths", metavar="RUN...", type=_PATH, nargs=-1, required=True)
@pattern_option
@table_option(required=False)
@click.option(
    "--kernels",
    type=_PATH,
    help="Folder of runners/validate_kernels.py: its kernels are placed on the roofline of the first RUN.",
)
@click.option("--counts", type=_PATH, help="Folder of the counts of --kernels, where they are not in it.")
@plot_option("roofline and arch line, power, energy and green-up; several RUNs side by side")
@json_option
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print every kernel of the RUNs, or of --kernels, as CSV."
)
def show(
    run_paths: tuple[Path, ...],
    pattern: str,
    table: Path | None,
    kernels: Path | None,
    counts: Path | None,
    plot: Path | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Work out the fit, balance points and verdict of each RUN again from its readings.

    With --table, what the instruction table gives for a flop and a byte stands beside the fitted energies.
    """
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both.")
    if counts is not None and kernels is None:
        raise click.UsageError("--counts needs --kernels.")
    results = _results(run_paths, pattern)
    placed = _placed(results[0], kernels, counts)
    if plot is not None:
        from ptxbench.report.roofline_plot import plot_roofline

        plot_roofline(results, plot, placed)
    if as_csv:
        from ptxbench.report.roofline_kernels import kernels_csv, points_csv

        click.echo(kernels_csv(placed) if kernels else points_csv(results), nl=False)
        return
    _report(run_paths, results, table, placed, as_json=as_json)


@command.command(name="tradeoff")
@click.option("--f", "f", type=Number(1, 1e9), required=True, help="Factor on the flops, 1 or more.")
@click.option(
    "--m", "m", type=Number(1, 1e12), required=True, help="Factor that the bytes are divided by, 1 or more."
)
@click.option(
    "--intensity", type=_INTENSITY, required=True, help="Intensity in flop/byte, of the present algorithm."
)
@click.option(
    "--run", "run_path", type=_PATH, help="Folder of a run: the machine that `roofline run` fitted."
)
@click.option("--kind", type=_KIND, default="f32", help="Kind of flop (default: f32).")
@click.option("--level", type=_LEVEL, default="dram", help="Memory level (default: dram).")
@pattern_option
@click.option("--gflops", type=_SPEED, help="Highest speed, Gflop/s.")
@click.option("--gbytes", type=_SPEED, help="Highest bandwidth, GB/s.")
@click.option("--flop-pj", type=_ENERGY_PJ, help="Energy of a flop, pJ.")
@click.option("--byte-pj", type=_ENERGY_PJ, help="Energy of a byte, pJ.")
@click.option("--constant-w", type=Number(0, 1e5), help="Constant power, W (default: 0).")
@json_option
def tradeoff(
    f: float,
    m: float,
    intensity: float,
    run_path: Path | None,
    kind: str,
    level: str,
    pattern: str,
    as_json: bool,
    **figures: float | None,
) -> None:
    """Tell whether F times the flops for 1/M of the bytes saves time and energy.

    Speed-up and green-up are time and energy of the present algorithm over those of the new one
    (Eqs. 13 to 32). The machine is that of --run, with 95% intervals, or else four figures describe it. The
    power limit is left out, as in the paper.
    """
    from ptxbench.model.roofline.quantity import tradeoff_quantities
    from ptxbench.model.roofline.tradeoff import TradeOff

    given = {name: value for name, value in figures.items() if value is not None}
    if run_path is not None:
        if given:
            raise click.UsageError(f"give --run or {_options(given)}, not both.")
        machine, draws = _machine_of(run_path, kind, level, pattern)
    else:
        machine, draws = _given_machine(given), []
    trade = TradeOff(machine, intensity, f, m)
    quantities = tradeoff_quantities(trade, draws)
    if as_json:
        print_json({"case": trade.case.value, "verdict": trade.verdict, **_as_json(quantities)})
        return
    print_tradeoff(trade, {quantity.name: quantity for quantity in quantities})


def _given_machine(given: dict[str, float]) -> RooflineMachine:
    from ptxbench.model.roofline.equations import RooflineMachine

    missing = {name: 0.0 for name in _MACHINE if name not in given}
    if missing:
        raise click.UsageError(f"{_options(missing)} is missing; or take the machine of a run by --run.")
    return RooflineMachine(
        1e-9 / given["gflops"],
        1e-9 / given["gbytes"],
        1e-12 * given["flop_pj"],
        1e-12 * given["byte_pj"],
        given.get("constant_w", 0.0),
    )


def _options(names: dict[str, float]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _machine_of(
    path: Path, kind: str, level: str, pattern: str
) -> tuple[RooflineMachine, list[RooflineMachine]]:
    from ptxbench.experiment.roofline.point import open_folder
    from ptxbench.experiment.roofline.result import fitted_machine, work_out

    return fitted_machine(work_out(open_folder(path), pattern), kind, level)


def _results(paths: Sequence[Path], pattern: str) -> list[RooflineResult]:
    from ptxbench.experiment.roofline.point import open_folder
    from ptxbench.experiment.roofline.result import work_out

    return [work_out(open_folder(path), pattern) for path in paths]


def _placed(result: RooflineResult, kernels: Path | None, counts: Path | None) -> tuple[PlacedKernel, ...]:
    if kernels is None:
        return ()
    from ptxbench.report.roofline_kernels import placed_kernels

    return placed_kernels(result, kernels, counts)


def _report(
    paths: Sequence[Path],
    results: Sequence[RooflineResult],
    table: Path | None,
    placed: Sequence[PlacedKernel],
    *,
    as_json: bool,
) -> None:
    """Print what runs say; of several, JSON is a list."""
    besides = [_table_figures(result, table) if table else None for result in results]
    if as_json:
        documents = [
            {"folder": str(path), **_table_document(result, beside or {}), **encoded(result.document())}
            for path, result, beside in zip(paths, results, besides, strict=True)
        ]
        documents[0]["kernels"] = [{**encoded(one), "of_line": one.of_line} for one in placed]
        print_json(documents[0] if len(documents) == 1 else {"runs": documents})
        return
    for number, (result, beside) in enumerate(zip(results, besides, strict=True)):
        if number:
            click.echo()
        print_result(result, beside)
    if placed:
        click.echo()
        print_kernels(placed)


def _table_figures(result: RooflineResult, table: Path) -> dict[str, Figure]:
    """Return what the table has for each fitted energy that it has something for."""
    from ptxbench.model.atlas import open_atlas

    atlas = open_atlas(table)
    found = {one.name: atlas.figure(one.name, result.pattern) for one in result.energies}
    return {name: figure for name, figure in found.items() if figure}


def _table_document(result: RooflineResult, beside: dict[str, Figure]) -> dict[str, object]:
    return {
        "table_pj": {one.name: beside[one.name].value_pj if one.name in beside else None
                     for one in result.energies},
        "table_notes": {name: figure.note for name, figure in beside.items()},
    }  # fmt: skip


def _as_json(quantities: Sequence[Quantity]) -> dict[str, dict[str, float]]:
    return {q.name: {"value": q.value, "low": q.low, "high": q.high} for q in quantities}

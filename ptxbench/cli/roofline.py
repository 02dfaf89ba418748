"""`ptxbench roofline`: what a flop, a byte and a second cost, and what follows from it."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.cli.command import command_of
from ptxbench.cli.options import plot_of
from ptxbench.cli.output import encoded, print_json
from ptxbench.cli.progress import progress_bar
from ptxbench.cli.roofline_output import print_kernels, print_result, print_tradeoff
from ptxbench.cli.terminal import as_written
from ptxbench.core.option import Arg, Opt
from ptxbench.core.shared_options import (
    GpuSpec,
    Json,
    OneOperands,
    Out,
    Resume,
    TableFolder,
)
from ptxbench.experiment.roofline.kinds import KINDS, LEVELS
from ptxbench.experiment.roofline.options import INTENSITY, RooflineOptions
from ptxbench.storage.atomic import require_file, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxbench.experiment.roofline.result import RooflineResult
    from ptxbench.model.atlas import UnitEnergy
    from ptxbench.model.roofline.equations import RooflineMachine
    from ptxbench.model.roofline.quantity import Quantity
    from ptxbench.report.roofline_kernels import PlacedKernel

# No machine is outside; figures of another unit mostly are, and products stay finite.
_SPEED = (1e-3, 1e9)
_ENERGY_PJ = (1e-3, 1e6)
_MACHINE = ("gflops", "gbytes", "flop_pj", "byte_pj")


@click.group(name="roofline")
def command() -> None:
    """Find what a flop, a byte and a second cost, and what follows from it (Choi and Vuduc 2012)."""


@dataclass(frozen=True, kw_only=True)
class _RunOptions(RooflineOptions):
    """Options of `ptxbench roofline run`.

    Attributes:
        budget_minutes: Measure for so many minutes at most; --resume measures the rest.
    """

    spec: GpuSpec = None
    out: Out = None
    resume: Resume = False
    budget_minutes: Annotated[float | None, Opt(0, 1e6, above=True)] = None
    as_json: Json = False


@command_of(_RunOptions, "run", group=command, short_help="Measure kernels of many intensities and fit.")
def run(options: _RunOptions) -> None:
    """Measure kernels of many intensities, and fit what a flop, a byte and a second cost.

    Readings are kept after every kernel; --resume continues a stopped run. No setting of the GPU is changed.
    Of the simulated GPUs, h200-memory, rtx3090-memory and rtx5090 have a memory of limited bandwidth.
    """
    from ptxbench.experiment.roofline.measure import measure, wanted_kernels
    from ptxbench.experiment.roofline.result import write_result

    wanted_kernels(options)
    budget_s = 60 * options.budget_minutes if options.budget_minutes else math.inf
    with closing(open_chosen_gpu(options.spec)) as gpu, progress_bar() as show:
        folder = measure(gpu, options, options.out, resume=options.resume, show=show, budget_s=budget_s)
    click.echo(f"folder: {folder.path}", err=True)
    if not folder.finished:
        click.echo("the time given is spent: continue with --resume", err=True)
    write_result(folder, options.operands[0])
    paths = (folder.path,)
    _report(paths, _results(paths, options.operands[0]), as_json=options.as_json)


@dataclass(frozen=True, kw_only=True)
class _ShowOptions:
    """Options of `ptxbench roofline show`.

    Attributes:
        kernels: Kernels to place on the roofline of the first RUN: JSON of run, report PROFILE or estimate.
        counts: CSV of ncu with the counts of --kernels, where they are not in it.
        html: Write the report as a page for a browser: of the RUNs, and of --kernels.
        as_csv: Print every kernel of the RUNs, or of --kernels, as CSV.
    """

    run_paths: Annotated[tuple[Path, ...], Arg(metavar="RUN...")]
    operands: OneOperands = "random"
    table: TableFolder = None
    kernels: Path | None = None
    counts: Path | None = None
    plot: Annotated[
        Path | None,
        plot_of("roofline, arch line, power, energy, green-up, trades; several RUNs side by side"),
    ] = None
    html: Annotated[Path | None, Opt(metavar="FILE")] = None
    as_json: Json = False
    as_csv: Annotated[bool, Opt(flag="--csv")] = False


@command_of(_ShowOptions, "show", group=command, short_help="Work out fits and verdicts again from readings.")
def show(options: _ShowOptions) -> None:
    """Work out the fit, balance points and verdict of each RUN again from its readings.

    With --table, what the instruction table gives for a flop and a byte stands beside the fitted energies.
    """
    if options.as_json and options.as_csv:
        raise click.UsageError("give --json or --csv, not both.")
    if options.counts is not None and options.kernels is None:
        raise click.UsageError("--counts needs --kernels.")
    if options.html is not None:
        require_file(options.html)
        from ptxbench.report.roofline_page import read_roofline, render_rooflines

        reports = [read_roofline(path) for path in options.run_paths]
        results = [report.result_of(options.operands) for report in reports]
    else:
        results = _results(options.run_paths, options.operands)
    placed: tuple[PlacedKernel, ...] = ()
    if options.kernels is not None:
        from ptxbench.report.roofline_kernels import placed_kernels

        placed = placed_kernels(results[0], options.kernels, options.counts)
    if options.plot is not None:
        from ptxbench.report.roofline_plot import plot_roofline

        plot_roofline(results, options.plot, placed)
    if options.html is not None:
        write_text(options.html, render_rooflines(reports, placed))
    if options.as_csv:
        from ptxbench.report.roofline_kernels import kernels_csv, points_csv

        text = kernels_csv(placed) if options.kernels else points_csv(results)
        click.echo(text, nl=False, file=as_written())
        return
    _report(options.run_paths, results, options.table, placed, as_json=options.as_json)


@dataclass(frozen=True, kw_only=True)
class _TradeoffOptions:
    """Options of `ptxbench roofline tradeoff`.

    Attributes:
        f: Factor on the flops, 1 or more.
        m: Factor that the bytes are divided by, 1 or more.
        intensity: Intensity in flop/byte, of the present algorithm.
        run_path: Folder of a run: the machine that `roofline run` fitted.
        kind: Kind of flop (default: f32).
        level: Memory level (default: dram).
        gflops: Highest speed, Gflop/s.
        gbytes: Highest bandwidth, GB/s.
        flop_pj: Energy of a flop, pJ.
        byte_pj: Energy of a byte, pJ.
        constant_w: Constant power, W (default: 0).
        cap_w: Power limit, W (default: that of --run, else none).
    """

    f: Annotated[float, Opt(1, 1e9)]
    m: Annotated[float, Opt(1, 1e12)]
    intensity: Annotated[float, Opt(*INTENSITY)]
    run_path: Annotated[Path | None, Opt(flag="--run")] = None
    kind: Annotated[str, Opt(choices=tuple(KINDS))] = "f32"
    level: Annotated[str, Opt(choices=tuple(LEVELS))] = "dram"
    operands: OneOperands = "random"
    gflops: Annotated[float | None, Opt(*_SPEED)] = None
    gbytes: Annotated[float | None, Opt(*_SPEED)] = None
    flop_pj: Annotated[float | None, Opt(*_ENERGY_PJ)] = None
    byte_pj: Annotated[float | None, Opt(*_ENERGY_PJ)] = None
    constant_w: Annotated[float | None, Opt(0, 1e5)] = None
    cap_w: Annotated[float | None, Opt(0, 1e5, above=True)] = None
    as_json: Json = False


@command_of(_TradeoffOptions, "tradeoff", group=command, short_help="Weigh more flops against fewer bytes.")
def tradeoff(options: _TradeoffOptions) -> None:
    """Tell whether F times the flops for 1/M of the bytes saves time and energy.

    Speed-up and green-up are time and energy of the present algorithm over those of the new one
    (Eqs. 13 to 32). The machine is that of --run, with 95% intervals, or else four figures describe it.
    Where a power limit slows one of the two down, the verdict is that at the clocks it leaves.
    """
    from ptxbench.model.roofline.power_capping import trade_under_limit
    from ptxbench.model.roofline.quantity import tradeoff_quantities
    from ptxbench.model.roofline.tradeoff import TradeOff

    figures = {name: getattr(options, name) for name in (*_MACHINE, "constant_w")}
    given = {name: value for name, value in figures.items() if value is not None}
    if options.run_path is not None:
        if given:
            raise click.UsageError(f"give --run or {_options(given)}, not both.")
        from ptxbench.experiment.roofline.result import fitted_machine

        (result,) = _results((options.run_path,), options.operands)
        machine, draws = fitted_machine(result, options.kind, options.level)
    else:
        machine, draws = _given_machine(given), []
    if options.cap_w is not None:
        machine = replace(machine, cap_w=options.cap_w)
        draws = [replace(one, cap_w=options.cap_w) for one in draws if one.lowest_cap_w < options.cap_w]
    trade = TradeOff(machine, options.intensity, options.f, options.m)
    on_chip = options.level != "dram"
    limited = trade_under_limit(trade, on_chip=on_chip)
    quantities = tradeoff_quantities(trade, draws, on_chip=on_chip)
    if options.as_json:
        print_json(
            {
                "case": trade.case.value,
                "verdict": limited.verdict,
                "without_limit": trade.verdict,
                "clocks": [limited.before.clock, limited.after.clock],
                "free_w": [limited.before_free_w, limited.after_free_w],
                **_as_json(quantities),
            }
        )
        return
    print_tradeoff(trade, limited, {quantity.name: quantity for quantity in quantities})


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


def _results(paths: Sequence[Path], pattern: str) -> list[RooflineResult]:
    from ptxbench.experiment.roofline.point import open_folder
    from ptxbench.experiment.roofline.result import work_out

    return [work_out(open_folder(path), pattern) for path in paths]


def _report(
    paths: Sequence[Path],
    results: Sequence[RooflineResult],
    table: Path | None = None,
    placed: Sequence[PlacedKernel] = (),
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


def _table_figures(result: RooflineResult, table: Path) -> dict[str, UnitEnergy]:
    """Return what the table has for each fitted energy that it has something for."""
    from ptxbench.model.atlas import open_atlas

    atlas = open_atlas(table)
    found = {one.name: atlas.unit_energy(one.name, result.pattern) for one in result.energies}
    return {name: figure for name, figure in found.items() if figure}


def _table_document(result: RooflineResult, beside: dict[str, UnitEnergy]) -> dict[str, object]:
    return {
        "table_pj": {one.name: beside[one.name].value_pj if one.name in beside else None
                     for one in result.energies},
        "table_notes": {name: figure.note for name, figure in beside.items()},
    }  # fmt: skip


def _as_json(quantities: Sequence[Quantity]) -> dict[str, dict[str, float]]:
    return {q.name: {"value": q.value, "low": q.low, "high": q.high} for q in quantities}

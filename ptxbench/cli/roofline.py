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
from ptxbench.cli.output import print_encoded, print_json, print_table
from ptxbench.cli.parameters import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxbench.experiment.roofline.result import FittedMachine, RooflineResult
    from ptxbench.model.roofline.equations import RooflineMachine
    from ptxbench.model.roofline.quantity import Quantity
    from ptxbench.model.roofline.tradeoff import TradeOff

_POSITIVE = Number(0, 1e18, above=True)
_PATH = click.Path(path_type=Path)
_MACHINE = ("gflops", "gbytes", "flop_pj", "byte_pj")
_KIND = click.Choice(["f32", "f64", "f16x2", "mma-f16", "mma-bf16", "mma-f64"])
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
    help="Operands (may be repeated; default: random).",
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
    type=_POSITIVE,
    help="Intensity in flop/byte (may be repeated; default: 1/8 to 512 in steps of sqrt 2).",
)
@window_option(None)
@seed_option
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
    as_json: bool,
) -> None:
    """Measure kernels of many intensities, and fit what a flop, a byte and a second cost.

    Readings are kept after every kernel; --resume continues a stopped run. No setting of the GPU is changed.
    Of the simulated GPUs, simulated:h200-memory has a memory of limited bandwidth.
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
    try:
        folder = measure(gpu, options, out, resume=resume)
    finally:
        gpu.close()
    click.echo(f"folder: {folder.path}", err=True)
    write_result(folder, options.patterns[0])
    _report(folder.path, options.patterns[0], as_json=as_json)


@command.command(name="show")
@click.argument("run_path", metavar="RUN", type=_PATH)
@pattern_option
@table_option(required=False)
@plot_option("roofline and arch line, power, energy and green-up")
@json_option
def show(run_path: Path, pattern: str, table: Path | None, plot: Path | None, as_json: bool) -> None:
    """Work out the fit, balance points and verdict of a RUN again from its readings.

    With --table, what the instruction table gives for a flop and a byte stands beside the fitted energies.
    """
    _report(run_path, pattern, as_json=as_json, plot=plot, table=table)


@command.command(name="tradeoff")
@click.option("--f", "f", type=Number(1, 1e9), required=True, help="Factor on the flops, 1 or more.")
@click.option(
    "--m", "m", type=Number(1, 1e18), required=True, help="Factor that the bytes are divided by, 1 or more."
)
@click.option(
    "--intensity", type=_POSITIVE, required=True, help="Intensity in flop/byte, of the present algorithm."
)
@click.option(
    "--run", "run_path", type=_PATH, help="Folder of a run: the machine that `roofline run` fitted."
)
@click.option("--kind", type=_KIND, default="f32", help="Kind of flop (default: f32).")
@click.option("--level", type=_LEVEL, default="dram", help="Memory level (default: dram).")
@pattern_option
@click.option("--gflops", type=_POSITIVE, help="Highest speed, Gflop/s.")
@click.option("--gbytes", type=_POSITIVE, help="Highest bandwidth, GB/s.")
@click.option("--flop-pj", type=_POSITIVE, help="Energy of a flop, pJ.")
@click.option("--byte-pj", type=_POSITIVE, help="Energy of a byte, pJ.")
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
    _print_tradeoff(trade, {quantity.name: quantity for quantity in quantities})


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


def _report(
    path: Path, pattern: str, *, as_json: bool, plot: Path | None = None, table: Path | None = None
) -> None:
    """Work everything out from the readings, and print."""
    from ptxbench.experiment.roofline.point import open_folder
    from ptxbench.experiment.roofline.result import work_out

    result = work_out(open_folder(path), pattern)
    if plot is not None:
        from ptxbench.report.roofline_plot import plot_roofline

        plot_roofline(result, plot)
    beside = _table_energies_pj(result, table) if table else {}
    if as_json:
        print_encoded(result.document(), {"folder": str(path), "table_pj": beside})
    else:
        _print_result(result, beside)


def _table_energies_pj(result: RooflineResult, table: Path) -> dict[str, float]:
    """Return what the instruction table gives for each fitted energy, pJ; NaN for none."""
    from ptxbench.report.cost import open_cost_table
    from ptxbench.report.roofline_table import table_energy_pj
    from ptxbench.storage.shipped import find_table

    opened = open_cost_table(str(table), find_table(table))
    return {one.name: table_energy_pj(one.name, opened, result.pattern) for one in result.energies}


def _print_result(result: RooflineResult, beside: dict[str, float]) -> None:
    """Print fitted energies, then balance points, then what was left out."""
    click.echo(f"{result.gpu.title}, driver {result.gpu.driver}, operands {result.pattern}")
    rows = []
    for one in result.energies:
        row = (one.name, f"{one.value.value:.4g} ± {one.value.uncertainty:.2g}", one.unit)
        from_table = beside.get(one.name, math.nan)
        rows.append((*row, "-" if math.isnan(from_table) else f"{from_table:.4g}") if beside else row)
    columns = ("energy", "fitted", "unit", "table") if beside else ("energy", "fitted", "unit")
    print_table(columns, rows, ("fitted", "table"))
    headings = ("flop", "level", "Tflop/s", "TB/s", "B_tau", "B_eps", "half at", "Gflop/J", "race to halt")
    rows_of = []
    for machine in result.machines:
        found = {q.name: q for q in machine.quantities}
        rows_of.append(
            (
                machine.kind,
                machine.level,
                f"{machine.flops_per_s / 1e12:.4g}",
                f"{machine.bytes_per_s / 1e12:.4g}",
                f"{found['time_balance_flop_per_byte'].value:.4g}",
                _text(found["energy_balance_flop_per_byte"]),
                _text(found["half_efficiency_flop_per_byte"]),
                _text(found["best_gflops_per_w"]),
                "yes" if machine.races_to_halt else "no",
            )
        )
    print_table(headings, rows_of, headings[2:8])
    click.echo("Tflop/s and TB/s are the highest that these kernels reached; balances are in flop/byte.")
    for machine in result.machines:
        _print_peaks(machine)
        _print_limited(machine)
    click.echo(
        f"sleeping kernel: {result.sleeping_w:.4g} W at {result.temperature_c:.3g} C, "
        f"{result.slope_w_per_k:.2g} ± {1.96 * result.slope_error_w_per_k:.2g} W/K"
        f"{' (assumed: it saw too few degrees)' if result.slope_is_assumed else ''}; "
        f"residuals {100 * result.residual:.2g}%"
    )
    if result.left_out:
        click.echo(f"left out, slowed down by the power limit: {len(result.left_out)} kernels")


def _print_peaks(machine: FittedMachine) -> None:
    """Print what the kernels reached of those that do nothing else."""
    reached = []
    if not math.isnan(machine.flops_share):
        reached.append(f"{100 * machine.flops_share:.3g}% of the speed of multiply-adds alone")
    if not math.isnan(machine.bytes_share):
        reached.append(f"{100 * machine.bytes_share:.3g}% of the bandwidth of a copy")
    if reached:
        click.echo(f"{machine.kind}, {machine.level}: reached {' and '.join(reached)}")


def _print_limited(machine: FittedMachine) -> None:
    """Print what each model of the power limit is off by, in time and power."""
    if not machine.limited:
        return
    off = []
    for model in dict.fromkeys(point.model for point in machine.limited):
        chosen = [point for point in machine.limited if point.model == model]
        time_pct, power_pct = (
            sum(abs(getattr(point, name)) for point in chosen) / len(chosen)
            for name in ("time_pct", "power_pct")
        )
        off.append(f"{model} {time_pct:.2g}% and {power_pct:.2g}%")
    click.echo(
        f"{machine.kind}, {machine.level}, kernels at the power limit: time and power are off by "
        f"{', '.join(off)} (mean)"
    )


def _print_tradeoff(trade: TradeOff, found: dict[str, Quantity]) -> None:
    """Print the verdict, then one line a quantity."""
    click.echo(f"{trade.verdict}: {trade.case.value}")
    low, high = found["greenup_lower_bound"], found["greenup_upper_bound"]
    balance = trade.machine.time_balance
    lines = {
        "speed-up": _text(found["speedup"]),
        "green-up": f"{_text(found['greenup'])}; in this case between {low.value:.4g} and {high.value:.4g}",
        "most f": f"{_text(found['most_f'])} saves energy at this m",
        "most f at any m": _text(found["most_f_without_bytes"]),
        "intensity": f"{trade.intensity:.4g} flop/byte, {trade.f * trade.m * trade.intensity:.4g} after;"
        f" B_tau = {balance:.4g}",
    }
    for name, text in lines.items():
        click.echo(f"{name + ':':<17}{text}")


def _text(quantity: Quantity) -> str:
    if math.isnan(quantity.low):
        return f"{quantity.value:.4g}"
    return f"{quantity.value:.4g} ({quantity.low:.4g} to {quantity.high:.4g})"


def _as_json(quantities: Sequence[Quantity]) -> dict[str, dict[str, float]]:
    return {q.name: {"value": q.value, "low": q.low, "high": q.high} for q in quantities}

"""How `ptxbench roofline` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from ptxbench.cli.output import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxbench.experiment.roofline.document import FittedMachine
    from ptxbench.experiment.roofline.result import RooflineResult
    from ptxbench.model.atlas import UnitEnergy
    from ptxbench.model.roofline.power_capping import LimitedTradeOff
    from ptxbench.model.roofline.quantity import Quantity
    from ptxbench.model.roofline.tradeoff import TradeOff
    from ptxbench.report.roofline_kernels import PlacedKernel

# A bend that chance makes so seldom is one.
_BENT = 0.01


def print_result(result: RooflineResult, beside: dict[str, UnitEnergy] | None) -> None:
    """Print fitted energies, beside them what a table has if one is named, then balance points, the rest."""
    click.echo(f"{result.gpu.title}, driver {result.gpu.driver}, operands {result.pattern}")
    _print_energies(result, beside)
    _print_tried(result)
    balances = ("B_tau flop/byte", "B_eps flop/byte", "half at flop/byte")
    headings = ("flop", "level", "Tflop/s", "TB/s", *balances, "best Gflop/J", "race to halt")
    rows_of = []
    for machine in result.machines:
        found = {q.name: q for q in machine.quantities}
        rows_of.append(
            (
                machine.kind,
                machine.level,
                _peak(machine.flops_per_s, machine.flops_ci95),
                _peak(machine.bytes_per_s, machine.bytes_ci95),
                _text(found["time_balance_flop_per_byte"]),
                _text(found["energy_balance_flop_per_byte"]),
                _text(found["half_efficiency_flop_per_byte"]),
                _text(found["best_gflops_per_w"]),
                f"{'yes' if machine.races_to_halt else 'no'}{_at_clock(machine)}",
            )
        )
    print_table(headings, rows_of, headings[2:8])
    click.echo(
        "Tflop/s, TB/s: the highest that the run's kernels reached, ± how those near it scatter (95%); "
        "B_tau, B_eps: intensities where time and "
        "energy balance; half at: half of the best efficiency (best Gflop/J)"
    )
    _print_chased(result)
    for one in result.saved:
        value = one.value.text(".2g")
        click.echo(f"{one.name}: {value} pJ/flop less, where one is all that a kernel computes on")
    most = max(point.kernel.sms for point in result.points)
    if most < result.gpu.sm_count:
        click.echo(
            f"its kernels ran on {most} of {result.gpu.sm_count} SMs at most: what they reached is not what "
            "the GPU can, beside the two kernels on all SMs"
        )
    for machine in {one.kind: one for one in result.machines}.values():
        _print_lower_clock(machine)
    _print_exponents(result)
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
        unsettled = sum(point.slowed and not point.settled for point in result.points)
        of_them = f", of which {unsettled} had not settled there" if unsettled else ""
        click.echo(f"left out, slowed down by the power limit: {len(result.left_out)} kernels{of_them}")
    if result.disturbed:
        click.echo(f"left out, another program was on the GPU: {len(result.disturbed)} kernels")
    if result.scale:
        click.echo(result.scale)
    if result.unread:
        click.echo(f"left out, their power is not believed: {len(result.unread)} kernels, such as")
        click.echo(f"  {result.unread[0]}")


def _print_chased(result: RooflineResult) -> None:
    """Print a byte of each level by pointer chases, whose data are addresses."""
    for one in result.chased:
        click.echo(
            f"{one.level}, pointer chase (Eqs. 11 and 12): {one.value.text()} pJ/byte of addresses, at"
            f" {one.bytes_per_s / 1e12:.3g} TB/s at most"
        )


def _print_energies(result: RooflineResult, beside: dict[str, UnitEnergy] | None) -> None:
    """Print fitted energies, beside them what a table has, and what either includes."""
    columns = ("energy", "fitted", "unit") if beside is None else ("energy", "fitted", "unit", "table")
    rows = []
    for one in result.energies:
        cells = [one.name, one.value.text(), one.unit]
        if beside is not None:
            cells.append(f"{beside[one.name].value_pj:.4g}" if one.name in beside else "-")
        rows.append(cells)
    print_table(columns, rows, ("fitted", "table"))
    if beside is not None:
        from ptxbench.model.atlas import FITTED_INCLUDES

        click.echo(f"fitted: {FITTED_INCLUDES}")
        for name, figure in beside.items():
            click.echo(f"table, {name}: {figure.note}")


def _at_clock(machine: FittedMachine) -> str:
    """Return the clock that a verdict is of."""
    known = machine.lower_clock
    return f" at {known.held_mhz:.0f} MHz" if known else ""


def _print_lower_clock(machine: FittedMachine) -> None:
    """Print what the law of the clock predicts of work that is bound by compute."""
    found = machine.lower_clock
    if found is None:
        return
    below = " or below" if found.at_lowest else ""
    saved, error = 100 * found.saved.value, 100 * found.saved.uncertainty
    click.echo(
        f"{machine.kind}, bound by compute: a clock of {found.clock_mhz.value:.0f} MHz{below} takes "
        f"{saved:.2g} ± {error:.2g}% less energy and {100 * found.slower:.2g}% more time than "
        f"{found.held_mhz:.0f} MHz (predicted by the law of the clock, not measured)"
    )


def _print_exponents(result: RooflineResult) -> None:
    """Print how energy goes with the clock, by the kernels at the power limit."""
    for one in result.exponents:
        found = one.exponent
        bent = "" if not found.misfit < _BENT else "; they bend beyond that: no power law"
        click.echo(
            f"{one.kind}: energy of a flop goes with clock^({found.value.text('.3g')})"
            f" by {found.kernels} kernels at the power limit, down to "
            f"{100 * found.lowest_ratio:.0f}% of the full clock; scatter {100 * found.scatter:.2g}%{bent}"
        )


def _print_tried(result: RooflineResult) -> None:
    """Print what third powers were tried and which is in the fit, and what a byte of DRAM costs with it."""
    if len(result.tried) > 1:
        headings = ("power beside Eq. 4", "unseen, %", "residual, %", "AIC", "mean residual by SMs, %")
        rows = [
            (
                f"{one.name or 'none'}{'*' if one.chosen else ''}",
                f"{one.unseen_pct:.2f}",
                f"{one.rms_pct:.2f}",
                f"{one.aic:.0f}",
                ", ".join(f"{sms}: {mean:+.2f}" for sms, mean in one.by_sms),
            )
            for one in result.tried
        ]
        print_table(headings, rows, headings[1:4])
        click.echo(
            "* in the fit: least AIC of those that lower AIC and the error on kernels left out (unseen, rms)"
        )
    for machine in result.machines:
        average = next(one for one in machine.quantities if one.name == "average_byte_pj")
        marginal = next(one for one in result.energies if one.name == machine.level).value
        if average.value > marginal.value:
            click.echo(
                f"{machine.kind}, {machine.level}: one more byte costs {marginal.value:.4g} pJ; a byte at "
                f"the highest bandwidth {_text(average)} pJ with the power of DRAM at work"
            )
    counts = len({point.kernel.sms for point in result.points if not point.slowed})
    if len(result.fit.errors) == 1:
        click.echo(
            f"kernels of the full clock ran on {counts} number{'s' * (counts > 1)} of SMs: what those on as "
            "many share is not in the intervals"
        )


def _peak(value: float, ci95: float) -> str:
    """Return a peak in units of 1e12 with its interval."""
    return f"{value / 1e12:.4g}" + ("" if math.isnan(ci95) else f" ± {ci95 / 1e12:.2g}")


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


def print_tradeoff(trade: TradeOff, limited: LimitedTradeOff, found: dict[str, Quantity]) -> None:
    """Print the verdict, then one line a quantity; under the power limit first, where it slows one down."""
    click.echo(f"{limited.verdict}: {trade.case.value}")
    runs = (
        ("present", limited.before, limited.before_free_w),
        ("new", limited.after, limited.after_free_w),
    )
    slowed = [one for one in runs if one[2] > trade.machine.cap_w]
    for name, ran, free_w in slowed:
        click.echo(
            f"{f'{name}, limited:':<17}{100 * ran.clock:.3g}% of the full clock, since it would draw "
            f"{free_w:.4g} W of {trade.machine.cap_w:.4g} W"
        )
    if slowed:
        click.echo(f"{'speed-up:':<17}{_text(found['limited_speedup'])}")
        click.echo(f"{'green-up:':<17}{_text(found['limited_greenup'])}")
        click.echo(f"without the limit: {trade.verdict}")
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


def print_kernels(kernels: Sequence[PlacedKernel]) -> None:
    """Print kernels of others against the arch line."""
    headings = ("kernel", "flop", "flop/byte", "Gflop/s", "W", "Gflop/J", "line", "of line")
    rows = [
        (
            one.name,
            one.kind,
            f"{one.intensity:.4g}",
            f"{one.gflops:.4g}",
            f"{one.power_w:.4g}{'*' if one.capped else ''}",
            f"{one.gflops_per_w:.4g}",
            f"{one.line_gflops_per_w:.4g}",
            f"{100 * one.of_line:.3g}%",
        )
        for one in kernels
    ]
    print_table(headings, rows, headings[2:])
    if any(one.capped for one in kernels):
        click.echo("* at the power limit")

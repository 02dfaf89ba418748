"""`ptxbench roofline`: what a flop, a byte and a second cost, and what follows from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from ptxbench.cli.options import json_option
from ptxbench.cli.output import print_json
from ptxbench.cli.parameters import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxbench.model.roofline.quantity import Quantity
    from ptxbench.model.roofline.tradeoff import TradeOff

_POSITIVE = Number(0, 1e18, above=True)


@click.group(name="roofline")
def command() -> None:
    """Find what a flop, a byte and a second cost, and what follows from it (Choi and Vuduc 2012)."""


@command.command(name="tradeoff")
@click.option("--f", "f", type=Number(1, 1e9), required=True, help="Factor on the flops, 1 or more.")
@click.option(
    "--m", "m", type=Number(1, 1e18), required=True, help="Factor that the bytes are divided by, 1 or more."
)
@click.option(
    "--intensity", type=_POSITIVE, required=True, help="Intensity of the present algorithm, flop/byte."
)
@click.option("--gflops", type=_POSITIVE, required=True, help="Highest speed, Gflop/s.")
@click.option("--gbytes", type=_POSITIVE, required=True, help="Highest bandwidth, GB/s.")
@click.option("--flop-pj", type=_POSITIVE, required=True, help="Energy of a flop, pJ.")
@click.option("--byte-pj", type=_POSITIVE, required=True, help="Energy of a byte, pJ.")
@click.option("--constant-w", type=Number(0, 1e5), default=0.0, help="Constant power, W (default: 0).")
@json_option
def tradeoff(
    f: float,
    m: float,
    intensity: float,
    gflops: float,
    gbytes: float,
    flop_pj: float,
    byte_pj: float,
    constant_w: float,
    as_json: bool,
) -> None:
    """Tell whether F times the flops for 1/M of the bytes saves time and energy.

    Speed-up and green-up are time and energy of the present algorithm over those of the new one
    (Eqs. 13 to 32). The power limit is left out, as in the paper.
    """
    from ptxbench.model.roofline.equations import RooflineMachine
    from ptxbench.model.roofline.quantity import tradeoff_quantities
    from ptxbench.model.roofline.tradeoff import TradeOff

    machine = RooflineMachine(1e-9 / gflops, 1e-9 / gbytes, 1e-12 * flop_pj, 1e-12 * byte_pj, constant_w)
    asked = TradeOff(machine, intensity, f, m)
    quantities = tradeoff_quantities(asked)
    if as_json:
        print_json({"case": asked.case.value, "verdict": asked.verdict, **_as_json(quantities)})
        return
    _print_tradeoff(asked, {quantity.name: quantity for quantity in quantities})


def _print_tradeoff(asked: TradeOff, found: dict[str, Quantity]) -> None:
    """Print the verdict, then one line a quantity."""
    click.echo(f"{asked.verdict}: {asked.case.value}")
    low, high = found["greenup_lower_bound"], found["greenup_upper_bound"]
    balance = asked.machine.time_balance
    lines = {
        "speed-up": _text(found["speedup"]),
        "green-up": f"{_text(found['greenup'])}; in this case between {low.value:.4g} and {high.value:.4g}",
        "most f": f"{_text(found['most_f'])} saves energy at this m",
        "most f at any m": _text(found["most_f_without_bytes"]),
        "intensity": f"{asked.intensity:.4g} flop/byte, {asked.f * asked.m * asked.intensity:.4g} after;"
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

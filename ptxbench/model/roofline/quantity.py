"""What follows from a machine, as named numbers with 95% intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptxbench.model.roofline.equations import RooflineMachine
from ptxbench.model.roofline.fit import interval_of
from ptxbench.model.roofline.power_capping import trade_under_limit
from ptxbench.model.roofline.tradeoff import TradeOff

# The clock under a limit is searched for: so many draws tell an interval well enough.
_LIMITED_DRAWS = 400


@dataclass(frozen=True)
class Quantity:
    """A number that follows from the figures of a machine.

    Attributes:
        name: What it is, with its unit.
        value: Its value.
        low: Lower end of its 95% interval, NaN where the machine's figures were given without errors.
        high: Upper end.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan


def machine_quantities(
    machine: RooflineMachine, draws: Sequence[RooflineMachine] = ()
) -> tuple[Quantity, ...]:
    """Return the balance points and the best efficiency of a machine.

    Args:
        machine: The machine.
        draws: Machines drawn from the errors of its fit; none: quantities without intervals.
    """
    figures: dict[str, Callable[[RooflineMachine], float]] = {
        "time_balance_flop_per_byte": lambda m: m.time_balance,
        "energy_balance_flop_per_byte": lambda m: m.energy_balance,
        "half_efficiency_flop_per_byte": lambda m: m.half_efficiency_intensity,
        "flop_efficiency": lambda m: m.flop_efficiency,
        "best_gflops_per_w": lambda m: 1e-9 / m.full_flop_j,
        "average_byte_pj": lambda m: 1e12 * m.average_byte_j,
        "power_at_time_balance_w": lambda m: m.power_w(m.time_balance),
    }
    return tuple(_quantity(name, of, machine, draws) for name, of in figures.items())


def tradeoff_quantities(
    tradeoff: TradeOff, draws: Sequence[RooflineMachine] = (), *, on_chip: bool = False
) -> tuple[Quantity, ...]:
    """Return speed-up, green-up, and the limits of both; then the two under the power limit.

    Args:
        tradeoff: The trade-off.
        draws: Machines drawn from the errors of the fit; none: quantities without intervals.
        on_chip: Whether bytes come from a cache or shared memory, and follow the clock.
    """

    def on(machine: RooflineMachine) -> TradeOff:
        return TradeOff(machine, tradeoff.intensity, tradeoff.f, tradeoff.m)

    limited = trade_under_limit(tradeoff, on_chip=on_chip)
    drawn = [trade_under_limit(on(draw), on_chip=on_chip) for draw in draws[:_LIMITED_DRAWS]]
    figures: dict[str, Callable[[RooflineMachine], float]] = {
        "speedup": lambda m: on(m).speedup,
        "greenup": lambda m: on(m).greenup,
        "greenup_lower_bound": lambda m: on(m).greenup_bounds[0],
        "greenup_upper_bound": lambda m: on(m).greenup_bounds[1],
        "most_f": lambda m: on(m).most_flops,
        "most_f_without_bytes": lambda m: on(m).most_flops_without_bytes,
    }
    under = {
        "limited_speedup": (limited.speedup, [one.speedup for one in drawn]),
        "limited_greenup": (limited.greenup, [one.greenup for one in drawn]),
    }
    return (
        *(_quantity(name, of, tradeoff.machine, draws) for name, of in figures.items()),
        *(Quantity(name, value, *(interval_of(of) if of else ())) for name, (value, of) in under.items()),
    )


def _quantity(
    name: str,
    figure: Callable[[RooflineMachine], float],
    machine: RooflineMachine,
    draws: Sequence[RooflineMachine],
) -> Quantity:
    if not draws:
        return Quantity(name, figure(machine))
    return Quantity(name, figure(machine), *interval_of([figure(draw) for draw in draws]))

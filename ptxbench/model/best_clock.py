"""The SM clock at which one kernel takes the least energy, predicted and not measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.model.cap import Demand

_CLOCK_STEP_MHZ = 15.0


@dataclass(frozen=True)
class BestClock:
    """A prediction; nothing of it was measured.

    Attributes:
        clock_mhz: Clock of least energy within those that the law was measured at, with its 95% interval.
        saved: Share of the energy that it saves against the clock that is held, with its 95% interval.
        slower: Share of the time that it costs against that clock.
        at_lowest: Whether that is the lowest clock of the law, so that the best may lie below it.
    """

    clock_mhz: Estimate
    saved: Estimate
    slower: float
    at_lowest: bool


def best_clock(
    demand: Demand, full_mhz: float, clocks_mhz: Sequence[float] = (), held_mhz: float = math.nan
) -> BestClock:
    """Predict the best clock of a kernel.

    The interval is that of the law of the clock; what a prediction of the energy leaves open is common to all
    clocks.

    Args:
        demand: What the kernel draws at the full clock, and how that goes with the clock.
        full_mhz: The full clock.
        clocks_mhz: Clocks to choose from; (): every 15 MHz below the full one. Those below the lowest clock
            that the law was measured at are left out.
        held_mhz: Clock to compare with, which the power limit may hold below the full one; NaN: the full one.

    Raises:
        InputError: No clock is left.
    """
    lowest_mhz = demand.law.lowest_ratio * full_mhz
    if not clocks_mhz:
        steps = int((full_mhz - lowest_mhz) / _CLOCK_STEP_MHZ)
        clocks_mhz = [full_mhz - n * _CLOCK_STEP_MHZ for n in range(steps + 1)]
    held_mhz = full_mhz if math.isnan(held_mhz) else max(held_mhz, lowest_mhz)
    seen = [mhz for mhz in clocks_mhz if lowest_mhz - 1 <= mhz <= held_mhz]
    if len(seen) < 2:
        raise InputError(
            f"energies are known between {lowest_mhz:.0f} and {full_mhz:.0f} MHz alone, which leaves no clock"
            " to choose; give power at several clocks with --clock-samples"
        )

    def energy_j(mhz: float, errors: float) -> float:
        ratio = mhz / full_mhz
        return demand.energy_at(ratio) + errors * demand.law.error(ratio) * demand.clocked_j

    def least(errors: float) -> float:
        return min(seen, key=lambda mhz: energy_j(mhz, errors))

    def saved(errors: float) -> float:
        return 1 - energy_j(best, errors) / energy_j(held_mhz, errors)

    best = least(0.0)
    ends = -COVERAGE_FACTOR, COVERAGE_FACTOR
    return BestClock(
        clock_mhz=Estimate(best, max(abs(least(end) - best) for end in ends)),
        saved=Estimate(saved(0.0), max(abs(saved(end) - saved(0.0)) for end in ends)),
        slower=demand.time_at(best / full_mhz) / demand.time_at(held_mhz / full_mhz) - 1,
        at_lowest=best == min(seen),
    )

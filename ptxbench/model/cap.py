"""The power cap: at which clock a kernel settles, and what that does to its time and energy.

Switching costs C V^2, and the voltage falls with the clock: `clock_law` says how the energy of all that the
SM clock drives goes with it. DRAM has its own clock and voltage, and costs what it costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.model.clock_law import ClockLaw

# No board has been seen to hold its cap below this share of its clock.
_LOWEST = 0.1
_HALVINGS = 50


@dataclass(frozen=True)
class Demand:
    """What a kernel draws at the full clock.

    Attributes:
        clocked_j: Dynamic energy of what the SM clock drives.
        dram_j: Dynamic energy of DRAM.
        static_w: Static power.
        time_s: Duration: at the full clock where `follows_clock`, else as it is.
        follows_clock: Whether a lower clock stretches the time (a kernel that computes), or the time is what
            it is (measured in steady state, or set by the memory).
        law: How `clocked_j` goes with the clock.
        memory_s: Time that memory takes at least, whatever the SM clock.
    """

    clocked_j: float
    dram_j: float
    static_w: float
    time_s: float
    follows_clock: bool
    law: ClockLaw
    memory_s: float = 0.0

    def time_at(self, ratio: float) -> float:
        """Return the duration at a clock over the full clock."""
        return max(self.time_s / ratio, self.memory_s) if self.follows_clock else self.time_s

    def energy_at(self, ratio: float) -> float:
        """Return the whole energy at a clock over the full clock."""
        return self.clocked_j * self.law.scale(ratio) + self.dram_j + self.static_w * self.time_at(ratio)

    def power_at(self, ratio: float) -> float:
        """Return the mean power at a clock over the full clock."""
        return self.energy_at(ratio) / self.time_at(ratio)


def settled_clock(demand: Demand, limit_w: float) -> float:
    """Return the clock, over the full clock, at which a kernel meets the power limit; 1 where it is under it.

    Args:
        demand: The kernel.
        limit_w: Power limit, NaN where there is none.
    """
    if not demand.power_at(1.0) > limit_w:
        return 1.0
    low, high = _LOWEST, 1.0
    # Power rises with the clock, so that halving finds where it meets the limit.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if demand.power_at(middle) > limit_w else (middle, high)
    return low

"""A machine under a power limit: the clock that the limit leaves, and time, energy and power there.

The roofline of 2012 has no limit; Choi et al. (IPDPS 2014) let work take the time that the limit's power
needs (`RooflineMachine.time_s`), each flop at the energy of the full clock. In truth the GPU lowers its
clock, and the voltage with it: flops take longer and cost less, bytes of DRAM stay as they are. The clock is
where

    ( (f/f0)^gamma W eps_flop + Q eps_mem ) / T(f) + pi_0 = P_limit,    T(f) = max(W tau_flop f0/f, Q tau_mem)
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

from ptxbench.model.clocks.law import BestClock, Demand, PowerLaw, best_clock
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine
from ptxbench.model.roofline.tradeoff import TradeOff, in_words

# Rounding.
_SAME = 1e-9


@dataclass(frozen=True)
class LimitedRun:
    """An algorithm under a power limit.

    Attributes:
        clock: SM clock over the full clock.
        time_s: Time, s.
        power_w: Mean power, W.
    """

    clock: float
    time_s: float
    power_w: float

    @property
    def energy_j(self) -> float:
        """Energy, J."""
        return self.power_w * self.time_s


def under_limit(machine: RooflineMachine, algorithm: Algorithm, *, on_chip: bool = False) -> LimitedRun:
    """Return how an algorithm runs at the clock that the machine's power limit leaves it.

    Args:
        machine: The machine; its `cap_w` is the limit.
        algorithm: What it does.
        on_chip: Whether its bytes come from a cache or shared memory, and follow the clock as flops do; those
            of DRAM do not.
    """
    flops_s, bytes_s = algorithm.flops * machine.flop_s, algorithm.bytes_moved * machine.byte_s
    flops_j, bytes_j = algorithm.flops * machine.flop_j, algorithm.bytes_moved * machine.byte_j
    # At the full clock; at a lower one the memory rests more, which is a watt or two.
    static_w = machine.static_w(algorithm.intensity)
    demand = Demand(
        clocked_j=flops_j + (bytes_j if on_chip else 0.0),
        dram_j=0.0 if on_chip else bytes_j,
        static_w=static_w,
        time_s=max(flops_s, bytes_s) if on_chip else flops_s,
        follows_clock=True,
        law=PowerLaw(machine.clock_exponent, 0.0, 0.0),
        memory_s=0.0 if on_chip else bytes_s,
    )
    clock = demand.ratio_under(machine.cap_w)
    time_s, power_w = demand.time_at(clock), demand.power_at(clock)
    if power_w > machine.cap_w * (1 + _SAME):
        # Bytes alone pass the limit, whatever the clock: they wait.
        time_s *= (power_w - static_w) / (machine.cap_w - static_w)
        power_w = machine.cap_w
    return LimitedRun(clock, time_s, power_w)


@dataclass(frozen=True)
class LimitedTradeOff:
    """A trade of flops for bytes at the clocks that a power limit leaves.

    Attributes:
        before: The baseline.
        after: The new algorithm.
        before_free_w: Power that the baseline would draw without the limit, W.
        after_free_w: The same of the new algorithm, W.
    """

    before: LimitedRun
    after: LimitedRun
    before_free_w: float
    after_free_w: float

    @property
    def speedup(self) -> float:
        """Time of the baseline over that of the new algorithm."""
        return self.before.time_s / self.after.time_s

    @property
    def greenup(self) -> float:
        """Energy of the baseline over that of the new algorithm."""
        return self.before.energy_j / self.after.energy_j

    @property
    def verdict(self) -> str:
        """What the new algorithm is, in a few words."""
        return in_words(self.speedup, self.greenup)


def trade_under_limit(trade: TradeOff, *, on_chip: bool = False) -> LimitedTradeOff:
    """Return a trade-off under the limit of its machine.

    Args:
        trade: The trade-off.
        on_chip: As in `under_limit`.
    """
    machine = trade.machine
    free = replace(machine, cap_w=math.inf)
    before = Algorithm(trade.intensity, 1.0)
    moved = 1 / trade.m if math.isfinite(trade.m) else sys.float_info.min
    after = Algorithm(trade.f * trade.intensity, moved)
    return LimitedTradeOff(
        under_limit(machine, before, on_chip=on_chip),
        under_limit(machine, after, on_chip=on_chip),
        free.energy_j(before) / free.time_s(before),
        free.energy_j(after) / free.time_s(after),
    )


def lower_clock(machine: RooflineMachine, law: PowerLaw, full_mhz: float) -> BestClock:
    """Predict the best clock of work that is all flops, against the clock that it holds.

    Args:
        machine: The machine; its peak is that of the full clock.
        law: How the energy of a flop goes with the clock.
        full_mhz: The full clock, MHz.
    """
    demand = Demand(machine.flop_j, 0.0, machine.constant_w, machine.flop_s, follows_clock=True, law=law)
    return best_clock(demand, full_mhz, held_mhz=demand.ratio_under(machine.cap_w) * full_mhz)

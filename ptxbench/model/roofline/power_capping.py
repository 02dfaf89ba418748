"""A machine under a power limit: the clock that the limit leaves, and time, energy and power there.

The roofline of 2012 has no limit; Choi et al. (IPDPS 2014) let work take the time that the limit's power
needs (`RooflineMachine.time_s`), each flop at the energy of the full clock. In truth the GPU lowers its
clock, and the voltage with it: flops take longer and cost less, bytes of DRAM stay as they are. The clock is
where

    ( (f/f0)^gamma W eps_flop + Q eps_mem ) / T(f) + pi_0 = P_limit,    T(f) = max(W tau_flop f0/f, Q tau_mem)
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.model.clocks.law import Demand, PowerLaw
from ptxbench.model.roofline.equations import Algorithm, RooflineMachine

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

"""The power cap: at which clock a kernel settles, and what that does to its time and energy.

Dynamic energy is C V^2 a switching, and the voltage falls with the clock: E(f) = E(f0) (f / f0)^gamma, with
gamma learned from kernels that the cap slows down by different amounts (0 would be a voltage that stays,
2 one that falls in proportion to the clock).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# Nearly all boards hold well above this share of their clock at the cap.
_LOWEST = 0.1


@dataclass(frozen=True)
class Operating:
    """How a kernel runs.

    Attributes:
        clock_ratio: SM clock over the full clock.
        time_s: Duration at that clock.
        dynamic_j: Dynamic energy at that clock.
        capped: Whether the power limit holds the clock down.
    """

    clock_ratio: float
    time_s: float
    dynamic_j: float
    capped: bool


def operate(
    dynamic_j: float, static_w: float, time_s: float, limit_w: float, gamma: float, time_follows_clock: bool
) -> Operating:
    """Return where a kernel settles that would draw `dynamic_j / time_s + static_w` at the full clock.

    Args:
        dynamic_j: Dynamic energy at the full clock.
        static_w: Static power.
        time_s: Duration: at the full clock where `time_follows_clock`, else as measured under the cap.
        limit_w: Power limit, NaN where there is none.
        gamma: Exponent of the energy in the clock.
        time_follows_clock: Whether a lower clock stretches the time (a kernel that computes), or the time is
            what it is (measured in steady state, or set by the memory).
    """
    power_w = dynamic_j / time_s + static_w
    if not power_w > limit_w:
        return Operating(1.0, time_s, dynamic_j, capped=False)
    # P(f) = E(f0) (f/f0)^gamma / t(f) + P_static = limit, with t(f) = t0 f0/f or t0.
    exponent = gamma + 1 if time_follows_clock else gamma
    share = max(limit_w - static_w, 0.0) * time_s / dynamic_j
    ratio = max(share ** (1 / exponent), _LOWEST) if exponent > 0 else 1.0
    stretched_s = time_s / ratio if time_follows_clock else time_s
    return Operating(ratio, stretched_s, dynamic_j * ratio**gamma, capped=True)


def scaled_j(dynamic_j: float, clock_ratio: float, gamma: float) -> float:
    """Return dynamic energy at another clock; the full clock's where the clock is not known."""
    return dynamic_j * clock_ratio**gamma if math.isfinite(clock_ratio) else dynamic_j

"""How the power cap acts in time: what a board may draw now, by what it drew before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptxbench.devices.simulated.profile import Regulator


@dataclass(frozen=True)
class Allowance:
    """What may be drawn.

    Attributes:
        power_w: Returns the highest total power, W; most stretches of work never ask.
        lasting: Whether power up to the cap may go on for ever; else it is allowed for a control period.
    """

    power_w: Callable[[], float]
    lasting: bool


def allowance(
    regulators: Sequence[Regulator], cap_w: float, mean_power_w: Callable[[float], float], since_over_s: float
) -> Allowance:
    """Return what the regulators of a board allow now.

    Args:
        regulators: The loops of its power cap; () where it holds at every moment.
        cap_w: The power cap.
        mean_power_w: Returns the mean power over so many seconds until now.
        since_over_s: Time since the board last drew more than the cap.
    """
    if not regulators:
        return Allowance(lambda: cap_w, lasting=True)

    def power_w() -> float:
        return min(
            loop.limit_ratio * cap_w + loop.gain * (loop.limit_ratio * cap_w - mean_power_w(loop.mean_s))
            for loop in regulators
        )

    # What was drawn over the cap may still lower a mean's allowance; without it no mean passes its limit.
    return Allowance(power_w, lasting=since_over_s > max(loop.mean_s for loop in regulators))

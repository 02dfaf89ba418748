"""Power that is neither constant nor in a flop or byte: what a fit may have beside Eq. 4.

The paper's constant power is paid by a GPU whose memory is at rest, too. Three forms are tried, each a power
that goes with how a kernel uses the GPU; the coefficient is its highest, W:

    AWAKE      1 - exp(-u / 0.1)    u: bandwidth over the highest
    FALLING    4 u (1 - u)
    BUSY_SMS   busy SMs over all

AWAKE is the share of time that a memory is awake which stays so for a fixed time after each access, where
accesses come at random; at the highest bandwidth ten come in that time. FALLING is a byte whose energy falls
with the bandwidth.
"""

from __future__ import annotations

import math
from enum import StrEnum

# Share of the bandwidth at which DRAM is awake to 63%; chosen.
_AWAKE_AT = 0.1


class ThirdPower(StrEnum):
    """A form of it; the value is the name of its coefficient."""

    AWAKE = "DRAM awake"
    FALLING = "DRAM at low bandwidth"
    BUSY_SMS = "busy SMs"

    def share(self, bandwidth_share: float, sms_share: float = 1.0) -> float:
        """Return how much of its highest power a kernel takes.

        Args:
            bandwidth_share: Its bandwidth from DRAM over the highest.
            sms_share: Its SMs over all.
        """
        if self is ThirdPower.AWAKE:
            return -math.expm1(-bandwidth_share / _AWAKE_AT)
        if self is ThirdPower.FALLING:
            return max(0.0, 4 * bandwidth_share * (1 - bandwidth_share))
        return sms_share

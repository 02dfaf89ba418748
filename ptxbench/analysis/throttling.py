"""What slowed a kernel down: the reasons that NVML names, as far as they can be true of it."""

from __future__ import annotations

from ptxbench.sensors.kernel_run import POWER_CAP

# nvmlClocksEventReasons that mean "slower than the load asks for", with their names in nvml.h.
THROTTLE_REASONS = {
    POWER_CAP: "SwPowerCap",
    0x8: "HwSlowdown",
    0x20: "SwThermalSlowdown",
    0x40: "HwThermalSlowdown",
    0x80: "HwPowerBrakeSlowdown",
}
# A kernel that the power limit slows draws that limit. Its reason stays for a kernel or two behind it, which
# draw less than this share of it: popc or ex2 behind an mma on an H200. H100s, too, name the power cap at
# half of their limit: the same kernel draws the same at the same clock with and without it
# (results/nvidia-h100/zeros-8c28). A clock that did change shows by itself.
_AT_LIMIT = 0.8
# From this share of the limit on the board holds its clock down, where no reason says so.
HELD_DOWN = 0.97


def is_near_limit(power_w: float, limit_w: float) -> bool:
    """Tell whether the power limit can be what slows a kernel down; any can be where either is not known."""
    return not power_w < _AT_LIMIT * limit_w


def slowing_reasons(reasons: int, power_w: float, limit_w: float) -> int:
    """Return the reasons of NVML's bit mask that slowed a kernel down, 0 for none.

    Args:
        reasons: What NVML named while it ran; -1 where it does not tell.
        power_w: Its power, NaN where it is not known.
        limit_w: The power limit, likewise.
    """
    if reasons < 0:
        return 0
    far = POWER_CAP if not is_near_limit(power_w, limit_w) else 0
    return sum(bit for bit in THROTTLE_REASONS if reasons & bit & ~far)


def describe_throttling(reasons: int) -> str:
    """Return the names of the reasons in a bit mask that slow the GPU down, "" where there is none."""
    return ", ".join(name for bit, name in THROTTLE_REASONS.items() if reasons & bit)

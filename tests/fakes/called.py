"""Functions that a simulated GPU can be given to call: each has a hidden time and power."""

from __future__ import annotations

from collections.abc import Callable

from fakes.simulated_step import ReplayingGpu

from ptxbench.devices.simulated.physics import Phase


def drawing(gpu: ReplayingGpu, power_w: float, time_s: float = 5e-3) -> Callable[[], None]:
    """Return a function that takes a time at the full clock, and a power beside the static one."""

    def call() -> None:
        gpu.draw(Phase(time_s * gpu._physics.governor.full_mhz * 1e6, time_s * power_w))

    return call

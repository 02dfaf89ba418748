"""A GPU on which what other libraries launch can be timed and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ptxbench.core.clock import Clock
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import KernelRun, Telemetry

Call = Callable[[], object]


@runtime_checkable
class CallingGpu(Protocol):
    """A GPU that a library of this process can use, too."""

    @property
    def info(self) -> GpuInfo:
        """What it is."""
        ...

    @property
    def clock(self) -> Clock:
        """The host clock that windows and readings are in."""
        ...

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        """Its power sources, best for steady power first."""
        ...

    @property
    def ordinal(self) -> int:
        """Its number, as CUDA counts."""
        ...

    def telemetry(self) -> Telemetry:
        """Read its state now."""
        ...

    def time_calls_s(self, call: Call, times: int) -> float:
        """Return how long so many calls took by the GPU's own events, s."""
        ...

    def run_calls(self, call: Call, times: int) -> KernelRun:
        """Call so often, back to back, while power is recorded, and the SM clock with it."""
        ...

"""A GPU on which what other libraries launch can be timed and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ptxbench.devices.base import Launch, ObservedGpu
from ptxbench.sensors.kernel_run import KernelRun

Call = Callable[[], object]


@runtime_checkable
class CallingGpu(ObservedGpu, Protocol):
    """A GPU that a library of this process can use, too."""

    @property
    def ordinal(self) -> int:
        """Its number, as CUDA counts."""
        ...

    def time_calls_s(self, call: Call, times: int) -> float:
        """Return how long so many calls took by the GPU's own events, s."""
        ...

    def run_calls(self, call: Call, times: int) -> KernelRun:
        """Call so often, back to back, while power is recorded, and the SM clock with it."""
        ...


class Flush(Protocol):
    """Empties L2 when it is called."""

    def __call__(self) -> None:
        """Empty it, in the default stream."""
        ...

    def close(self) -> None:
        """Release what it takes."""
        ...


@runtime_checkable
class FlushingGpu(CallingGpu, Protocol):
    """One whose L2 can be emptied between the launches of a kernel."""

    def l2_flush(self) -> Flush:
        """Return what empties it."""
        ...

    def launching(self, launch: Launch) -> Call:
        """Return what launches a kernel once in the default stream, until another is prepared."""
        ...

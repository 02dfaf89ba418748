"""Launches of any kernel, with buffers and sizes of its own: what tuning needs beside `Launch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import InputError
from ptxbench.devices.base import Gpu
from ptxbench.sensors.kernel_run import Telemetry
from ptxbench.sensors.trace import KernelWindow, Trace

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class KernelCall:
    """How to launch one kernel.

    The kernel's parameters are the addresses (u64) of the inputs and of the output, in that order, and
    then the scalars (u32).

    Attributes:
        cubin: Module that holds the kernel.
        kernel: Entry name.
        grid: Blocks along x and y.
        block: Threads a block.
        shared_bytes: Dynamic shared memory of a block.
        inputs: Contents of each input buffer, uint8, shape (bytes,). An array that the GPU holds
            already, the very same object, is not copied again: do not change it.
        output_bytes: Size of the output buffer.
        scalars: Sizes and the like.
        trips: How often the kernel goes through its one loop with these scalars; a simulated GPU charges
            by it, a real one finds out by itself.
        pattern: Name of the inputs' operand pattern ("random", "zeros").
    """

    cubin: Cubin
    kernel: str
    grid: tuple[int, int]
    block: int
    shared_bytes: int
    inputs: tuple[Bytes, ...]
    output_bytes: int
    scalars: tuple[int, ...]
    trips: int
    pattern: str = "random"


@dataclass(frozen=True)
class CallRun:
    """What launches back to back gave.

    Attributes:
        window: From the begin of the first launch to the end of the last.
        launches: How many there were.
        trace: Power readings over the recording, which holds the window.
        before: State just before the first launch.
        after: State just after the last end.
        throttle_reasons: Bitwise or of every poll during the window.
    """

    window: KernelWindow
    launches: int
    trace: Trace
    before: Telemetry
    after: Telemetry
    throttle_reasons: int

    @property
    def launch_s(self) -> float:
        """Time of one launch."""
        return self.window.elapsed_s / self.launches


@runtime_checkable
class CallingGpu(Gpu, Protocol):
    """A GPU that launches kernels with buffers of their own."""

    def compute(self, call: KernelCall) -> Bytes | None:
        """Launch once into an output of which every byte was 0xFF, and return it.

        Returns:
            The output, uint8, shape (output_bytes,); None on a GPU that computes nothing.

        Raises:
            LaunchError: The kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
        """
        ...

    def time_calls(self, call: KernelCall, launches: int) -> float:
        """Return the time of `launches` launches back to back in s, by the GPU's own events.

        Raises:
            LaunchError: The kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
        """
        ...

    def record_calls(self, call: KernelCall, launches: int) -> CallRun:
        """Launch back to back while power is recorded.

        Raises:
            LaunchError: The kernel could not be loaded or did not end.
            GpuError: The GPU stopped answering.
        """
        ...


def require_calls(gpu: Gpu) -> CallingGpu:
    """Return `gpu` as one that launches any kernel.

    Raises:
        InputError: It cannot: it replays a run.
    """
    if not isinstance(gpu, CallingGpu):
        raise InputError(
            f"{gpu.info.name} ({gpu.info.kind}) runs no other kernels; name a real GPU or a simulated one"
        )
    return gpu

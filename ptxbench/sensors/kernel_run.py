"""What a launch gave: the window in which the kernel ran, and every reading around it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptxbench.sensors.trace import KernelWindow, Trace

# nvmlClocksEventReasons: SwPowerCap.
POWER_CAP = 0x4


@dataclass(frozen=True)
class Telemetry:
    """The GPU's state at one moment; NaN or -1 where NVML does not tell.

    Attributes:
        temperature_c: GPU temperature.
        sm_clock_mhz: SM clock.
        memory_clock_mhz: Memory clock.
        throttle_reasons: Bit mask of nvmlDeviceGetCurrentClocksEventReasons.
        other_processes: Compute processes on the GPU besides this one.
    """

    temperature_c: float
    sm_clock_mhz: float
    memory_clock_mhz: float
    throttle_reasons: int
    other_processes: int


class _Ran:
    """Something that ran on the GPU."""

    before: Telemetry
    after: Telemetry

    @property
    def other_processes(self) -> int:
        """Compute processes of others that were on the GPU before or after; -1 where NVML does not tell."""
        return max(self.before.other_processes, self.after.other_processes)


@dataclass(frozen=True)
class KernelRun(_Ran):
    """What one launch gave.

    Attributes:
        window: When the kernel ran.
        trace: Power readings over the recording, which holds the window.
        before: State just before the launch.
        after: State just after the end.
        throttle_reasons: Bitwise or of every poll during the window.
        queued_s: For how long the GPU still ran once the host had launched all; NaN where that is not known.
    """

    window: KernelWindow
    trace: Trace
    before: Telemetry
    after: Telemetry
    throttle_reasons: int
    queued_s: float = math.nan


@dataclass(frozen=True)
class ConcurrentRun:
    """What several kernels that ran at once gave.

    Attributes:
        run: All of them together, over all rounds.
        kernel_s: When each ended after the beginning of its round, in the last one, s.
    """

    run: KernelRun
    kernel_s: tuple[float, ...]


@dataclass(frozen=True)
class SequenceRun(_Ran):
    """What several launches within one recording gave.

    Attributes:
        windows: When each kernel ran, in order, at least one.
        trace: Power readings over the recording, which holds every window.
        before: State just before the first launch.
        after: State just after the last end.
        throttle_reasons: Bitwise or of every poll during each window, one a launch.
    """

    windows: tuple[KernelWindow, ...]
    trace: Trace
    before: Telemetry
    after: Telemetry
    throttle_reasons: tuple[int, ...]

"""When kernels ran: by the driver's events, and by what their blocks stamped."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ptxbench.core.clock import Clock
from ptxbench.devices.device_buffer import Call
from ptxbench.devices.loop_buffers import Stamps
from ptxbench.devices.sequence import STRETCHES, launch_times_s, stretches
from ptxbench.sensors.trace import KernelWindow


class KernelTimer:
    """Events before, after and between what is launched; made in the context that is current.

    Args:
        call: Calls a function of the driver by name.
        clock: The host's.

    Attributes:
        queued_s: For how long the GPU still ran once the host had launched all that was timed last, s.
    """

    def __init__(self, call: Call, clock: Clock) -> None:
        self._call = call
        self._clock = clock
        self.queued_s = math.nan
        self._start, *self._ends = (call("cuEventCreate", 0) for _ in range(STRETCHES + 1))

    def timed(self, launch: Callable[[], object], times: int = 1, most: int = 1) -> KernelWindow:
        """Return when that ran which so many calls of `launch` launch; what blocks stamp is left open.

        The window's end is the host time at which the end event was seen, or the time just after the launch
        plus the events' own duration, whichever is earlier. The kernel had ended by both, and a thread that
        waits for Python's lock (while modules are made ready) sees one of them late. Its start is that less
        the duration, so both are good to about 20 us.

        Args:
            launch: Launches something.
            times: How often.
            most: Stretches that are timed at most. An event between two launches costs them about 1 us.

        Raises:
            LaunchError: A kernel could not be launched, or ended in an error.
        """
        lengths = stretches(times, most)
        self._call("cuEventRecord", self._start, 0)
        for count, end in zip(lengths, self._ends, strict=False):
            for _ in range(count):
                launch()
            self._call("cuEventRecord", end, 0)
        launched_ns = self._clock.now_ns()
        self._call("cuEventSynchronize", self._ends[len(lengths) - 1])
        seen_ns = self._clock.now_ns()
        ends_s = [self._until_s(end) for end in self._ends[: len(lengths)]]
        elapsed_s = ends_s[-1]
        elapsed_ns = round(elapsed_s * 1e9)
        self.queued_s = (seen_ns - launched_ns) * 1e-9
        end_ns = min(seen_ns, launched_ns + elapsed_ns)
        return KernelWindow(
            end_ns - elapsed_ns, end_ns, elapsed_s, launch_times_s=launch_times_s(lengths, ends_s)
        )

    def _until_s(self, end: Any) -> float:
        return float(self._call("cuEventElapsedTime", self._start, end)) * 1e-3


def with_stamps(window: KernelWindow, stamps: Stamps) -> KernelWindow:
    """Return a kernel's window with the cycles and the %globaltimer of its blocks' own stamps.

    Blocks begin in the order of their numbers: where an SM runs several, one after the other, those of the
    later half ran while the power was settled, and their clock is the one that belongs to it.

    Args:
        window: By the events.
        stamps: %globaltimer and %clock64 at begin, then at end, of each block, shape (blocks, 4).
    """
    later = stamps[len(stamps) // 2 :]
    if not len(later):
        return window
    timer_ns, cycles = (later[:, 2:] - later[:, :2]).mean(axis=0)
    return replace(window, cycles=round(cycles), globaltimer_ns=round(timer_ns))

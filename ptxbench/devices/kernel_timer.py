"""When kernels ran: by the driver's events, and by what their blocks stamped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptxbench.core.clock import Clock
from ptxbench.devices.device_buffer import Call
from ptxbench.devices.loop_buffers import Stamps
from ptxbench.sensors.trace import KernelWindow


class KernelTimer:
    """Two events, one before and one after what is launched; made in the context that is current.

    Args:
        call: Calls a function of the driver by name.
        clock: The host's.
    """

    def __init__(self, call: Call, clock: Clock) -> None:
        self._call = call
        self._clock = clock
        self._start, self._stop = (call("cuEventCreate", 0) for _ in range(2))

    def timed(self, launch: Callable[[], object]) -> KernelWindow:
        """Return when that ran which `launch` launches; what blocks stamp is left open.

        The window's end is the host time at which the end event was seen, or the time just after the launch
        plus the events' own duration, whichever is earlier. The kernel had ended by both, and a thread that
        waits for Python's lock (while modules are made ready) sees one of them late. Its start is that less
        the duration, so both are good to about 20 us.

        Raises:
            LaunchError: A kernel could not be launched, or ended in an error.
        """
        self._call("cuEventRecord", self._start, 0)
        launch()
        self._call("cuEventRecord", self._stop, 0)
        launched_ns = self._clock.now_ns()
        self._call("cuEventSynchronize", self._stop)
        seen_ns = self._clock.now_ns()
        elapsed_s = float(self._call("cuEventElapsedTime", self._start, self._stop)) * 1e-3
        elapsed_ns = round(elapsed_s * 1e9)
        end_ns = min(seen_ns, launched_ns + elapsed_ns)
        return KernelWindow(end_ns - elapsed_ns, end_ns, elapsed_s)


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

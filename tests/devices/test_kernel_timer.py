"""When kernels ran, by events that a fake driver gives and by the stamps of blocks."""

import numpy as np

from ptxbench.core.clock import VirtualClock
from ptxbench.devices.kernel_timer import KernelTimer, with_stamps

ELAPSED_MS = 2.0
NOW_NS = 10_000_000


def timed(late_s=0.0):
    """The window of a kernel of 2 ms that is launched by NOW_NS; its end is seen `late_s` later."""
    clock = VirtualClock(NOW_NS)
    made = []

    def call(function, *arguments):
        made.append(function)
        if function == "cuEventSynchronize":
            clock.sleep_s(late_s)
        return ELAPSED_MS if function == "cuEventElapsedTime" else len(made)

    window = KernelTimer(call, clock).timed(lambda: made.append("launch"))
    assert made[2:5] == ["cuEventRecord", "launch", "cuEventRecord"]
    return window


def test_a_window_has_the_clock_of_the_later_half_of_its_blocks():
    first, second = [0, 0, 1000, 9000], [1000, 100, 2000, 2080]
    stamps = np.array([first, first, second, [1000, 100, 2002, 2084]])
    window = with_stamps(timed(), stamps)
    assert (window.start_ns, window.end_ns, window.elapsed_s) == (8_000_000, 10_000_000, 0.002)
    assert (window.cycles, window.globaltimer_ns) == (1982, 1001)
    # Of one block it is that block's, of none nobody knows it.
    assert with_stamps(timed(), stamps[:1]).cycles == 9000
    assert with_stamps(timed(), stamps[:0]).cycles == -1


def test_a_window_does_not_end_when_its_end_is_seen_late():
    assert timed(late_s=0.001).end_ns == NOW_NS + 1_000_000
    late = timed(late_s=0.05)
    assert (late.start_ns, late.end_ns) == (NOW_NS, NOW_NS + 2_000_000)

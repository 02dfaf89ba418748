"""When kernels ran, by events that a fake driver gives and by the stamps of blocks."""

import numpy as np
import pytest

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
    calls = [one for one in made if one != "cuEventCreate"]
    assert calls[:3] == ["cuEventRecord", "launch", "cuEventRecord"]
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


def timed_stretches(times, most):
    """The window of launches of which the n-th takes n ms, and how many launches lie between two events."""
    launched, events, between = 0, {}, []

    def call(function, *arguments):
        nonlocal launched
        if function == "cuEventCreate":
            return object()
        if function == "cuEventRecord":
            events[arguments[0]] = launched * (launched + 1) / 2
            between.append(launched)
        if function == "cuEventElapsedTime":
            begin, end = arguments
            return events[end] - events[begin]
        return None

    def launch():
        nonlocal launched
        launched += 1

    window = KernelTimer(call, VirtualClock(NOW_NS)).timed(launch, times, most)
    return window, np.diff(between)


def test_launches_back_to_back_are_timed_in_stretches_of_equal_number():
    window, between = timed_stretches(40, 16)
    assert (len(between), between.sum(), set(between)) == (16, 40, {2, 3})
    assert window.elapsed_s == pytest.approx(0.820)
    ends = np.cumsum(between)
    starts = ends - between
    # The mean of the numbers of a stretch's launches, in ms.
    assert np.allclose(window.launch_times_s, (starts + 1 + ends) / 2 * 1e-3)
    # Fewer launches than stretches are timed one by one, and a single one says nothing of its course.
    assert timed_stretches(3, 16)[0].launch_times_s == pytest.approx((0.001, 0.002, 0.003))
    assert timed_stretches(1, 16)[0].launch_times_s == ()


def test_a_brief_timing_has_no_event_between_its_launches():
    window, between = timed_stretches(40, 1)
    assert (list(between), window.launch_times_s) == ([40], ())
    assert window.elapsed_s == pytest.approx(0.820)

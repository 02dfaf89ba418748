"""Several launches in one recording: what real and simulated GPUs do alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ptxbench.core.clock import Clock
from ptxbench.devices.base import Launch
from ptxbench.sensors.kernel_run import KernelRun, SequenceRun

T = TypeVar("T")
# Launches back to back whose power is read are timed in so many stretches.
STRETCHES = 16


def stretches(times: int, most: int = STRETCHES) -> tuple[int, ...]:
    """Cut launches back to back into up to `most` stretches of equal number, give or take one."""
    count = max(1, min(times, most))
    return tuple(times * (n + 1) // count - times * n // count for n in range(count))


def launch_times_s(lengths: Sequence[int], ends_s: Sequence[float]) -> tuple[float, ...]:
    """Return the mean time of a launch in each stretch, () where there is only one.

    Args:
        lengths: Launches of each stretch.
        ends_s: When each ended after the beginning of the first.
    """
    if len(lengths) < 2:
        return ()
    starts_s = (0.0, *ends_s)
    return tuple((end - start) / n for n, start, end in zip(lengths, starts_s, ends_s, strict=False))


def run_sequence(
    launches: Sequence[Launch], gaps_s: Sequence[float], clock: Clock, start: Callable[[Launch], T]
) -> tuple[T, ...]:
    """Launch one after the other, with the waits in between.

    Args:
        launches: What to launch; `before_s` of the first is waited for, `after_s` of the last is not.
        gaps_s: Wait between the end of each launch and the begin of the next, shape (n - 1,), s.
        clock: What is waited by.
        start: Launches one, and returns when it has ended.

    Returns:
        What `start` returned.

    Raises:
        ValueError: There is no launch, or not one gap between each two.
    """
    if len(gaps_s) != len(launches) - 1:
        raise ValueError(f"{len(launches)} launches need {len(launches) - 1} gaps, not {len(gaps_s)}")
    results = []
    for launch, wait_s in zip(launches, (launches[0].before_s, *gaps_s), strict=True):
        clock.sleep_s(wait_s)
        results.append(start(launch))
    return tuple(results)


def only_run(sequence: SequenceRun) -> KernelRun:
    """Return a sequence of one launch as the run of that kernel."""
    (window,), (reasons,) = sequence.windows, sequence.throttle_reasons
    return KernelRun(window, sequence.trace, sequence.before, sequence.after, reasons)

"""What reading a source costs, how often it is for nothing, and how much its buffer holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.sensors.refresh import HoldInterval
from ptxbench.sensors.trace import NS_PER_S, Series


@dataclass(frozen=True)
class CallCost:
    """What reading a source costs.

    Attributes:
        median_s: Time of half of the calls.
        worst_s: Longest call.
        calls: Calls that gave a reading.
        failed: Calls that failed.
        stale_share: Share of the readings that repeat the value before them.
    """

    median_s: float
    worst_s: float
    calls: int
    failed: int
    stale_share: float


@dataclass(frozen=True)
class SampleBuffer:
    """The driver's own buffer, as the first call after a long wait found it.

    Attributes:
        readings: How many it held.
        span_s: Time that they cover.
        waited_s: Wait before that call; a buffer that spans as much may hold more.
    """

    readings: int
    span_s: float
    waited_s: float


def call_cost(series: Series, ways: Sequence[HoldInterval]) -> CallCost:
    """Return what reading a source cost.

    Args:
        series: Every reading of it, failed ones too.
        ways: How its values may have been held; the one with most fresh values counts.
    """
    # One call of `samples` gives many readings.
    begin_ns, first = np.unique(series.begin_ns, return_index=True)
    call_s = (series.end_ns[first] - begin_ns) / NS_PER_S
    fresh = max((len(way.fresh().made_s) for way in ways), default=0)
    is_stamped = len(series) > 0 and series.stamp_ns[0] >= 0
    return CallCost(
        median_s=float(np.median(call_s)),
        worst_s=float(call_s.max()),
        calls=len(call_s),
        failed=int((series.code != 0).sum()),
        stale_share=0.0 if is_stamped else max(0.0, 1 - fresh / len(series)),
    )


def sample_buffer(good: Series, waited_s: float) -> SampleBuffer | None:
    """Return what the first call of a source that brings its own stamps gave; None for other sources."""
    if not len(good) or good.stamp_ns[0] < 0:
        return None
    first = good.select(good.begin_ns == good.begin_ns[0])
    span_s = float(first.stamp_ns[-1] - first.stamp_ns[0]) / NS_PER_S
    return SampleBuffer(len(first), span_s, waited_s)

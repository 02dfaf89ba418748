"""Power sources and series that a test writes down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.sensors.base import Reading, SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Series


@dataclass
class CallSource:
    """Gives what `call` returns."""

    call: Callable[[], tuple[Reading, ...]]
    name: SourceName = SourceName.USAGE

    def read(self) -> tuple[Reading, ...]:
        return self.call()


def ns(seconds: object) -> np.ndarray:
    return np.round(np.asarray(seconds, dtype=float) * 1e9).astype(np.int64)


def series(
    time_s: Sequence[float] | np.ndarray,
    value: Sequence[float] | np.ndarray,
    source: SourceName = SourceName.USAGE,
    stamp_s: Sequence[float] | np.ndarray | None = None,
    code: Sequence[int] | np.ndarray | None = None,
    call_s: float = 0.0,
) -> Series:
    """Readings whose calls end at `time_s` and took `call_s`."""
    count = len(time_s)
    return Series(
        source=source,
        begin_ns=ns(np.asarray(time_s) - call_s),
        end_ns=ns(time_s),
        value=np.asarray(value, dtype=np.float64),
        stamp_ns=np.full(count, -1) if stamp_s is None else ns(stamp_s),
        code=np.zeros(count, dtype=np.int64) if code is None else np.asarray(code, dtype=np.int64),
    )


def window(start_s: float, end_s: float, elapsed_s: float | None = None) -> KernelWindow:
    return KernelWindow(
        round(start_s * 1e9), round(end_s * 1e9), end_s - start_s if elapsed_s is None else elapsed_s
    )


def sensor(
    refresh_s: float = 0.1,
    averaging_s: float = 0.0,
    lag_s: float = 0.0,
    quantum: float = 1e-3,
    source: SourceName = SourceName.USAGE,
) -> SensorDescription:
    return SensorDescription(source, refresh_s, averaging_s, lag_s, quantum, "simulated")

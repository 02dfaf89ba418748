"""The load that was put on a GPU, as a signal: 1 while a kernel runs, 0 in between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import NS_PER_S, KernelWindow, Trace

# Finer than any structure of a sensor that is looked for.
_CELL_S = 2.5e-4
# The longest running mean that is known covers 1 s before the first reading.
_BEFORE_S = 3.0


def load_signal(windows: Sequence[KernelWindow], trace: Trace) -> PowerSignal:
    """Return the load over a recording, in seconds after its begin, from 3 s before it.

    Args:
        windows: When each kernel ran, in order.
        trace: The recording; the GPU was idle before it.
    """
    span_s = np.array([[w.start_ns, w.end_ns] for w in windows], dtype=np.int64) - trace.begin_ns
    edge_s = span_s.ravel() / NS_PER_S
    busy_s = np.concatenate([[0.0], np.cumsum(edge_s[1::2] - edge_s[::2])])
    cells = int((_BEFORE_S + (trace.end_ns - trace.begin_ns) / NS_PER_S) / _CELL_S) + 1
    border_s = _CELL_S * np.arange(cells + 1) - _BEFORE_S
    until_s = np.interp(border_s, edge_s, np.repeat(busy_s, 2)[1:-1])
    middle_s = np.asarray(border_s[:-1] + _CELL_S / 2, dtype=np.float64)
    return PowerSignal(middle_s, np.diff(until_s) / _CELL_S)

"""How long each kernel name kept a GPU busy up to any moment; kernels at the same time share it."""

from __future__ import annotations

import numpy as np

from ptxbench.attribute.launches import Launches
from ptxbench.sensors.trace import Float64s, Int64s


class BusyTime:
    """Busy time by name and moment.

    While c kernels run at once, each of them counts 1 / c of the time. So the times of all names and the
    time without a kernel add up to the time that passed.

    Args:
        launches: The kernels.
        origin_ns: Zero of the seconds here.
    """

    def __init__(self, launches: Launches, origin_ns: int) -> None:
        start_s: Float64s = (launches.start_ns - origin_ns) / 1e9
        end_s: Float64s = (launches.end_ns - origin_ns) / 1e9
        self._count = len(launches.names)
        self._at_s, running = _running(start_s, end_s)
        share = np.where(running[:-1] > 0, 1 / np.maximum(running[:-1], 1), 0.0)
        gaps_s = np.diff(self._at_s)
        self._shared_s = np.concatenate(([0.0], np.cumsum(share * gaps_s)))
        self._any_s = np.concatenate(([0.0], np.cumsum((running[:-1] > 0) * gaps_s)))
        self._knots: list[tuple[Float64s, Float64s]] = []
        for name in range(self._count):
            mine = launches.name == name
            own_s, own_running = _running(self._share(start_s[mine]), self._share(end_s[mine]))
            held_s = np.concatenate(([0.0], np.cumsum(own_running[:-1] * np.diff(own_s))))
            self._knots.append((own_s, held_s))

    def until(self, at_s: Float64s) -> Float64s:
        """Return the busy time of each name up to each moment, s, shape (n, names)."""
        share_s = self._share(at_s)
        columns = [np.interp(share_s, *knots) for knots in self._knots]
        return np.stack(columns, axis=1) if columns else np.empty((len(at_s), 0))

    def any_until(self, at_s: Float64s) -> Float64s:
        """Return for how long any kernel ran up to each moment, s, shape (n,)."""
        return np.interp(at_s, self._at_s, self._any_s)

    def _share(self, at_s: Float64s) -> Float64s:
        return np.interp(at_s, self._at_s, self._shared_s)


def _running(start_s: Float64s, end_s: Float64s) -> tuple[Float64s, Int64s]:
    """Return the moments at which kernels begin or end, and how many run from each of them on."""
    at_s = np.concatenate((start_s, end_s))
    if not len(at_s):
        return np.zeros(2), np.zeros(2, dtype=np.int64)
    step = np.concatenate((np.ones(len(start_s), dtype=np.int64), np.full(len(end_s), -1, dtype=np.int64)))
    order = np.lexsort((-step, at_s))
    return at_s[order], np.cumsum(step[order])

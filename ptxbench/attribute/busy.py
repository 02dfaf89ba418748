"""How long each kernel name kept a GPU busy up to any moment; kernels at the same time share it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ptxbench.attribute.launches import Launches
from ptxbench.sensors.trace import Float64s, Int64s


class BusyTime:
    """Busy time by name and moment.

    While c kernels run at once, each of them counts 1 / c of the time. So the times of all names and the
    time without a kernel add up to the time that passed.

    Attributes:
        by_name_s: Busy time of each name, s, shape (names,).

    Args:
        launches: The kernels; each name is a column at first.
        origin_ns: Zero of the seconds here.
    """

    def __init__(self, launches: Launches, origin_ns: int) -> None:
        self._start_s: Float64s = (launches.start_ns - origin_ns) / 1e9
        self._end_s: Float64s = (launches.end_ns - origin_ns) / 1e9
        self._name = launches.name
        self._at_s, running = _running(self._start_s, self._end_s)
        share = np.where(running[:-1] > 0, 1 / np.maximum(running[:-1], 1), 0.0)
        gaps_s = np.diff(self._at_s)
        self._shared_s = np.concatenate(([0.0], np.cumsum(share * gaps_s)))
        self._any_s = np.concatenate(([0.0], np.cumsum((running[:-1] > 0) * gaps_s)))
        own_s = self._share(self._end_s) - self._share(self._start_s)
        counted = np.bincount(self._name, weights=own_s, minlength=len(launches.names))
        self.by_name_s: Float64s = counted.astype(np.float64)
        self._knots: list[tuple[Float64s, Float64s]] = []
        self.set_columns([(name,) for name in range(len(launches.names))])

    def set_columns(self, columns: Sequence[tuple[int, ...]]) -> None:
        """Set which names `until` takes together in each column."""
        column_of = np.full(len(self.by_name_s), -1, dtype=np.int64)
        for column, names in enumerate(columns):
            column_of[list(names)] = column
        mine = column_of[self._name]
        order = np.argsort(mine, kind="stable")
        bounds = np.searchsorted(mine[order], np.arange(len(columns) + 1))
        self._knots = []
        for first, last in pairwise(bounds.tolist()):
            which = order[first:last]
            own_s, running = _running(self._share(self._start_s[which]), self._share(self._end_s[which]))
            held_s = np.concatenate(([0.0], np.cumsum(running[:-1] * np.diff(own_s))))
            self._knots.append((own_s, held_s))

    def until(self, at_s: Float64s) -> Float64s:
        """Return the busy time of each column up to each moment, s, shape (n, columns)."""
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

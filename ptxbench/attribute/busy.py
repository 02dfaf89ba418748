"""How long each kernel name kept a GPU busy up to any moment; kernels at the same time share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from ptxbench.attribute.launches import Launches
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.sensors.trace import Float64s, Int64s


class BusyTime:
    """Busy time by name and moment.

    While c kernels run at once, each of them counts 1 / c of the time. So the times of all names and the
    time without a kernel add up to the time that passed.

    Attributes:
        by_name_s: Busy time of each name, s, shape (names,).
        calls: How often each ran, shape (names,).
        error_s: Half of the 95% interval of `by_name_s` over 1.96, s, shape (names,); 0 where all was seen.

    Args:
        launches: The kernels; each name is a column at first.
        origin_ns: Zero of the seconds here.
        unseen_ns: Times in which kernels were not looked at, ascending and apart. In `by_name_s` and `calls`
            those that were seen stand for the others, by their weights.
        is_counted: Whether those weights are by counted launches.
    """

    def __init__(
        self,
        launches: Launches,
        origin_ns: int,
        unseen_ns: Sequence[tuple[int, int]] = (),
        *,
        is_counted: bool = True,
    ) -> None:
        self._start_s: Float64s = (launches.start_ns - origin_ns) / 1e9
        self._end_s: Float64s = (launches.end_ns - origin_ns) / 1e9
        self._name = launches.name
        self._at_s, running = _running(self._start_s, self._end_s)
        share = np.where(running[:-1] > 0, 1 / np.maximum(running[:-1], 1), 0.0)
        gaps_s = np.diff(self._at_s)
        self._shared_s = np.concatenate(([0.0], np.cumsum(share * gaps_s)))
        self._any_s = np.concatenate(([0.0], np.cumsum((running[:-1] > 0) * gaps_s)))
        own_s = self._share(self._end_s) - self._share(self._start_s)
        count = len(launches.names)
        weight = np.ones(len(launches)) if launches.weight is None else launches.weight
        self.calls: Int64s = np.rint(np.bincount(self._name, weight, count)).astype(np.int64)
        self.by_name_s: Float64s = np.bincount(self._name, own_s, count).astype(np.float64)
        self.error_s: Float64s = np.zeros(count)
        self._added_s: Float64s = np.zeros(count)
        if unseen_ns and len(launches):
            added_s = own_s * (weight - 1)
            unseen_all_s = sum(on_ns - off_ns for off_ns, on_ns in unseen_ns) / 1e9
            # No more than all of the time that was not looked at.
            added_s *= min(1.0, unseen_all_s / max(float(added_s.sum()), 1e-12))
            self._added_s += np.bincount(self._name, added_s, count)
            self.by_name_s += self._added_s
            self.error_s = _scatter_s(added_s, launches, weight, unseen_ns)
            if not is_counted:
                # Launches are faster while they are not looked at: they may have filled that time.
                most = unseen_all_s / max(float(added_s.sum()), 1e-12) - 1
                self.error_s = np.hypot(self.error_s, most * self._added_s / COVERAGE_FACTOR)
        unseen_s = (np.array(unseen_ns, dtype=np.int64).reshape(-1, 2) - origin_ns) / 1e9
        self._unseen_at_s = np.concatenate(([0.0], unseen_s.ravel()))
        passed_s = np.cumsum(np.diff(unseen_s, axis=1))
        self._unseen_s = np.concatenate(([0.0], np.column_stack((passed_s, passed_s)).ravel()))
        self._unseen_s[1::2] = np.concatenate(([0.0], passed_s[:-1])) if len(passed_s) else 0.0
        self._knots: list[tuple[Float64s, Float64s]] = []
        # Time of each column that was not seen, for each second that was not looked at.
        self._added_share: Float64s = np.empty(0)
        self.set_columns([(name,) for name in range(len(launches.names))])

    def set_columns(self, columns: Sequence[tuple[int, ...]]) -> None:
        """Set which names `until` takes together in each column."""
        column_of = np.full(len(self.by_name_s), -1, dtype=np.int64)
        for column, names in enumerate(columns):
            column_of[list(names)] = column
        added_s = np.array([float(self._added_s[list(names)].sum()) for names in columns])
        self._added_share = added_s / max(float(self._unseen_s[-1]), 1e-12)
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
        """Return the busy time of each column up to each moment, s, shape (n, columns).

        That of kernels that were not seen is spread over the times that were not looked at.
        """
        if not self._knots:
            return np.empty((len(at_s), 0))
        share_s = self._share(at_s)
        seen_s = np.stack([np.interp(share_s, *knots) for knots in self._knots], axis=1)
        return seen_s + self.unseen_until(at_s)[:, None] * self._added_share

    def tabulated(self, step_s: float, length_s: float) -> Callable[[Float64s], Float64s]:
        """Return `until` by a table with a row each `step_s`, much faster where it is called often.

        Args:
            step_s: Between its rows busy time is taken to grow evenly.
            length_s: Moments lie between 0 and this.
        """
        table_s = self.until(np.arange(0.0, length_s + 2 * step_s, step_s))

        def until(at_s: Float64s) -> Float64s:
            row = np.clip(at_s, 0.0, length_s) / step_s
            first = row.astype(np.int64)
            part = (row - first)[:, None]
            found: Float64s = table_s[first] * (1 - part) + table_s[first + 1] * part
            return found

        return until

    def any_until(self, at_s: Float64s) -> Float64s:
        """Return for how long any kernel ran up to each moment, s, shape (n,)."""
        return np.interp(at_s, self._at_s, self._any_s)

    def unseen_until(self, at_s: Float64s) -> Float64s:
        """Return for how long kernels were not looked at up to each moment, s, shape (n,)."""
        return np.interp(at_s, self._unseen_at_s, self._unseen_s)

    def _share(self, at_s: Float64s) -> Float64s:
        return np.interp(at_s, self._at_s, self._shared_s)


def _scatter_s(
    added_s: Float64s, launches: Launches, weight: Float64s, unseen_ns: Sequence[tuple[int, int]]
) -> Float64s:
    """Return the error of each name's time unseen, s, shape (names,): half of its 95% interval over 1.96.

    The mean time of a name's kernels a launch differs from turn to turn; the variance is half of the mean
    square of successive differences (von Neumann, Ann. Math. Statist. 12, 1941).

    Args:
        added_s: Time that each kernel stands for beside its own, s.
        launches: The kernels.
        weight: For how many kernels each one stands.
        unseen_ns: Times in which kernels were not looked at.
    """
    count = len(launches.names)
    turn = np.searchsorted([on_ns for _, on_ns in unseen_ns], launches.start_ns, side="right")
    turns = len(unseen_ns) + 1
    stood_for = np.bincount(turn, weight - 1, turns)
    by_turn_s = np.bincount(turn * count + launches.name, added_s, turns * count).reshape(turns, count)
    kept = stood_for > 0
    if kept.sum() < 2:
        whole_s: Float64s = by_turn_s.sum(axis=0)
        return whole_s
    number, mean_s = stood_for[kept], by_turn_s[kept] / stood_for[kept, None]
    variance_s2 = (np.diff(mean_s, axis=0) ** 2).mean(axis=0) / 2
    # What was seen scatters about the mean, and what was not does, too.
    times = 2 * (number**2).sum()
    # Of few turns the scatter is not well known.
    few = float(stdtrit(len(number) - 1, 0.975)) / COVERAGE_FACTOR
    error_s: Float64s = few * np.sqrt(times * variance_s2)
    return error_s


def _running(start_s: Float64s, end_s: Float64s) -> tuple[Float64s, Int64s]:
    """Return the moments at which kernels begin or end, and how many run from each of them on."""
    at_s = np.concatenate((start_s, end_s))
    if not len(at_s):
        return np.zeros(2), np.zeros(2, dtype=np.int64)
    step = np.concatenate((np.ones(len(start_s), dtype=np.int64), np.full(len(end_s), -1, dtype=np.int64)))
    order = np.lexsort((-step, at_s))
    return at_s[order], np.cumsum(step[order])

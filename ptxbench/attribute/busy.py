"""How long each kernel name kept a GPU busy up to any moment; kernels at the same time share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from ptxbench.attribute.launches import Launches
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.sensors.trace import Float64s, Int64s

# Launches that are worked on at once, so that few arrays are as long as a log.
_PIECE = 1 << 20
# Shorter times without a kernel are no pause.
_LEAST_PAUSE_S = 0.1

# Moments, and what has accumulated until then; between them it grows evenly.
_Knots = tuple[Float64s, Float64s]


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
        self._launches = launches
        self._origin_ns = origin_ns
        latest_ns = np.maximum.accumulate(launches.end_ns)
        self._sharing = self._shared(latest_ns)
        self._pauses_s = self._times_without(latest_ns)
        del latest_ns
        count = len(launches.names)
        calls, self.by_name_s = np.zeros(count), np.zeros(count)
        for part in _pieces(len(launches)):
            weight = None if launches.weight is None else launches.weight[part]
            calls += np.bincount(launches.name[part], weight, count)
            self.by_name_s += np.bincount(launches.name[part], self._own_s(part), count)
        self.calls: Int64s = np.rint(calls).astype(np.int64)
        self.error_s: Float64s = np.zeros(count)
        self._added_s: Float64s = np.zeros(count)
        if unseen_ns and launches.weight is not None:
            added_s = self._own_s(slice(None)) * (launches.weight - 1)
            unseen_all_s = sum(on_ns - off_ns for off_ns, on_ns in unseen_ns) / 1e9
            # No more than all of the time that was not looked at.
            added_s *= min(1.0, unseen_all_s / max(float(added_s.sum()), 1e-12))
            self._added_s += np.bincount(launches.name, added_s, count)
            self.by_name_s += self._added_s
            self.error_s = _scatter_s(added_s, launches, launches.weight, unseen_ns)
            if not is_counted:
                # Launches are faster while they are not looked at: they may have filled that time.
                most = unseen_all_s / max(float(added_s.sum()), 1e-12) - 1
                self.error_s = np.hypot(self.error_s, most * self._added_s / COVERAGE_FACTOR)
        unseen_s = (np.array(unseen_ns, dtype=np.int64).reshape(-1, 2) - origin_ns) / 1e9
        self._unseen_at_s = np.concatenate(([0.0], unseen_s.ravel()))
        passed_s = np.cumsum(np.diff(unseen_s, axis=1))
        self._unseen_s = np.concatenate(([0.0], np.column_stack((passed_s, passed_s)).ravel()))
        self._unseen_s[1::2] = np.concatenate(([0.0], passed_s[:-1])) if len(passed_s) else 0.0
        self._held_s: list[_Knots] = []
        # Time of each column that was not seen, for each second that was not looked at.
        self._added_share: Float64s = np.empty(0)

    def set_columns(self, columns: Sequence[tuple[int, ...]]) -> None:
        """Set which names `until` and the like take together in each column."""
        column_of = np.full(len(self.by_name_s), len(columns), dtype=np.int32)
        for column, names in enumerate(columns):
            column_of[list(names)] = column
        added_s = np.array([float(self._added_s[list(names)].sum()) for names in columns])
        self._added_share = added_s / max(float(self._unseen_s[-1]), 1e-12)
        mine = column_of[self._launches.name]
        order = np.argsort(mine, kind="stable")
        ends = np.cumsum(np.bincount(mine, minlength=len(columns)))[: len(columns)]
        del mine
        self._held_s = [self._held(which) for which in np.split(order, ends)[: len(columns)]]

    def until(self, at_s: Float64s) -> Float64s:
        """Return the busy time of each column up to each moment, s, shape (n, columns).

        That of kernels that were not seen is spread over the times that were not looked at.
        """
        share_s = self._share(at_s)
        seen_s = np.array([np.interp(share_s, *knots) for knots in self._columns()])
        return seen_s.reshape(-1, len(at_s)).T + self.unseen_until(at_s)[:, None] * self._added_share

    def within(self, start_s: Float64s, end_s: Float64s) -> Float64s:
        """Return the busy time of each column between moments and others, summed up, s, shape (columns,)."""
        from_s, to_s = self._share(start_s), self._share(end_s)
        seen_s = [float((np.interp(to_s, *one) - np.interp(from_s, *one)).sum()) for one in self._columns()]
        unseen_s = float((self.unseen_until(end_s) - self.unseen_until(start_s)).sum())
        return np.array(seen_s) + self._added_share * unseen_s

    def mean(self, at_s: Float64s, ages_s: Float64s, weights: Float64s) -> Float64s:
        """Return which part of the time before moments each column took, shape (columns, n).

        Args:
            at_s: The moments, shape (n,).
            ages_s: Ascending times before each, shape (m,).
            weights: For each of them what busy time until then counts, per second, shape (m,); they add up
                to 0.
        """
        share_s = self._share(at_s - ages_s[:, None])
        ends_s, outer, inner = share_s[[0, -1]], weights[[0, -1]], weights[1:-1]
        columns = self._columns()
        found = np.zeros((len(columns), len(at_s)))
        for row, knots in zip(found, columns, strict=True):
            held_s = np.interp(ends_s, *knots)
            if not len(inner):
                row[:] = outer @ held_s
                continue
            # Most names did not run in most windows.
            (ran,) = np.nonzero(held_s[0] != held_s[1])
            between_s = np.interp(share_s[1:-1, ran], *knots)
            row[ran] = outer @ held_s[:, ran] + inner @ between_s
        if self._unseen_s[-1] > 0:
            unseen_s = weights @ self.unseen_until(at_s - ages_s[:, None])
            found += self._added_share[:, None] * unseen_s
        return found

    def is_pause(self, start_s: Float64s, end_s: Float64s) -> npt.NDArray[np.bool_]:
        """Return whether no kernel ran between moments, which are 0.1 s apart or more, shape (n,)."""
        at_s, until_s = self._pauses_s
        return end_s <= until_s[np.searchsorted(at_s, start_s, side="right") - 1]

    def unseen_until(self, at_s: Float64s) -> Float64s:
        """Return for how long kernels were not looked at up to each moment, s, shape (n,)."""
        return np.interp(at_s, self._unseen_at_s, self._unseen_s)

    def _columns(self) -> list[_Knots]:
        if not self._held_s:
            self.set_columns([(name,) for name in range(len(self.by_name_s))])
        return self._held_s

    def _share(self, at_s: Float64s) -> Float64s:
        """Return moments by a clock that is as slow as each of the kernels that run at once gets on."""
        return at_s if self._sharing is None else np.interp(at_s, *self._sharing)

    def _shares_s(self, which: slice | Int64s) -> _Knots:
        """Return begins and ends of launches by that clock."""
        sides_ns = (self._launches.start_ns, self._launches.end_ns)
        start_s, end_s = (self._share((side[which] - self._origin_ns) / 1e9) for side in sides_ns)
        return start_s, end_s

    def _own_s(self, which: slice) -> Float64s:
        start_s, end_s = self._shares_s(which)
        return end_s - start_s

    def _shared(self, latest_ns: Int64s) -> _Knots | None:
        """Return the clock of `_share`, None where no kernels run at once.

        Args:
            latest_ns: The last end of each kernel and all before it, shape (n,).
        """
        start_ns, end_ns = self._launches.start_ns, self._launches.end_ns
        if not np.any(start_ns[1:] < latest_ns[:-1]):
            return None
        at_s, running = _running((start_ns - self._origin_ns) / 1e9, (end_ns - self._origin_ns) / 1e9)
        running = np.maximum(running, 1)
        passed_s = np.diff(at_s)
        passed_s /= running[:-1]
        shared_s = np.concatenate((at_s[:1], at_s[0] + np.cumsum(passed_s)))
        turns = np.concatenate(([True], running[1:] != running[:-1]))
        turns[-1] = True
        return at_s[turns], shared_s[turns]

    def _times_without(self, latest_ns: Int64s) -> _Knots:
        """Return begins and ends of the times without a kernel that are no moment, in order.

        Args:
            latest_ns: The last end of each kernel and all before it, shape (n,).
        """
        start_ns = self._launches.start_ns
        if not len(start_ns):
            return np.array([-np.inf]), np.array([np.inf])
        last = np.flatnonzero(start_ns[1:] - latest_ns[:-1] >= _LEAST_PAUSE_S * 1e9)
        at_s, until_s = ((one - self._origin_ns) / 1e9 for one in (latest_ns[last], start_ns[last + 1]))
        first_s, last_s = ((one - self._origin_ns) / 1e9 for one in (start_ns[0], latest_ns[-1]))
        return np.concatenate(([-np.inf], at_s, [last_s])), np.concatenate(([first_s], until_s, [np.inf]))

    def _held(self, which: Int64s) -> _Knots:
        """Return the busy time of launches up to moments of the clock of `_share`."""
        start_s, end_s = self._shares_s(which)
        if not np.all(start_s[1:] >= end_s[:-1]):
            at_s, running = _running(start_s, end_s)
            return at_s, np.concatenate(([0.0], np.cumsum(running[:-1] * np.diff(at_s))))
        at_s, held_s = np.zeros(max(2 * len(which), 1)), np.zeros(max(2 * len(which), 1))
        at_s[0 : 2 * len(which) : 2], at_s[1::2] = start_s, end_s
        np.cumsum(end_s - start_s, out=held_s[1::2])
        held_s[2::2] = held_s[1:-1:2]
        return at_s, held_s


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


def _running(start_s: Float64s, end_s: Float64s) -> tuple[Float64s, npt.NDArray[np.int32]]:
    """Return the moments at which kernels begin or end, and how many run from each of them on."""
    at_s = np.concatenate((start_s, end_s))
    # Of one moment begins stand before ends.
    order = np.argsort(at_s, kind="stable")
    step = np.where(order < len(start_s), np.int8(1), np.int8(-1))
    return at_s[order], np.cumsum(step, dtype=np.int32)


def _pieces(count: int) -> Iterator[slice]:
    return (slice(at, at + _PIECE) for at in range(0, count, _PIECE))

"""How long each kernel name kept a GPU busy up to any moment; kernels at the same time share it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ptxbench.attribute.launches import Index, Launches, occupied_ns
from ptxbench.attribute.unseen import UnseenTime
from ptxbench.sensors.trace import Float64s, Int64s

# Shorter times without a kernel are no pause.
_LEAST_PAUSE_S = 0.1
# Of more moments than this some are left out, evenly: what passed between two others grows evenly then.
_MOST_KNOTS = 12 << 20

# Moments, and what has accumulated until then; between them it grows evenly.
_Knots = tuple[Float64s, Float64s]


class ExposureMatrix:
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
        self._pauses_s = self._times_without(unseen_ns)
        self._sharing, self._seen_s = self._shared()
        count = len(launches.names)
        calls = np.zeros(count)
        for piece in launches.pieces():
            calls += np.bincount(piece.name, piece.weight, count)
        self.calls: Int64s = np.rint(calls).astype(np.int64)
        self.by_name_s: Float64s = self._seen_s.copy()
        self.error_s: Float64s = np.zeros(count)
        self._unseen: UnseenTime | None = None
        if unseen_ns and launches.weight is not None:
            own_s = self._own_s(launches)
            self._unseen = UnseenTime(launches, own_s, origin_ns, unseen_ns, is_counted=is_counted)
            self.by_name_s += self._unseen.by_name_s
            self.error_s = self._unseen.error_s
        self._held_s: list[_Knots] = []

    def set_columns(self, columns: Sequence[tuple[int, ...]]) -> None:
        """Set which names `until` and the like take together in each column."""
        column_of = np.full(len(self.by_name_s), len(columns), dtype=np.min_scalar_type(len(columns)))
        for column, names in enumerate(columns):
            column_of[list(names)] = column
        if self._unseen is not None:
            self._unseen.set_columns(columns)
        mine = column_of[self._launches.name]
        self._held_s = [
            self._held(np.flatnonzero(mine == column), names) for column, names in enumerate(columns)
        ]

    def until(self, at_s: Float64s) -> Float64s:
        """Return the busy time of each column up to each moment, s, shape (n, columns).

        That of kernels that were not seen is spread over the times that were not looked at.
        """
        share_s = self._share(at_s)
        found_s = np.array([np.interp(share_s, *knots) for knots in self._columns()]).reshape(-1, len(at_s)).T
        return found_s if self._unseen is None else found_s + self._unseen.until(at_s)

    def within(self, start_s: Float64s, end_s: Float64s) -> Float64s:
        """Return the busy time of each column between moments and others, summed up, s, shape (columns,)."""
        from_s, to_s = self._share(start_s), self._share(end_s)
        seen_s = [float((np.interp(to_s, *one) - np.interp(from_s, *one)).sum()) for one in self._columns()]
        found_s = np.array(seen_s)
        if self._unseen is not None:
            found_s += (self._unseen.until(end_s) - self._unseen.until(start_s)).sum(axis=0)
        return found_s

    def mean(self, at_s: Float64s, ages_s: Float64s, weights: Float64s) -> Float64s:
        """Return which part of the time before moments each column took, shape (columns, n).

        Args:
            at_s: The moments, shape (n,).
            ages_s: Ascending times before each, shape (m,).
            weights: For each of them what busy time until then counts, per second, shape (m,); they add up
                to 0.
        """
        # Moments of one reading follow each other, so that each is found near the one before it.
        share_s = self._share(at_s[:, None] - ages_s)
        ends_s, between_s = share_s[:, [0, -1]], share_s[:, 1:-1]
        columns = self._columns()
        found = np.zeros((len(columns), len(at_s)))
        for row, knots in zip(found, columns, strict=True):
            held_s = np.interp(ends_s, *knots)
            if len(weights) == 2:
                row[:] = held_s @ weights
                continue
            # Most names did not run in most windows.
            (ran,) = np.nonzero(held_s[:, 0] != held_s[:, 1])
            row[ran] = held_s[ran] @ weights[[0, -1]] + np.interp(between_s[ran], *knots) @ weights[1:-1]
        if self._unseen is not None:
            found += self._unseen.mean(at_s[:, None] - ages_s, weights)
        return found

    def is_pause(self, start_s: Float64s, end_s: Float64s) -> npt.NDArray[np.bool_]:
        """Return whether no kernel ran between moments, which are 0.1 s apart or more, shape (n,)."""
        at_s, until_s = self._pauses_s
        return end_s <= until_s[np.searchsorted(at_s, start_s, side="right") - 1]

    def unknown_until(self, at_s: Float64s) -> Float64s:
        """Return for how long it is not known which kernels ran, up to each moment, s, shape (n,)."""
        return np.zeros(len(at_s)) if self._unseen is None else self._unseen.unknown_until(at_s)

    def _columns(self) -> list[_Knots]:
        if not self._held_s:
            self.set_columns([(name,) for name in range(len(self.by_name_s))])
        return self._held_s

    def _share(self, at_s: Float64s) -> Float64s:
        """Return moments by a clock that is as slow as each of the kernels that run at once gets on."""
        return at_s if self._sharing is None else np.interp(at_s, *self._sharing)

    def _seconds(self, at_ns: Int64s) -> Float64s:
        seconds: Float64s = (at_ns - self._origin_ns) / 1e9
        return seconds

    def _own_s(self, launches: Launches) -> Float64s:
        """Return what each kernel counts of the time in which it ran, s, shape (n,)."""
        sides_ns = (launches.start_ns, launches.end_ns)
        start_s, end_s = (self._share(self._seconds(side_ns)) for side_ns in sides_ns)
        return end_s - start_s

    def _shared(self) -> tuple[_Knots | None, Float64s]:
        """Return the clock of `_share`, None where no kernels run at once, and the busy time of each name."""
        pieces, count = list(self._launches.pieces()), len(self._launches.names)
        if not pieces:
            return None, np.zeros(count)
        begins_s = [float(self._seconds(piece.start_ns[:1])[0]) for piece in pieces]
        first_s = last_s = last_share_s = begins_s[0]
        by_name_s, turns = np.zeros(count), _Turns()
        turns.add(np.array([first_s]), np.array([first_s]))
        # Kernels that still run where a piece ends: their ends, their begins by the clock, and their names.
        open_s, open_share_s = np.empty(0), np.empty(0)
        open_name: Index = np.empty(0, dtype=np.int32)
        for piece, until_s in zip(pieces, [*begins_s[1:], np.inf], strict=True):
            start_s, end_s = self._seconds(piece.start_ns), np.append(open_s, self._seconds(piece.end_ns))
            is_over = end_s <= until_s
            at_s, running = _running(start_s, end_s[is_over], len(open_s))
            at_s, at_once = np.append(last_s, at_s), np.maximum(np.append(len(open_s), running), 1)
            share_s = last_share_s + np.append(0.0, np.cumsum(np.diff(at_s) / at_once[:-1]))
            begin_share_s = np.append(open_share_s, np.interp(start_s, at_s, share_s))
            name = np.append(open_name, piece.name)
            own_s = np.interp(end_s[is_over], at_s, share_s) - begin_share_s[is_over]
            by_name_s += np.bincount(name[is_over], own_s, count)
            open_s, open_share_s, open_name = end_s[~is_over], begin_share_s[~is_over], name[~is_over]
            last_s, last_share_s = float(at_s[-1]), float(share_s[-1])
            # Where one kernel begins as another ends, the two do not run at once.
            last = np.append(np.flatnonzero(np.diff(at_s)), len(at_s) - 1)
            turned = last[np.diff(at_once[last], prepend=at_once[0]) != 0]
            turns.add(at_s[turned], share_s[turned])
        at_s, share_s = turns.with_end(last_s, last_share_s)
        return (at_s, share_s) if len(at_s) > 2 else None, by_name_s

    def _times_without(self, unseen_ns: Sequence[tuple[int, int]]) -> _Knots:
        """Return begins and ends of the times without a kernel that are no moment, in order."""
        if not len(self._launches):
            return np.array([-np.inf]), np.array([np.inf])
        start_ns, latest_ns = occupied_ns(self._launches, unseen_ns)
        last = np.flatnonzero(start_ns[1:] - latest_ns[:-1] >= _LEAST_PAUSE_S * 1e9)
        at_s = self._seconds(np.append(latest_ns[:-1][last], latest_ns[-1]))
        until_s = self._seconds(np.append(start_ns[0], start_ns[1:][last]))
        return np.append(-np.inf, at_s), np.append(until_s, np.inf)

    def _held(self, which: Index, names: tuple[int, ...]) -> _Knots:
        """Return the busy time of the launches of some names up to moments of the clock of `_share`."""
        parts = np.split(which, range(_MOST_KNOTS // 2, len(which), _MOST_KNOTS // 2))
        at_s, held_s = self._held_by(parts[0])
        if len(parts) > 1:
            ends_ns = np.array([self._launches.start_ns[which[0]], self._launches.end_ns[which].max()])
            first_s, last_s = self._share(self._seconds(ends_ns)).tolist()
            at_s = np.linspace(first_s, last_s, _MOST_KNOTS)
            held_s = sum((np.interp(at_s, *self._held_by(part)) for part in parts), start=np.zeros(len(at_s)))
        # Where moments of the clock were left out, no time is lost.
        held_s *= self._seen_s[list(names)].sum() / max(float(held_s[-1]), 1e-12)
        return at_s, held_s

    def _held_by(self, which: Index) -> _Knots:
        sides_ns = (self._launches.start_ns, self._launches.end_ns)
        start_s, end_s = (self._share(self._seconds(side_ns[which])) for side_ns in sides_ns)
        if not np.all(start_s[1:] >= end_s[:-1]):
            at_s, running = _running(start_s, end_s)
            return at_s, np.append(0.0, np.cumsum(running[:-1] * np.diff(at_s)))
        at_s, held_s = np.zeros(max(2 * len(which), 1)), np.zeros(max(2 * len(which), 1))
        at_s[0 : 2 * len(which) : 2], at_s[1::2] = start_s, end_s
        np.cumsum(end_s - start_s, out=held_s[1::2])
        held_s[2::2] = held_s[1:-1:2]
        return at_s, held_s


class _Turns:
    """Moments that come piece by piece, and what has accumulated until then: one of every so many of them."""

    def __init__(self) -> None:
        self._parts: list[_Knots] = []
        self._step, self._come, self._kept = 1, 0, 0

    def add(self, at_s: Float64s, held_s: Float64s) -> None:
        first = -self._come % self._step
        self._come += len(at_s)
        # A copy, so that the whole piece is not kept.
        self._parts.append((at_s[first :: self._step].copy(), held_s[first :: self._step].copy()))
        self._kept += len(self._parts[-1][0])
        if self._kept > _MOST_KNOTS:
            self._step *= 2
            at_s, held_s = self._joined()
            self._parts = [(at_s[::2].copy(), held_s[::2].copy())]
            self._kept = len(self._parts[0][0])

    def with_end(self, at_s: float, held_s: float) -> _Knots:
        self._parts.append((np.array([at_s]), np.array([held_s])))
        return self._joined()

    def _joined(self) -> _Knots:
        at_s, held_s = (np.concatenate(side) for side in zip(*self._parts, strict=True))
        return at_s, held_s


def _running(start_s: Float64s, end_s: Float64s, before: int = 0) -> tuple[Float64s, npt.NDArray[np.int32]]:
    """Return the moments at which kernels begin or end, and how many run from each of them on."""
    at_s = np.concatenate((start_s, end_s))
    # Of one moment begins stand before ends.
    order = np.argsort(at_s, kind="stable")
    step = np.where(order < len(start_s), np.int8(1), np.int8(-1))
    return at_s[order], before + np.cumsum(step, dtype=np.int32)

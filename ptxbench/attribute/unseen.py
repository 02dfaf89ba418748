"""What ran while kernels came too fast to be looked at: those seen before and after stand for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptxbench.attribute.launches import Launches
from ptxbench.core.distributions import student_quantile
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.sensors.trace import Float64s

# Which part of the time other kernels may have than before a time unseen, for those in it to be known.
_SAME_MIX = 0.1


class UnseenTime:
    """The time of each kernel name while kernels were not looked at.

    A turn of looking stands for the times unseen before and behind it, by their lengths.

    Attributes:
        by_name_s: Time of each name that was not seen, s, shape (names,).
        error_s: Half of its 95% interval over 1.96, s, shape (names,).

    Args:
        launches: The kernels that were seen.
        own_s: What each of them counts of the time in which it ran, s, shape (n,).
        origin_ns: Zero of the seconds here.
        unseen_ns: Times in which kernels were not looked at, ascending and apart.
        is_counted: Whether launches were counted meanwhile.
    """

    def __init__(
        self,
        launches: Launches,
        own_s: Float64s,
        origin_ns: int,
        unseen_ns: Sequence[tuple[int, int]],
        *,
        is_counted: bool,
    ) -> None:
        edges_s = (np.array(unseen_ns, dtype=np.int64) - origin_ns) / 1e9
        lengths_s = np.diff(edges_s, axis=1).ravel()
        weight = np.ones(len(launches)) if launches.weight is None else launches.weight
        added_s, whole_s = own_s * (weight - 1), float(lengths_s.sum())
        # No more than all of the time that was not looked at.
        added_s *= min(1.0, whole_s / max(float(added_s.sum()), 1e-12))
        by_turn_s = _by_turn(added_s, launches, unseen_ns)
        seen_s = _by_turn(own_s, launches, unseen_ns)
        before_s, behind_s = np.append(0.0, lengths_s), np.append(lengths_s, 0.0)
        ahead = (before_s / np.maximum(before_s + behind_s, 1e-12))[:, None]
        self._added_s = by_turn_s[:-1] * (1 - ahead[:-1]) + by_turn_s[1:] * ahead[1:]
        self._mix = seen_s / np.maximum(seen_s.sum(axis=1, keepdims=True), 1e-12)
        self._edges_s, self._lengths_s, self._is_counted = edges_s.ravel(), lengths_s, is_counted
        self._unseen_s = _knots(lengths_s)
        self._share: Float64s = np.zeros((len(lengths_s), 0))
        self._unknown_s = self._unseen_s
        self.by_name_s: Float64s = by_turn_s.sum(axis=0)
        stood_for = _by_turn(weight - 1, launches, unseen_ns).sum(axis=1)
        self.error_s = _scatter_s(by_turn_s, stood_for)
        if not is_counted:
            # Launches are faster while they are not looked at: they may have filled that time.
            most = whole_s / max(float(added_s.sum()), 1e-12) - 1
            self.error_s = np.hypot(self.error_s, most * self.by_name_s / COVERAGE_FACTOR)

    def set_columns(self, columns: Sequence[tuple[int, ...]]) -> None:
        """Set which names the following take together in each column."""

        def by_column(by_name: Float64s) -> Float64s:
            return np.column_stack([by_name[:, list(names)].sum(axis=1) for names in columns])

        self._share = by_column(self._added_s) / np.maximum(self._lengths_s, 1e-12)[:, None]
        moved = np.abs(np.diff(by_column(self._mix), axis=0)).sum(axis=1) / 2
        self._unknown_s = _knots(self._lengths_s * ((moved > _SAME_MIX) | (not self._is_counted)))

    def unknown_until(self, at_s: Float64s) -> Float64s:
        """Return for how long it is not known which kernels ran, up to each moment, s.

        It is known where the same ones ran before and after a time unseen.
        """
        return np.interp(at_s, self._edges_s, self._unknown_s)

    def until(self, at_s: Float64s) -> Float64s:
        """Return the time of each column that was not seen up to each moment, s, shape (n, columns)."""
        by_time_s = self._share * self._lengths_s[:, None]
        return np.column_stack([np.interp(at_s, self._edges_s, _knots(one)) for one in by_time_s.T])

    def mean(self, moments_s: Float64s, weights: Float64s) -> Float64s:
        """Return which part of the time at some moments each column took unseen, shape (columns, n).

        Args:
            moments_s: The moments, shape (n, m).
            weights: What time until each of them counts, per second, shape (m,).
        """
        unseen = np.interp(moments_s, self._edges_s, self._unseen_s) @ weights
        # Seldom more than one of these times is within a reading.
        which = (np.searchsorted(self._edges_s[::2], moments_s.mean(axis=1), side="right") - 1).clip(0)
        # At a change a turn stands for more than there is of the time before or behind it.
        share = self._share / np.maximum(self._share.sum(axis=1, keepdims=True), 1.0)
        found: Float64s = share[which].T * unseen
        return found


def _knots(lengths_s: Float64s) -> Float64s:
    """Return what has passed of some times at the begin and the end of each, s, shape (2 n,)."""
    until_s: Float64s = np.repeat(np.cumsum(lengths_s), 2)
    until_s[::2] -= lengths_s
    return until_s


def _by_turn(each: Float64s, launches: Launches, unseen_ns: Sequence[tuple[int, int]]) -> Float64s:
    """Return the sum over the kernels of each turn between times unseen, shape (turns, names)."""
    count, turns = len(launches.names), len(unseen_ns) + 1
    turn = np.searchsorted([on_ns for _, on_ns in unseen_ns], launches.start_ns, side="right")
    summed = np.bincount(turn * count + launches.name, each, turns * count)
    return summed.astype(np.float64).reshape(turns, count)


def _scatter_s(by_turn_s: Float64s, stood_for: Float64s) -> Float64s:
    """Return the error of each name's time unseen, s, shape (names,): half of its 95% interval over 1.96.

    The mean time of a name's kernels a launch differs from turn to turn; the variance is half of the mean
    square of successive differences (von Neumann, Ann. Math. Statist. 12, 1941).

    Args:
        by_turn_s: Time that the kernels of each turn stand for beside their own, s, shape (turns, names).
        stood_for: For how many kernels they stand, shape (turns,).
    """
    kept = stood_for > 0
    if kept.sum() < 2:
        whole_s: Float64s = by_turn_s.sum(axis=0)
        return whole_s
    number, mean_s = stood_for[kept], by_turn_s[kept] / stood_for[kept, None]
    variance_s2 = (np.diff(mean_s, axis=0) ** 2).mean(axis=0) / 2
    # What was seen scatters about the mean, and what was not does, too.
    times = 2 * (number**2).sum()
    # Of few turns the scatter is not well known.
    few = student_quantile(len(number) - 1) / COVERAGE_FACTOR
    error_s: Float64s = few * np.sqrt(times * variance_s2)
    return error_s

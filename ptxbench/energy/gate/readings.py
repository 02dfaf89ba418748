"""Which readings of a source can be true, whatever ran meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ptxbench.core.arrays import Bools
from ptxbench.sensors.trace import NS_PER_S, Series

Marks = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class GateLimits:
    """Bounds of what can be true; a reading beyond them is left out.

    Attributes:
        power_over_limit: Power over the highest limit of the board. Transients on H100s reached 1.39 times
            their limit (969 W of 700 in results/nvidia-h100/roofline/f64), on H200s 1.34 times.
        future_s: By how much a driver's stamp may lie after the end of the call that returned it. It lies
            0.16 ms or more before that in all recordings; the two clocks are compared to better than this.
        past_s: By how much the newest stamp of a call may lie before its end, beyond the usual time between
            two stamps: 16 ms in recordings of H100s and H200s (results/). Where the system's clock is set
            back, all that follow lie further back.
        wrong_share: Share of a source's readings that may be wrong and the others still believed.
    """

    power_over_limit: float = 1.5
    future_s: float = 0.005
    past_s: float = 0.06
    wrong_share: float = 0.2


LIMITS = GateLimits()


class Mark(IntEnum):
    """Why a reading is left out of every energy; the trace keeps it."""

    BELIEVED = 0
    FAILED = 1
    NOT_FINITE = 2
    NOT_POSITIVE = 3
    ABOVE_LIMIT = 4
    FROM_FUTURE = 5
    OUT_OF_ORDER = 6
    STAMP_OF_ANOTHER = 7
    STUCK = 8
    FAR_ABOVE_OTHERS = 9
    FROM_PAST = 10

    @property
    def text(self) -> str:
        """What such readings are, for a sentence that counts them."""
        return _TEXTS[self]


_TEXTS = {
    Mark.BELIEVED: "believed",
    Mark.FAILED: "failed",
    Mark.NOT_FINITE: "not a number",
    Mark.NOT_POSITIVE: "zero or negative",
    Mark.ABOVE_LIMIT: "above what the board can draw",
    Mark.FROM_FUTURE: "stamped after they were read",
    Mark.FROM_PAST: "stamped long before they were read",
    Mark.OUT_OF_ORDER: "stamped before an earlier one",
    Mark.STAMP_OF_ANOTHER: "with the time stamp of another",
    Mark.STUCK: "of a value that stands still",
    Mark.FAR_ABOVE_OTHERS: "far above the others of their kernel",
}
# A read that failed says nothing; the gap that it leaves shows where it matters.
_SILENT = (Mark.BELIEVED, Mark.FAILED)


@dataclass(frozen=True)
class Verdict:
    """What may be believed of a source's readings.

    Attributes:
        series: All of them.
        marks: A `Mark` for each, shape (n,).
        objection: Why none of them may be believed, "" where the rest may.
        max_power_w: Highest power limit of the board, W, for the objection; NaN where it is not known.
    """

    series: Series
    marks: Marks
    objection: str = ""
    max_power_w: float = math.nan

    def among(self, kept: Bools) -> Verdict:
        """Return it for some of the readings alone, a mask of shape (n,), without an objection."""
        return replace(self, series=self.series.select(kept), marks=self.marks[kept], objection="")

    @cached_property
    def believed(self) -> Series:
        """The readings that may be believed; all that are not marked, also where there is an objection."""
        return self.series.select(self.marks == Mark.BELIEVED)

    @cached_property
    def counts(self) -> dict[Mark, int]:
        """How many readings have each mark, without those that have none."""
        found, times = np.unique(self.marks[self.marks != Mark.BELIEVED], return_counts=True)
        return {Mark(int(mark)): int(count) for mark, count in zip(found, times, strict=True)}

    @property
    def note(self) -> str:
        """A sentence that counts what was left out, "" where nothing was."""
        counts = self.counts
        if not counts:
            return ""
        parts = ", ".join(f"{count} {mark.text}" for mark, count in counts.items())
        return (
            f"{sum(counts.values())} of {len(self.series)} readings of {self.series.source} left out: {parts}"
        )


def judge(series: Series, max_power_w: float) -> Verdict:
    """Mark the readings that cannot be true, and object to the source where they are too many.

    Of an energy counter only what failed, is no number or negative, or has a wrong stamp is marked: its power
    shows between its steps.

    Args:
        series: Readings of one source, shape (n,).
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.
    """
    marks = np.zeros(len(series), dtype=np.uint8)
    # The first rule that a reading breaks names it.
    for mark, broken in _rules(series, max_power_w):
        marks[broken & (marks == Mark.BELIEVED)] = mark
    return with_objection(Verdict(series, marks, max_power_w=max_power_w))


def with_objection(verdict: Verdict) -> Verdict:
    """Return a verdict that objects to the source where too many readings are marked.

    Args:
        verdict: What is believed so far; an objection that is there stays.
    """
    wrong = sum(count for mark, count in verdict.counts.items() if mark not in _SILENT)
    answered = len(verdict.series) - verdict.counts.get(Mark.FAILED, 0)
    if verdict.objection or wrong <= LIMITS.wrong_share * answered:
        return verdict
    return replace(verdict, objection=_objection(verdict))


def _rules(series: Series, max_power_w: float) -> list[tuple[Mark, Bools]]:
    """Return which readings break which rule, each shape (n,), the gravest rule first."""
    value = series.value
    rules = [
        (Mark.FAILED, series.code != 0),
        (Mark.NOT_FINITE, ~np.isfinite(value)),
        (Mark.NOT_POSITIVE, value < 0 if series.counts_energy else value <= 0),
    ]
    if not series.counts_energy:
        # No comparison with an unknown limit holds.
        rules.append((Mark.ABOVE_LIMIT, value > LIMITS.power_over_limit * max_power_w))
    answered = np.logical_and.reduce([~broken for _, broken in rules[:2]])
    return [*rules, *_stamp_rules(series, answered)]


def _stamp_rules(series: Series, answered: Bools) -> list[tuple[Mark, Bools]]:
    """Return the rules on the driver's stamps, for readings that answered, shape (n,), and have one."""
    stamped = answered & (series.stamp_ns >= 0)
    future = stamped & (series.stamp_ns - series.end_ns > LIMITS.future_s * NS_PER_S)
    # A stamp from the future must not make all that follow it late.
    counting = stamped & ~future
    newest_ns = np.maximum.accumulate(np.where(counting, series.stamp_ns, -1))
    newest_before_ns = np.concatenate(([-1], newest_ns[:-1]))
    back = counting & (series.stamp_ns < newest_before_ns)
    again = np.zeros(len(series), dtype=bool)
    at = np.flatnonzero(counting & ~back)
    same = (np.diff(series.stamp_ns[at]) == 0) & (np.diff(series.value[at]) != 0)
    again[at[1:][same]] = True
    return [
        (Mark.FROM_FUTURE, future),
        (Mark.OUT_OF_ORDER, back),
        (Mark.STAMP_OF_ANOTHER, again),
        (Mark.FROM_PAST, _from_past(series, counting & ~back)),
    ]


def _from_past(series: Series, stamped: Bools) -> Bools:
    """Return which readings come from calls whose newest stamp was old already, shape (n,)."""
    found = np.zeros(len(series), dtype=bool)
    at = np.flatnonzero(stamped)
    if not len(at):
        return found
    end_ns, first = np.unique(series.end_ns[at], return_index=True)
    newest_ns = np.maximum.reduceat(series.stamp_ns[at], first)
    usual_ns = float(np.median(np.abs(np.diff(series.stamp_ns[at])))) if len(at) > 1 else 0.0
    is_old = end_ns - newest_ns > LIMITS.past_s * NS_PER_S + usual_ns
    found[at] = is_old[np.searchsorted(end_ns, series.end_ns[at])]
    return found


def _objection(verdict: Verdict) -> str:
    series = verdict.series
    value = series.value[np.isfinite(series.value) & (series.code == 0)]
    reach = f"; they go from {value.min():.4g} to {value.max():.4g} {_unit(series)}" if len(value) else ""
    limit = f" (limit {verdict.max_power_w:.4g} W)" if Mark.ABOVE_LIMIT in verdict.counts else ""
    share = f"{LIMITS.wrong_share:.0%}"
    coarse = "; if it is that coarse, measure it by `ptxbench doctor sensor` for `ptxbench table --sensor`"
    cure = coarse if Mark.STUCK in verdict.counts else ""
    return f"more than {share} of the readings cannot be true: {verdict.note}{limit}{reach}{cure}"


def _unit(series: Series) -> str:
    return "J" if series.counts_energy else "W"

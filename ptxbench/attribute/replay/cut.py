"""A program's run without the time in which its kernels were launched again, as if it had not been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ptxbench.attribute.recorded import RecordedBoard, RecordedProgram
from ptxbench.sensors.trace import Int64s, Series

Span = tuple[int, int]


def without_replays(recorded: RecordedProgram) -> RecordedProgram:
    """Return a run from which the times of replay are cut out; what came after them follows at once.

    A replay that came behind all launches is behind the run already, and nothing is cut.
    """
    facts = recorded.facts
    spans = tuple(
        (one.begin_ns, min(one.end_ns or facts.end_ns, facts.end_ns))
        for one in sorted(facts.replays, key=lambda one: one.begin_ns)
        if facts.start_ns < one.begin_ns < facts.end_ns
    )
    if not spans:
        return recorded

    log = recorded.log.at_other_times(partial(_moved, spans=spans))
    boards = tuple(
        RecordedBoard(one.facts, tuple(_series(series, spans) for series in one.series()))
        for one in recorded.boards
    )
    part = replace(facts, end_ns=int(_moved(np.array([facts.end_ns]), spans)[0]))
    return RecordedProgram(replace(recorded.manifest, part=part), boards, log)


def _moved(at_ns: Int64s, spans: Sequence[Span]) -> Int64s:
    """Return times without the spans that lie before them, shape (n,)."""
    cut_ns = sum((np.clip(at_ns - begin, 0, end - begin) for begin, end in spans), np.zeros_like(at_ns))
    return at_ns - cut_ns


def _series(one: Series, spans: Sequence[Span]) -> Series:
    """Return the readings outside of the spans; of a counter without what it counted in them."""
    value = one.value
    if one.counts_energy and len(one):
        good = one.good()
        for begin_ns, end_ns in spans:
            before_j, after_j = np.interp([begin_ns, end_ns], good.time_ns, good.value)
            value = np.where(one.time_ns >= end_ns, value - (after_j - before_j), value)
    inside = np.zeros(len(one), dtype=bool)
    for begin_ns, end_ns in spans:
        inside |= (one.time_ns >= begin_ns) & (one.time_ns < end_ns)
    stamp_ns = np.where(one.stamp_ns >= 0, _moved(one.stamp_ns, spans), one.stamp_ns)
    return replace(
        one,
        begin_ns=_moved(one.begin_ns, spans),
        end_ns=_moved(one.end_ns, spans),
        value=value,
        stamp_ns=stamp_ns,
    ).select(~inside)

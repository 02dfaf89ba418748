"""What a valid row says of trials that did not go as they should."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ptxbench.status import Status
from ptxbench.store.schema import TrialRecord

_SEVERAL = 2


def left_out_note(faults: Mapping[str, tuple[Status, str]]) -> str:
    """Return how many trials were left out and why, "" where there is none.

    Args:
        faults: Status and reason of every trial that does not count, by trial id.
    """
    if not faults:
        return ""
    counts = Counter(status for status, _ in faults.values()).most_common()
    first = dict(list(faults.values())[::-1])
    causes = "; ".join(f"{count} {status}: {first[status]}" for status, count in counts)
    return f"{len(faults)} trial{'s' if len(faults) > 1 else ''} left out ({causes})"


def set_aside_note(unsure: int, kept: int) -> str:
    """Return how many valid trials ran at an unknown operating point, "" where as many or more count."""
    return f"set aside: {unsure} at an unknown level of the supply voltage" if unsure > kept else ""


def fewer_sms_note(records: Sequence[TrialRecord], sm_count: int) -> str:
    """Return on how many SMs a unit was measured where the GPU throttled on more, else "".

    Args:
        records: All trials of the unit, of every attempt.
        sm_count: Streaming multiprocessors of the GPU.
    """
    grids = {r.grid for r in records}
    if len(grids) < 2:
        return ""
    return f"on {min(grids)} of {sm_count} SMs, because the GPU throttled on more"


def sources_note(trials: Sequence[TrialRecord]) -> str:
    """Return how two power sources disagree in most of a kernel's valid trials, else "".

    One trial in twenty disagrees by chance alone, so that a single one says nothing; a trial in which the
    counter had too few steps was not asked.

    Args:
        trials: Valid trials of one kernel.
    """
    said = [r.reason for r in trials if r.reason]
    asked = [r for r in trials if r.reason or math.isfinite(r.counter_j)]
    if len(said) < _SEVERAL or 2 * len(said) <= len(asked):
        return ""
    return f"in {len(said)} of {len(asked)} trials: {said[0]}"

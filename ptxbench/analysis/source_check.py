"""Whether the energy counter bears out the power source of a run, by all of its trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ptxbench.core.status import Status
from ptxbench.energy.gate.comparison import Comparison
from ptxbench.energy.gate.source import judge_source
from ptxbench.energy.gate.verdict import SourceVerdict
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import NS_PER_S
from ptxbench.storage.schema import TrialRecord


def judge_run(records: Sequence[TrialRecord], known_difference: float = 0.0) -> SourceVerdict:
    """Return what the energy counter says of the power source of a run.

    Args:
        records: All trials of the run. One that is not valid tells of the source as well.
        known_difference: What `ptxbench doctor` found for this board, as a fraction.
    """
    compared = [r for r in records if r.repeat >= 0 and math.isfinite(r.compared_error_j)]
    return judge_source([_comparison(r) for r in compared], known_difference)


def objected_trials(records: Sequence[TrialRecord], verdict: SourceVerdict) -> dict[str, tuple[Status, str]]:
    """Return status and reason of every trial where none may be believed, by trial id.

    Args:
        records: All trials of the run.
        verdict: What the energy counter says of its source.
    """
    if not verdict.objection:
        return {}
    return {
        r.trial_id: (Status.SENSOR_IMPLAUSIBLE, f"{_compared(r)}: {verdict.objection}")
        for r in records
        if r.repeat >= 0
    }


def _comparison(record: TrialRecord) -> Comparison:
    end_ns = record.start_ns + round(record.compared_s * NS_PER_S)
    energies = record.compared_counter_j, record.compared_source_j, record.compared_error_j
    return Comparison(record.start_ns, end_ns, *energies)


def _compared(record: TrialRecord) -> str:
    """Return what of a run stands beside its energy counter."""
    return (
        record.source if record.source != SourceName.COUNTER else "the power that was read beside the counter"
    )

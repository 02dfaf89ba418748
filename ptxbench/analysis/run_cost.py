"""What a row of the dynamic protocol cost in time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ptxbench.analysis.operating_point import STATIC_SUBJECT
from ptxbench.analysis.overhead import OVERHEAD_PREFIX
from ptxbench.core.condition import DYNAMIC
from ptxbench.storage.manifest import RunCost
from ptxbench.storage.schema import TrialRecord

_SHARED = (STATIC_SUBJECT, OVERHEAD_PREFIX)


def run_cost(records: Iterable[TrialRecord]) -> RunCost | None:
    """Return what a row cost: its own trials, and an even share of the trials that all rows share.

    Args:
        records: All trials of a run, calibration among them; warm-ups are not kept and not counted.

    Returns:
        None where there is no row of the dynamic protocol.
    """
    own: dict[str, list[tuple[float, float]]] = {}
    shared: list[tuple[float, float]] = []
    for record in records:
        if record.protocol != DYNAMIC:
            continue
        kernel_s = record.elapsed_s if record.elapsed_s == record.elapsed_s else 0.0
        spent = kernel_s, (record.record_end_ns - record.record_begin_ns) / 1e9
        if record.subject.partition("/")[0] in _SHARED:
            shared.append(spent)
        else:
            own.setdefault(record.subject, []).append(spent)
    if not own:
        return None
    rows = np.array([np.sum(spent, axis=0) for spent in own.values()])
    rows += np.sum(shared, axis=0) / len(rows) if shared else 0.0
    kernel_s, wall_s = np.median(rows, axis=0)
    total_kernel_s, total_wall_s = rows.sum(axis=0)
    return RunCost(len(rows), float(kernel_s), float(wall_s), float(total_kernel_s), float(total_wall_s))

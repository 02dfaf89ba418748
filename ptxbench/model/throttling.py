"""What a lower clock does to dynamic energy, from kernels of a run that the GPU slowed down.

Where a kernel throttles on the whole chip, the run measures it again on fewer SMs. The same loop then has an
energy a pass and thread at two clocks: E(f) / E(f0) = (f / f0)^gamma.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ptxbench.analysis.loop_energy import Common, pass_energy_pj
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.status import Status
from ptxbench.model.solved import ClockExponent
from ptxbench.storage.schema import Role, TrialRecord

# Trials closer than this to the full clock are no evidence of what a lower one does.
SLOWED = 0.98
_MIN_TRIALS = 3


def slowed_kernels(
    records: Sequence[TrialRecord],
) -> list[tuple[list[TrialRecord], list[TrialRecord]]]:
    """Return the valid and the throttled trials of each kernel that has both.

    Args:
        records: All trials of a run.
    """
    groups: dict[tuple[str, ...], list[TrialRecord]] = defaultdict(list)
    for record in records:
        known = math.isfinite(record.steady_power_w) and math.isfinite(record.sm_clock_mhz)
        if record.protocol == DYNAMIC and record.role is not Role.STATIC and record.repeat >= 0 and known:
            groups[record.cubin_sha256, record.kernel, record.pattern].append(record)
    both = (
        ([t for t in trials if t.status is Status.OK], [t for t in trials if t.status is Status.THROTTLED])
        for trials in groups.values()
    )
    return [(free, slowed) for free, slowed in both if free and slowed]


def clock_exponent(records: Sequence[TrialRecord], common: Common) -> ClockExponent | None:
    """Return gamma by least squares through the origin of log energy against log clock.

    Args:
        records: All trials of a run.
        common: What the units of the run share (`shared_by`).

    Returns:
        None where fewer than three trials were slowed by at least 2% while the same kernel also ran freely.
    """
    clocks, energies = [], []
    for free, slowed in slowed_kernels(records):
        clock_mhz = float(np.mean([t.sm_clock_mhz for t in free]))
        energy_pj = float(np.mean([pass_energy_pj(t, common) for t in free]))
        for trial in slowed:
            if trial.sm_clock_mhz < SLOWED * clock_mhz and pass_energy_pj(trial, common) > 0 < energy_pj:
                clocks.append(math.log(trial.sm_clock_mhz / clock_mhz))
                energies.append(math.log(pass_energy_pj(trial, common) / energy_pj))
    if len(clocks) < _MIN_TRIALS:
        return None
    x, y = np.array(clocks), np.array(energies)
    gamma = float(x @ y / (x @ x))
    error = math.sqrt(float(np.sum((y - gamma * x) ** 2)) / (len(x) - 1) / float(x @ x))
    return ClockExponent(max(gamma, 0.0), error, len(x), math.exp(min(clocks)))

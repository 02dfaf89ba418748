"""Observations of whole loops in a run: dynamic energy of one pass, and the SASS that the pass executes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from ptxbench.analysis.loop_energy import RunCalibration, pass_energy_pj, pass_pj_per_w
from ptxbench.analysis.operating_point import same_operating_point
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.pass_energy import PassEnergy, moved_bytes
from ptxbench.sass.loop_counts import OpcodeCounts, loop_counts
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TrialRecord

# What one trial alone, whose scatter is unknown, may be off by.
_UNREPEATED = 0.01


def pass_energies(folder: RunFolder, common: RunCalibration) -> tuple[PassEnergy, ...]:
    """Return every kernel of a run's dynamic trials, by the energy of one pass of its loop.

    E = (P - P_static(T)) t / (passes x threads), as in the dynamic protocol (docs/method.md, section 5).
    Trials that do not count (throttled, stale, at another operating point) and kernels whose loop cannot be
    found, or calls a routine, are left out.

    Args:
        folder: The run.
        common: What the units of the run share (`shared_by`).

    Raises:
        InputError: The run's kernels cannot be read.
    """
    records = folder.records()
    loops = _loop_counts(folder)
    groups: dict[tuple[object, ...], list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.trial_id in common.contradicted:
            continue
        if _counts(record) and (record.cubin_sha256, record.kernel) in loops:
            groups[
                record.instruction,
                record.opt_level,
                record.operands,
                record.role,
                record.cubin_sha256,
                record.grid,
            ].append(record)
    passes = []
    for trials in groups.values():
        counts = loops[trials[0].cubin_sha256, trials[0].kernel] + _moved_bytes(trials[0])
        kept = same_operating_point(trials, common.drift.unsure).kept
        counted = [trial for trial, keep in zip(trials, kept, strict=True) if keep]
        passes.append(_pass_energy(counted, common, counts))
    # Without a sleeping kernel no energy above static power is known.
    return tuple(one for one in passes if math.isfinite(one.energy_pj))


def _counts(record: TrialRecord) -> bool:
    measured = record.protocol == DYNAMIC and record.role is not Role.STATIC and record.repeat >= 0
    measured = measured and record.lanes == WARP  # what a warp with idle lanes costs is no thread's share
    return measured and record.status is Status.OK and math.isfinite(record.steady_power_w)


def _loop_counts(folder: RunFolder) -> Mapping[tuple[str, str], OpcodeCounts]:
    """Return what a pass of each kernel's loop executes, by cubin and entry name."""
    return {
        (entry.cubin_sha256, name): counts
        for entry in folder.kernels.entries
        for name, counts in loop_counts(folder.kernels.sass(entry)).items()
    }


def _moved_bytes(record: TrialRecord) -> OpcodeCounts:
    """Return the bytes that a pass of a thread moves beyond L1; an overhead loop moves none."""
    is_target = record.role in (Role.TARGET, Role.TARGET_2N)
    return moved_bytes(record.instruction, record.copies) if is_target else ()


def _pass_energy(trials: list[TrialRecord], common: RunCalibration, counts: OpcodeCounts) -> PassEnergy:
    first = trials[0]
    energies_pj = np.array([pass_energy_pj(trial, common) for trial in trials])
    mean_pj = float(energies_pj.mean())
    if len(trials) > 1:
        scatter_pj = float(energies_pj.std(ddof=1)) / math.sqrt(len(trials))
    else:
        scatter_pj = _UNREPEATED * abs(mean_pj)
    static_w = _nan_to_zero(common.static.error_at(first.temperature_c, first.start_ns))
    static_pj = static_w * pass_pj_per_w(first)
    return PassEnergy(
        name=f"{first.instruction} {first.opt_level} {first.role} x{first.grid}",
        pattern=first.operands,
        counts=counts,
        energy_pj=mean_pj,
        error_pj=math.hypot(scatter_pj, static_pj),
        trials=len(trials),
    )


def _nan_to_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0

"""Observations of whole loops in a run: dynamic energy of one pass, and the SASS that the pass executes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.loop_energy import Common, pass_energy_pj, pass_pj_per_w
from ptxbench.analysis.operating_point import same_operating_point
from ptxbench.catalogue.load import find_instruction
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.model.work import Level
from ptxbench.sass.loop_counts import OpcodeCounts, loop_counts
from ptxbench.storage.run_folder import RunFolder
from ptxbench.storage.schema import Role, TrialRecord

# What one trial alone, whose scatter is unknown, may be off by.
_UNREPEATED = 0.01
# What a catalogue row that is named after a level moves bytes at.
_LEVELS = {"l2": (Level.CROSSBAR,), "hbm": (Level.CROSSBAR, Level.DRAM)}


@dataclass(frozen=True)
class PassEnergy:
    """Dynamic energy of one pass of one kernel's loop, a thread.

    Attributes:
        name: Instruction, optimization level, role and grid.
        pattern: Operand pattern.
        counts: Opcode with modifiers, and how often a pass executes it.
        energy_pj: Mean over the trials.
        error_pj: Standard error of it: scatter of the trials and static power.
        trials: How many trials it rests on.
    """

    name: str
    pattern: str
    counts: OpcodeCounts
    energy_pj: float
    error_pj: float
    trials: int


def pass_energies(folder: RunFolder, common: Common) -> tuple[PassEnergy, ...]:
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
                record.pattern,
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


def moved_bytes(instruction: str, copies: float) -> OpcodeCounts:
    """Return the bytes that copies of an instruction move beyond L1, where the catalogue names the level.

    Rows of a level are named after it (`ld.global.b32:hbm`, ptxbench/catalogue/data/memory_level.toml). What
    comes from L2 or DRAM passes the crossbar; L2's own part is counted there. A store's way to L2 is part of
    the storing instruction.

    Args:
        instruction: Catalogue name.
        copies: How often one thread executes it.
    """
    name, _, level = instruction.rpartition(":")
    if level not in _LEVELS:
        return ()
    try:
        size = float(find_instruction(instruction).bytes * copies)
    except InputError:
        return ()
    levels = [one for one in _LEVELS[level] if not (name.startswith("st.") and one is Level.CROSSBAR)]
    return tuple((one.opcode, size) for one in levels)


def _pass_energy(trials: list[TrialRecord], common: Common, counts: OpcodeCounts) -> PassEnergy:
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
        pattern=first.pattern,
        counts=counts,
        energy_pj=mean_pj,
        error_pj=math.hypot(scatter_pj, static_pj),
        trials=len(trials),
    )


def _nan_to_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def patterns_of(passes: Iterable[PassEnergy]) -> tuple[str, ...]:
    """Return the operand patterns, each once, in order of appearance."""
    return tuple(dict.fromkeys(one.pattern for one in passes))

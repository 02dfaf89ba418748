"""The protocol of Arafa et al. (2020), as published: one block, one thread, a dependent chain.

Eq. 1: E_instruction = (E_total - E_overhead) / number of instructions. The paper gives both kernels
the same loop count; here the overhead kernel runs longer, so that its window is no shorter than the
sensor can see, and its energy is scaled by the two loop counts. With one thread on a large GPU the
result is the board's power times the instruction's latency, for the most part.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ptxbench.analysis.loop_energy import contradicted_trials
from ptxbench.analysis.row_notes import left_out_note, lost_readings_note
from ptxbench.analysis.solved_rows import SolvedRows, by_subject
from ptxbench.analysis.source_check import judge_run, objected_trials
from ptxbench.analysis.statistics import Estimate, estimate
from ptxbench.analysis.subject import (
    Subject,
    most_common_fault,
    nan_mean,
    trial_faults,
)
from ptxbench.catalogue.model import Instruction
from ptxbench.core.condition import LANE_PATTERNS, Condition, Form, OptLevel
from ptxbench.core.errors import LaunchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.core.threads import WARP
from ptxbench.energy.gate.verdict import UNJUDGED, SourceVerdict
from ptxbench.experiment.built_kernels import BuiltKernels
from ptxbench.experiment.protocol import Measurement, Protocol, SleepCubin
from ptxbench.experiment.run_state import RunState
from ptxbench.storage.schema import PJ_PER_J, PJ_PER_NJ, Role, TableRow, TrialRecord

METHODS = ("sma_j", "papi_j", "mtsm_j", "counter_j")
_ROLES = (Role.TARGET, Role.OVERHEAD)


class Arafa(Protocol):
    """The protocol of Arafa et al. (2020)."""

    def form(self, instruction: Instruction, opt_level: OptLevel) -> Form:
        """Return the latency form: one dependent chain."""
        del instruction, opt_level
        return Form.LATENCY

    def refusal(self, instruction: Instruction, condition: Condition) -> str:
        """Return why one block of one execution cannot measure an instruction, or ""."""
        threads = instruction.unit.threads
        if condition.lanes != WARP or condition.pattern in LANE_PATTERNS:
            return "this protocol runs one thread; lanes, and operands by lane, need protocol dynamic"
        if instruction.block in (None, threads):
            return ""
        needed = f"{instruction.name} needs blocks of {instruction.block} threads"
        return f"{needed}, and this protocol has {threads}"

    def begin(self, state: RunState, sleep: SleepCubin) -> Measurement:
        """Begin to measure; the sleeping kernel is not needed."""
        del sleep
        return _ArafaMeasurement(state)

    def solve(self, subjects: Sequence[Subject], records: Sequence[TrialRecord], gpu: GpuInfo) -> SolvedRows:
        """Return the rows of subjects, each from its own trials, where their source may be believed."""
        del gpu
        trials, source = by_subject(records), judge_run(records)
        rows = {s.name: arafa_row(s, trials.get(s.name, ()), source) for s in subjects}
        return SolvedRows(rows)


class _ArafaMeasurement(Measurement):
    """The subjects of a run, one after the other."""

    def __init__(self, state: RunState) -> None:
        self._state = state

    def measure(self, batch: Sequence[BuiltKernels], *, more_follow: bool, is_last: bool) -> None:
        """Measure one subject after the other."""
        del more_follow, is_last
        for prepared in batch:
            subject = prepared.subject
            self._state.report(
                f"{subject.instruction.name} -{subject.condition.opt_level} {subject.condition.protocol}"
            )
            if self._state.is_spent():
                return
            try:
                self._measure_one(prepared)
            except LaunchError as error:
                self._state.failures[subject.name] = str(error)
            self._state.done += 1

    def _measure_one(self, prepared: BuiltKernels) -> None:
        """Run rounds of target and overhead kernel until the MTSM energy is known well enough.

        Raises:
            LaunchError: A kernel did not run.
            GpuError: The GPU stopped answering.
        """
        runner, criterion = self._state.runner, self._state.criterion
        # One thread, or as many as it takes to execute the instruction at all.
        threads = prepared.subject.instruction.unit.threads
        window_s = self._state.arguments.window_s
        kernels = [runner.calibrated(prepared.kernel(role, 1, threads), window_s) for role in _ROLES]
        records: list[TrialRecord] = []
        least, most = criterion.bounds()
        for repeat in range(most):
            order = kernels if repeat % 2 == 0 else kernels[::-1]
            records += [runner.trial(kernel, repeat) for kernel in order]
            if repeat + 1 < least:
                continue
            found = solve_arafa(records, "mtsm_j")
            if found.n >= 2 and criterion.is_met(found.mean, found.ci95):
                break


def solve_arafa(records: Sequence[TrialRecord], method: str, source: SourceVerdict = UNJUDGED) -> Estimate:
    """Return Eq. 1 by one method over the valid rounds of a subject, J an instruction.

    Args:
        records: The subject's trials.
        method: Column of the method's energy: one of `METHODS`.
        source: What the energy counter says of the run's power source.
    """
    faults = _faults(records, source)
    rounds: dict[int, dict[Role, TrialRecord]] = defaultdict(dict)
    for record in records:
        if record.repeat >= 0 and record.trial_id not in faults:
            rounds[record.repeat][record.role] = record
    energies_j = [
        _equation_1_j(trials[Role.TARGET], trials[Role.OVERHEAD], method)
        for trials in rounds.values()
        if trials.keys() >= set(_ROLES)
    ]
    return estimate([e for e in energies_j if math.isfinite(e)])


def _faults(records: Sequence[TrialRecord], source: SourceVerdict) -> dict[str, tuple[Status, str]]:
    return trial_faults(records, contradicted_trials(records) | objected_trials(records, source))


def arafa_row(subject: Subject, records: Sequence[TrialRecord], source: SourceVerdict = UNJUDGED) -> TableRow:
    """Return the table's row of one subject.

    Args:
        subject: What was measured.
        records: Its trials.
        source: What the energy counter says of the run's power source.
    """
    estimates = {method: solve_arafa(records, method, source) for method in METHODS}
    targets = [r for r in records if r.role is Role.TARGET and r.repeat >= 0]
    overheads = [r for r in records if r.role is Role.OVERHEAD and r.repeat >= 0]
    mtsm = estimates["mtsm_j"]
    faults = _faults(records, source)
    if mtsm.n < 2 and (faults or estimates["counter_j"].n < 2):
        return subject.row(*most_common_fault(faults))
    notes = left_out_note(faults), lost_readings_note([r for r in targets if r.trial_id not in faults])
    row = replace(
        subject.row(Status.OK, "; ".join(filter(None, notes))),
        threads=targets[0].block,
        executions=targets[0].iterations * targets[0].copies,
        sma_pj=estimates["sma_j"].mean * PJ_PER_J,
        papi_pj=estimates["papi_j"].mean * PJ_PER_J,
        mtsm_pj=mtsm.mean * PJ_PER_J,
        mtsm_ci95_pj=mtsm.ci95 * PJ_PER_J,
        counter_pj=estimates["counter_j"].mean * PJ_PER_J,
        latency_cycles=_cycles_per_instruction(targets[0], overheads[0]),
        power_w=nan_mean([r.steady_power_w for r in targets]),
        clock_mhz=nan_mean([r.sm_clock_mhz for r in targets]),
        temperature_c=nan_mean([r.temperature_c for r in targets]),
        repeats=mtsm.n,
    )
    if mtsm.n < 2:
        reason = "MTSM averages readings in watts, and the power source is the energy counter"
        return replace(row, status=Status.NOT_SUPPORTED, reason=reason)
    if abs(mtsm.mean) <= mtsm.ci95:
        bound_nj = (abs(mtsm.mean) + mtsm.ci95) * PJ_PER_J / PJ_PER_NJ
        reason = f"not distinguishable from zero by MTSM; under {bound_nj:.3g} nJ"
        unknown = replace(row, mtsm_pj=math.nan, mtsm_ci95_pj=math.nan)
        return replace(unknown, status=Status.BELOW_RESOLUTION, reason=reason)
    return row


def _equation_1_j(target: TrialRecord, overhead: TrialRecord, method: str) -> float:
    """Return Eq. 1 for one round, J."""
    total_j: float = getattr(target, method)
    overhead_j: float = getattr(overhead, method) * target.iterations / overhead.iterations
    return (total_j - overhead_j) / (target.iterations * target.copies)


def _cycles_per_instruction(target: TrialRecord, overhead: TrialRecord) -> float:
    """Return SM cycles that one copy adds to a pass of the loop, NaN where the kernels gave none."""
    if target.cycles < 0 or overhead.cycles < 0:
        return math.nan
    pass_cycles = target.cycles / target.iterations - overhead.cycles / overhead.iterations
    return pass_cycles / target.copies


PROTOCOL = Arafa()

"""The dynamic protocol's arithmetic: from trials to the energy that an instruction adds.

One pass of the target loop costs E_T = (P_T - P_static(T)) t_T / passes, and the same of the
overhead loop E_O; an instruction adds e = (E_T - E_O) / (N x threads). Static power is subtracted
before the difference, so that a target that merely takes longer than its overhead loop is not
charged for time. The form is Eq. 1 of Arafa et al. (2020) applied to dynamic energy.

E_O is measured once for all rows that share the overhead loop, so that its error is one and the same for
every round of a row. So is that of static power and of a thermometer in whole degrees. All are added to the
rounds' own by Welch and Satterthwaite (`statistics.combined`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ptxbench.analysis.loop_energy import (
    LoopEnergy,
    RunCalibration,
    loop_energy,
    pass_pj_per_w,
    scatter_of,
    shared_by,
)
from ptxbench.analysis.operating_point import STATIC_SUBJECT, kernel_of
from ptxbench.analysis.overhead import Alike
from ptxbench.analysis.row_notes import (
    clock_note,
    fewer_sms_note,
    is_linear,
    left_out_note,
    linearity_note,
    lost_readings_note,
    other_clock_note,
    set_aside_note,
    step_note,
)
from ptxbench.analysis.solved_rows import SolvedRows, Trials, by_subject
from ptxbench.analysis.statistics import UNKNOWN, Estimate, Uncertainty, combined
from ptxbench.analysis.subject import Subject, most_common_fault, nan_mean
from ptxbench.core.condition import OptLevel
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.core.threads import ISSUED_PER_CYCLE, WARP
from ptxbench.storage.schema import PJ_PER_J, Role, TableRow, TrialRecord

# Two rounds are enough where they tell a row to this fraction, with so many degrees of freedom, which only
# the scatter of other kernels gives them: two rounds tell little of drift levels (studies/method/detail.md).
_BY_TWO, _DEGREES_BY_TWO = 0.0035, 2.0
# Rounds from which on what more of them would give is foreseen; and by how much their interval may be
# narrower than by their number alone, as they tell the drift levels better, too (studies/method/detail.md).
_FORESEEN_FROM, _BY_LEVELS = 3, 0.5
_NOTHING = Estimate(math.nan, UNKNOWN, 0)
_BRANCHES = frozenset({"BRA", "BRX", "JMP", "CALL", "RET", "BSSY", "WARPSYNC"})


@dataclass(frozen=True)
class DynamicResult:
    """What the valid trials of one subject say, a thread.

    Attributes:
        energy_pj: Dynamic energy of one instruction from N copies; its interval is that of the rounds.
        energy_2n_pj: The same from 2N copies.
        overhead_pj: What the overhead loop's own rounds leave open, and clocks that were not the stated one.
        static_pj: What P_static leaves open, the same for every round: its fit, and whole degrees of T.
        drift_pj: What is not known of the drift levels at which the loops and the sleeping kernel were,
            beside the mean level of the run: what that leaves open all rows of a run share (`SolvedRows`).
        too_few: Kernels (target, overhead loop) of which not clearly more trials count than are left out.
        faults: Status and reason of every trial that does not count, by trial id.
    """

    energy_pj: Estimate
    energy_2n_pj: Estimate
    overhead_pj: Uncertainty
    static_pj: Uncertainty
    drift_pj: Uncertainty
    too_few: frozenset[Role]
    faults: dict[str, tuple[Status, str]]

    @property
    def overhead_ci95_pj(self) -> float:
        """Half-width of the 95% interval that comes from the overhead loop."""
        return self.overhead_pj.ci95

    @property
    def ci95_pj(self) -> float:
        """Half-width of the 95% interval: rounds, overhead loop, static power and drift together."""
        return combined((self.energy_pj.uncertainty, self.overhead_pj, self.static_pj, self.drift_pj)).ci95

    def lacks(
        self, is_met: Callable[[float, float], bool], most: int, *, more_follows: bool = False
    ) -> frozenset[Role]:
        """Return which kernels (target, overhead loop) need more trials for the row to be done.

        A row is done when its interval is known, enough trials count, and the stopping criterion is met, or
        would not be by what rounds and overhead loop contribute after the most repeats. Otherwise the kernel
        that contributes more to the interval needs trials, and so does each of which too few trials count.

        Args:
            is_met: The stopping criterion: of the energy, pJ, and the half-width of its 95% interval, pJ.
            most: Repeats at most.
            more_follows: Consider only what rounds and overhead loop contribute. All rows share what static
                power and drift contribute, and it shrinks as others are measured: more rounds of one row
                would be in vain.
        """
        own = self.energy_pj
        shared = () if more_follows else (self.static_pj, self.drift_pj)
        interval = combined((own.uncertainty, self.overhead_pj, *shared))
        if _says_enough(own, interval) and is_met(own.mean, interval.ci95):
            return self.too_few
        if _FORESEEN_FROM <= own.n < most:
            repeated = (one.repeated(own.n, most) for one in (own.uncertainty, self.overhead_pj))
            if not is_met(own.mean, _BY_LEVELS * combined(repeated).ci95):
                return self.too_few
        by_overhead = self.overhead_ci95_pj > self.energy_pj.ci95
        return self.too_few | {Role.OVERHEAD if by_overhead else Role.TARGET}

    def of_threads(self, threads: int) -> DynamicResult:
        """Return the result for an instruction that `threads` threads execute together."""
        return replace(
            self,
            energy_pj=self.energy_pj.times(threads),
            energy_2n_pj=self.energy_2n_pj.times(threads),
            overhead_pj=self.overhead_pj.times(threads),
            static_pj=self.static_pj.times(threads),
            drift_pj=self.drift_pj.times(threads),
        )


def _says_enough(rounds: Estimate, interval: Uncertainty) -> bool:
    """Return whether a row may end after the rounds that it had, by its energy and the interval of that."""
    if rounds.n != 2:
        return rounds.n > 2
    return rounds.uncertainty.degrees >= _DEGREES_BY_TWO and interval.ci95 <= _BY_TWO * abs(rounds.mean)


def solve_dynamic(subject: Subject, trials: Trials, common: RunCalibration) -> DynamicResult:
    """Return the energy of one subject.

    Args:
        subject: What was measured.
        trials: Trials of the run by the name of what they measure.
        common: What the rows of the run share.
    """
    own = last_attempt(trials.get(subject.name, ()))
    single = _difference(subject, own, (Role.TARGET, Role.OVERHEAD), trials, common)
    double = _difference(subject, own, (Role.TARGET_2N, Role.OVERHEAD_2N), trials, common)
    return replace(single, energy_2n_pj=double.energy_pj)


def dynamic_row(subject: Subject, trials: Trials, common: RunCalibration, sm_count: int) -> TableRow:
    """Return the table's row of one subject.

    Args:
        subject: What was measured.
        trials: Trials of the run by the name of what they measure.
        common: What the rows of the run share.
        sm_count: Streaming multiprocessors of the GPU.
    """
    result = solve_dynamic(subject, trials, common).of_threads(subject.instruction.unit.threads)
    if result.energy_pj.n < 2:
        return subject.row(*most_common_fault(result.faults))
    if math.isnan(common.static.error_w):
        return subject.row(Status.BELOW_RESOLUTION, "fewer than two sleeping kernels gave the static power")
    own = last_attempt(trials[subject.name])
    target = loop_energy([r for r in own if r.role is Role.TARGET], common)
    overhead = loop_energy(overhead_trials(subject, own[0], Role.OVERHEAD, trials), common)
    first = target.trials[0]
    notes = (
        linearity_note(result.energy_pj, result.energy_2n_pj),
        step_note(target, common.drift),
        clock_note(target, overhead),
        other_clock_note(target),
        fewer_sms_note(trials[subject.name], sm_count),
        left_out_note(result.faults),
        set_aside_note(target.set_aside, len(target.trials)),
        lost_readings_note(target.trials),
    )
    reason = "; ".join(filter(None, notes))
    if not is_linear(result.energy_pj, result.energy_2n_pj):
        return subject.row(Status.NOT_LINEAR, reason)
    row = subject.row(Status.OK, reason)
    added_cycles = (_pass_cycles(target, sm_count) - _pass_cycles(overhead, sm_count)) / first.copies
    row = replace(
        row,
        threads=first.threads,
        executions=first.iterations * first.copies,
        dynamic_pj=result.energy_pj.mean,
        dynamic_ci95_pj=result.ci95_pj,
        issue_cycles=_bounded_cycles(added_cycles / (first.block / WARP), row),
        power_w=nan_mean([r.steady_power_w for r in target.trials]),
        static_w=nan_mean([common.static.at(r.temperature_c, r.start_ns) for r in target.trials]),
        clock_mhz=target.clock_mhz,
        temperature_c=nan_mean([r.temperature_c for r in target.trials]),
        repeats=result.energy_pj.n,
    )
    if not abs(row.dynamic_pj) > row.dynamic_ci95_pj:
        bound_pj = abs(row.dynamic_pj) + row.dynamic_ci95_pj
        reason = f"not distinguishable from zero; under {bound_pj:.3g} pJ"
        return replace(row, dynamic_pj=math.nan, status=Status.BELOW_RESOLUTION, reason=reason)
    return row


def dynamic_rows(subjects: Sequence[Subject], records: Sequence[TrialRecord], gpu: GpuInfo) -> SolvedRows:
    """Return the rows of all subjects of a run that the dynamic protocol measured.

    Args:
        subjects: What was measured.
        records: Trials of the run.
        gpu: The GPU that they ran on.
    """
    trials = by_subject(records)
    shared = shared_by(records, gpu)
    common = {}
    for opt_level in OptLevel:
        loops: dict[str, Sequence[TrialRecord]] = {}
        for subject in subjects:
            if subject.condition.opt_level is not opt_level or not trials.get(subject.name):
                continue
            own = last_attempt(trials[subject.name])
            loops[subject.name] = [r for r in own if r.role is Role.TARGET]
            overhead = overhead_trials(subject, own[0], Role.OVERHEAD, trials)
            loops[overhead[0].subject if overhead else ""] = overhead
        scatter = scatter_of(loop_energy(of_loop, shared) for of_loop in loops.values())
        common[opt_level] = replace(shared, scatter=scatter)
    rows = {s.name: dynamic_row(s, trials, common[s.condition.opt_level], gpu.sm_count) for s in subjects}
    return SolvedRows(rows, shared)


def _bounded_cycles(cycles: float, row: TableRow) -> float:
    """Return the cycles that a copy adds, no fewer than an SM needs to issue its SASS.

    A copy may hide in the waits of the overhead loop, whose time is then subtracted though it overlaps
    (Choi and Vuduc 2012, Eq. 1: times of work that overlaps have a maximum, not a sum).

    Args:
        cycles: Time of the target less that of the overhead loop, SM cycles a copy and warp.
        row: With the SASS of a copy; where that branches not all of it is issued, and there is no bound.
    """
    bases = {word.partition("*")[0].partition(".")[0] for word in row.sass.split()}
    if bases & _BRANCHES or math.isnan(cycles):
        return cycles
    return max(cycles, row.sass_per_ptx / ISSUED_PER_CYCLE)


def _pass_cycles(loop: LoopEnergy, sm_count: int) -> float:
    """Return the SM cycles that a pass of one block takes, NaN where the clock is not known.

    Where an SM runs several blocks, perhaps two at a time, it is the SM's time that they share out.
    """
    waves = loop.trials[0].grid / sm_count
    if waves <= 1:
        return loop.pass_cycles
    return loop.pass_s * loop.clock_mhz * 1e6 / waves


def last_attempt(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the trials of a subject's last attempt: the one on fewer SMs stands for those that throttled."""
    last_grid = min((r.grid for r in records), default=0)
    return [r for r in records if r.grid == last_grid]


def overhead_trials(
    subject: Subject, trial: TrialRecord, role: Role, trials: Trials
) -> Sequence[TrialRecord]:
    """Return the trials of the overhead loop that belongs to a subject's trial."""
    names = subject.overhead_names(role, trial.grid, trial.block)
    return next((trials[name] for name in names if name in trials), ())


def _difference(
    subject: Subject,
    own: Sequence[TrialRecord],
    roles: tuple[Role, Role],
    trials: Trials,
    common: RunCalibration,
) -> DynamicResult:
    """Return (E_T - E_O) / N, one overhead for all rounds."""
    of_role = [r for r in own if r.role is roles[0]]
    target = loop_energy(of_role, common)
    beside = overhead_trials(subject, of_role[0], roles[1], trials) if of_role else ()
    overhead = loop_energy(beside, common)
    faults = target.faults | overhead.faults
    if target.trials and len(overhead.trials) >= 2:
        copies = target.trials[0].copies
        loop = target.estimate(common.scatter)
        slower = target.clock_mhz / overhead.clock_mhz if clock_note(target, overhead) else 1.0
        base = overhead.estimate(common.scatter).times(slower**common.exponent.value)
        rounds = Estimate((loop.mean - base.mean) / copies, loop.uncertainty.times(1 / copies), loop.n)
        error_w = nan_mean([common.static.error_at(t.temperature_c, t.start_ns) for t in target.trials])
        pj_per_w_s = PJ_PER_J / target.trials[0].threads / copies
        fit = Uncertainty(error_w, common.static.degrees).times(target.pass_s - overhead.pass_s)
        readings = [
            common.static.reading_error([t.temperature_c for t in one.trials]).times(one.pass_s)
            for one in (target, overhead)
        ]
        static = combined((fit, *readings)).times(pj_per_w_s)
        level = _level_pj(target, overhead, common).times(1 / copies)
        # One gamma brings all to their clocks: what it is off by partly cancels in the difference.
        moved_pj = loop.mean * target.clock_shift - base.mean * (math.log(slower) + overhead.clock_shift)
        clock = Uncertainty(common.exponent.error * abs(moved_pj))
        beside_pj = combined(
            (base.uncertainty, clock, _other_values(subject, base, beside[0], common))
        ).times(1 / copies)
        loops = zip(roles, (target, overhead), strict=True)
        too_few = frozenset(role for role, one in loops if not one.stands)
        return DynamicResult(rounds, _NOTHING, beside_pj, static, level, too_few, faults)
    return DynamicResult(_NOTHING, _NOTHING, UNKNOWN, UNKNOWN, UNKNOWN, frozenset(roles), faults)


def _other_values(
    subject: Subject, base: Estimate, overhead: TrialRecord, common: RunCalibration
) -> Uncertainty:
    """Return what an overhead loop that was measured on the values of another kind of row leaves open."""
    # Names are hashes of the loop's whole text: none is made in vain.
    own_names = subject.overhead_names(
        overhead.role, overhead.grid, overhead.block, (Alike.BITS, Alike.TYPES)
    )
    is_own = overhead.instruction == subject.instruction.name or overhead.subject in own_names
    return Uncertainty(0.0 if is_own else common.other_values_error * abs(base.mean))


def _level_pj(target: LoopEnergy, overhead: LoopEnergy, common: RunCalibration) -> Uncertainty:
    """Return the uncertainty of E_T - E_O from the drift levels; what the three powers share cancels."""
    static_w = common.static.power_w - common.drift.unfed_w
    longer_pj_per_w = pass_pj_per_w(target.trials[0]) - pass_pj_per_w(overhead.trials[0])
    weights = {
        kernel_of(target.trials[0]): target.fed_pj,
        kernel_of(overhead.trials[0]): -overhead.fed_pj,
        STATIC_SUBJECT: -static_w * longer_pj_per_w,
    }
    doubts = [Uncertainty(one.doubt * one.fed_pj) for one in (target, overhead)]
    return combined((Uncertainty(common.drift.error(weights)), *doubts))

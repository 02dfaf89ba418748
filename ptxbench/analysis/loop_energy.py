"""What one pass of a kernel's loop costs, from its trials at one operating point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ptxbench.analysis.drift import NO_STEPS, Drift, find_drift, find_lowered
from ptxbench.analysis.hmm import LevelPrior
from ptxbench.analysis.operating_point import (
    clock_faults,
    dipped_trials,
    same_operating_point,
    stated_clocks,
)
from ptxbench.analysis.source_check import judge_run, objected_trials
from ptxbench.analysis.static_power import StaticPower, fit_static
from ptxbench.analysis.statistics import Estimate, weighted
from ptxbench.analysis.stuck_sensor import stuck_sensor
from ptxbench.analysis.subject import nan_mean, trial_faults
from ptxbench.analysis.thermal_slope import busy_static
from ptxbench.analysis.variance import NO_PRIOR, Scatter, ScatterPrior, fit_prior, moderated
from ptxbench.catalogue.architecture import Figure, architecture_of
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.status import Status
from ptxbench.storage.schema import PJ_PER_J, Role, TrialRecord

_NO_EXPONENT = Figure(0.0, "every energy is stated at the clock that it was measured at")
# The fits of drift and of the slope of power with temperature go in turns, until the slope stays.
_TURNS = 4
# Less than pieces of a run leave open of it, 0.019 to 0.046 (studies/method/detail.md, "Static power and
# temperature"); half of it changes nothing where it was tried ("Constants of the fit").
_SAME_SLOPE_W_PER_C = 0.01
# Where trials of a kernel disagree the fewer are left out, and may be right, unless so many more count.
_CLEAR_MAJORITY = 2
# A kernel that dips in every trial is measured on, to find one without, where this much of the probability is
# on all of them being off.
_HIDDEN = 0.3


@dataclass(frozen=True)
class RunCalibration:
    """What the rows of a run share.

    Attributes:
        static: Static power, at the mean drift level.
        scatter: Prior of a kernel's scatter from other kernels, as a fraction of its power.
        drift: The drift of each trial.
        dipped: Ids of trials within which the clock dipped.
        drift_step: By how much a step of the SMs' supply changes the power that it feeds, a fraction.
        minority_error: Standard error of a kernel whose trials that count are no majority, a fraction.
        other_values_error: Standard error of an overhead loop on values of another kind of row, a fraction.
        contradicted: Status and reason of valid trials that others show to be wrong, by trial id.
        stated_mhz: Clock at which the energy of a trial is stated that ran at another one, by trial id.
        exponent: gamma of E(f) = E(f0) (f / f0)^gamma.
    """

    static: StaticPower
    scatter: ScatterPrior = NO_PRIOR
    drift: Drift = NO_STEPS
    dipped: frozenset[str] = frozenset()
    drift_step: float = 0.0
    minority_error: float = 0.0
    other_values_error: float = 0.0
    contradicted: Mapping[str, tuple[Status, str]] = field(default_factory=dict)
    stated_mhz: Mapping[str, float] = field(default_factory=dict)
    exponent: Figure = _NO_EXPONENT

    def clock_ratio(self, record: TrialRecord) -> float:
        """Return the clock at which a trial's energy is stated over the one that it ran at."""
        stated_mhz = self.stated_mhz.get(record.trial_id)
        return 1.0 if stated_mhz is None else stated_mhz / record.sm_clock_mhz


def shared_by(records: Sequence[TrialRecord], gpu: GpuInfo, recent: int = 0) -> RunCalibration:
    """Return what the rows of a run share, except the scatter of the loops of an optimization level.

    Args:
        records: All trials of the run.
        gpu: The GPU that they ran on.
        recent: Look for drift steps in so many of the last trials only, and do not judge the source, which
            is quick; 0: in all.
    """
    dynamic = [r for r in records if r.repeat >= 0 and r.protocol == DYNAMIC]
    objected = {} if recent else objected_trials(dynamic, judge_run(records))
    contradicted = _stuck_trials(dynamic) | objected
    as_run = [r for r in dynamic if r.trial_id not in contradicted]
    architecture = architecture_of(gpu.target)
    drift_step = architecture.drift_step.value
    static, drift = fit_static(as_run), NO_STEPS
    clocks = RunCalibration(
        static,
        stated_mhz=stated_clocks(as_run, gpu.max_sm_clock_mhz),
        exponent=architecture.clock_exponent,
    )
    counted = [_at_stated_clock(r, clocks) for r in as_run]
    dipped = dipped_trials(counted)
    unfed_share, limit_w = architecture.unfed_share.value, gpu.power_limit_w
    prior = LevelPrior(
        architecture.level_jump.value, architecture.level_spread.value, architecture.level_creep.value
    )
    lowered = find_lowered(
        counted[-recent:], static, unfed_share=unfed_share, prior=prior, power_limit_w=limit_w
    )
    if lowered:
        static = fit_static(counted, Drift(lowered=lowered).power_w)
    # The levels are told by powers at one temperature, and what a degree makes by powers at one level.
    for turn in range(_TURNS):
        near = drift if drift.level and not recent else None
        drift = find_drift(
            counted[-recent:],
            static,
            dipped,
            near,
            step=0.0 if recent or turn else drift_step,
            unfed_share=unfed_share,
            prior=prior,
            power_limit_w=limit_w,
            lowered=lowered,
        )
        # A step is half a watt of the sleeping kernel's power: so all its trials are taken.
        sure = [r for r in counted if r.role is Role.STATIC or r.trial_id not in drift.unsure]
        sleeping = fit_static(sure, drift.power_w)
        before = static
        static = busy_static(sleeping, sure, drift.power_w, by_levels=bool(drift.level), upper=lowered)
        if static == sleeping or abs(static.slope_w_per_c - before.slope_w_per_c) < _SAME_SLOPE_W_PER_C:
            break
    return replace(
        clocks,
        static=static,
        drift=drift,
        dipped=dipped,
        drift_step=drift_step,
        minority_error=architecture.minority_error.value,
        other_values_error=architecture.other_values_error.value,
        contradicted=contradicted,
    )


def _at_stated_clock(record: TrialRecord, common: RunCalibration) -> TrialRecord:
    """Return a trial as it would have run at the clock at which its energy is stated."""
    ratio = common.clock_ratio(record)
    if ratio == 1.0:
        return record
    static_w = common.static.at(record.temperature_c, record.start_ns)
    faster = ratio ** (1 + common.exponent.value)
    return replace(
        record,
        sm_clock_mhz=record.sm_clock_mhz * ratio,
        elapsed_s=record.elapsed_s / ratio,
        steady_power_w=static_w + (record.steady_power_w - static_w) * faster,
    )


def contradicted_trials(records: Sequence[TrialRecord]) -> dict[str, tuple[Status, str]]:
    """Return status and reason of valid trials that others show to be wrong, by trial id.

    Args:
        records: Trials of a run.
    """
    off = {name: (Status.CLOCK_DRIFT, reason) for name, reason in clock_faults(records).items()}
    return _stuck_trials(records) | off


def _stuck_trials(records: Sequence[TrialRecord]) -> dict[str, tuple[Status, str]]:
    return {name: (Status.SENSOR_IMPLAUSIBLE, reason) for name, reason in stuck_sensor(records).items()}


@dataclass(frozen=True)
class LoopEnergy:
    """What one pass of a kernel's loop costs a thread, from its valid trials at one operating point.

    Attributes:
        energy_pj: Dynamic energy of each trial, shape (n,), pJ.
        weights: How much each counts, shape (n,): less where its drift level is known less well.
        total_pj: Mean energy with the static part: a percent of power is a percent of it.
        pass_s: Mean duration of a pass.
        pass_cycles: SM cycles of a pass, NaN where the kernel gave none.
        trials: Those trials.
        faults: Status and reason of every trial that is not valid, by trial id.
        set_aside: Valid trials left out because their drift level is not known.
        misfits: Those of them that fit no level, though it is known.
        mixed: Whether some of its trials should be left out, too: it scatters in another way than others.
        hidden: Where the clock dipped in all of its trials, so that none would differ from the others if all
            were off alike: how probable that is.
        fed_pj: Mean energy of what the supply of the SMs feeds.
        step_error: Standard error of a trial within which the drift level changed, a fraction.
        minority_error: Standard error of what the supply feeds where no more trials count than are left out.
        clock_mhz: Mean SM clock at which the energies are stated.
        clock_shift: Mean ln of that clock over the one that a trial ran at.
    """

    energy_pj: tuple[float, ...]
    weights: tuple[float, ...]
    total_pj: float
    pass_s: float
    pass_cycles: float
    trials: tuple[TrialRecord, ...]
    faults: dict[str, tuple[Status, str]]
    set_aside: int
    misfits: int
    mixed: bool
    hidden: float
    fed_pj: float
    step_error: float
    minority_error: float
    clock_mhz: float
    clock_shift: float

    def estimate(self, prior: ScatterPrior) -> Estimate:
        """Return the mean energy with its interval."""
        known = NO_PRIOR if self.mixed else prior
        return moderated(self.energy_pj, known, self.power_w, self.total_pj, self.weights)

    @property
    def power_w(self) -> float:
        """Mean power of its trials."""
        return nan_mean([t.steady_power_w for t in self.trials])

    @property
    def stands(self) -> bool:
        """Whether clearly more of its valid trials count than may be the right ones of those left out."""
        few_disagree = is_clear_majority(len(self.trials), self.set_aside, self.misfits)
        return not self.mixed and self.hidden < _HIDDEN and few_disagree

    @property
    def doubt(self) -> float:
        """Standard error of what the supply feeds where the wrong trials may count, as a fraction."""
        minority = 0.0 if self.mixed or len(self.trials) > self.set_aside else self.minority_error
        return max(self.step_error * math.sqrt(self.hidden), minority)

    @property
    def scatter(self) -> Scatter | None:
        """How much its trials scatter, None where there is one, or where others do not scatter so."""
        if len(self.energy_pj) < 2 or self.mixed or self.total_pj == 0:
            return None
        _, variance = weighted(self.energy_pj, self.weights)
        return Scatter(variance / self.total_pj**2, len(self.energy_pj) - 1, self.power_w)


def is_clear_majority(counting: int, set_aside: int, misfits: int) -> bool:
    """Return whether those trials of a kernel that count are hardly the wrong ones.

    One whose level is not known does not count against them, as one that fits no level is; but where levels
    are often unknown they are not what they are taken for either (studies/h200/power.md).

    Args:
        counting: Trials that count.
        set_aside: Valid trials that do not.
        misfits: Those of them that fit no level.
    """
    return counting - misfits >= _CLEAR_MAJORITY and counting > set_aside


def loop_energy(records: Sequence[TrialRecord], common: RunCalibration) -> LoopEnergy:
    """Return what one pass of a kernel's loop costs from its trials; calibration is left out.

    Args:
        records: Trials of one kernel in one launch shape.
        common: What the units of the run share.
    """
    faults = trial_faults(records, common.contradicted)
    valid = [r for r in records if r.repeat >= 0 and r.trial_id not in faults]
    selected = same_operating_point(valid, common.drift.unsure)
    trials = tuple(r for r, keep in zip(valid, selected.kept, strict=True) if keep)
    aside = [r for r, keep in zip(valid, selected.kept, strict=True) if not keep]
    return LoopEnergy(
        tuple(pass_energy_pj(r, common) for r in trials),
        # Where some count that should not, what the others say of their level is not true.
        tuple(1.0 if selected.mixed else common.drift.weight(r) for r in trials),
        nan_mean([r.steady_power_w * pass_pj_per_w(r) for r in trials]),
        nan_mean([r.elapsed_s / r.iterations for r in trials]),
        nan_mean([r.cycles / r.iterations for r in trials if r.cycles >= 0]),
        trials,
        faults,
        len(aside),
        sum(r.trial_id in common.drift.misfits for r in aside),
        selected.mixed,
        _hidden(trials, common),
        nan_mean([(r.steady_power_w - common.drift.unfed_at(r)) * pass_pj_per_w(r) for r in trials]),
        # Such a trial was read at another level than its neighbours: anything up to a step is as likely (GUM
        # 2008, 4.3.7).
        common.drift_step / math.sqrt(3),
        common.minority_error,
        nan_mean([t.sm_clock_mhz * common.clock_ratio(t) for t in trials]),
        nan_mean([math.log(common.clock_ratio(t)) for t in trials]),
    )


def _hidden(trials: Sequence[TrialRecord], common: RunCalibration) -> float:
    """Return how probable it is that all trials of a kernel are off alike by the dips within them."""
    if not trials or any(r.trial_id not in common.dipped for r in trials):
        return 0.0
    return common.drift.off_by_dip.get(trials[0].opt_level, 1.0)


def scatter_of(loops: Iterable[LoopEnergy], known: Iterable[Scatter] = ()) -> ScatterPrior:
    """Return what loops of one level say of a loop's scatter.

    Args:
        loops: Their energies.
        known: How much other loops scatter.
    """
    return fit_prior([*known, *(s for loop in loops if (s := loop.scatter) is not None)])


def pass_energy_pj(record: TrialRecord, common: RunCalibration) -> float:
    """Return the dynamic energy of one pass of a trial's loop, (P - P_static(T)) t / passes, pJ a thread.

    That of a trial at another clock is brought to the stated one by (f / f0)^gamma.
    """
    static_w = common.static.at(record.temperature_c, record.start_ns)
    scale = float(common.clock_ratio(record) ** common.exponent.value)
    return (common.drift.power_w(record) - static_w) * pass_pj_per_w(record) * scale


def pass_pj_per_w(record: TrialRecord) -> float:
    """Return how many pJ a watt costs in one pass of a trial's loop, an active thread."""
    return record.elapsed_s / record.iterations / record.threads * PJ_PER_J

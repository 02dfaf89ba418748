"""By what factor the supply voltage had changed each trial's power, found from all trials of a run.

The supply voltage of an H200 moves in steps of its own (studies/h200/power.md), and each changes the power of
every kernel by about one percent until the next. It goes up where the chip warms and down where it has
cooled some degrees further, so that no temperature tells it. But the kernels of a run come again round after
round, and what changes for all of them at one time is the supply:

    ln(P_i - F - P_slope (T_i - T_0)) = a_k + s_i + noise

for trial i of kernel k, where F is what the supply of the SMs does not feed. s is a level that stays and
jumps (`jumps`); a_k is fitted by expectation and maximization (Dempster et al., J. R. Stat. Soc. B 39, 1977).
s is zero on the mean of the run, so that energies are those of the supply's mean level: the correction takes
scatter away, not power. What a trial is corrected by comes from the other trials alone, so that it cannot
hide its own noise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ptxbench.analysis.clock_dips import Dips
from ptxbench.analysis.drift_fit import Fit, Observations, fit_levels, stretches
from ptxbench.analysis.hmm import LevelPrior
from ptxbench.analysis.large_steps import Lowering, large_steps, lowerings
from ptxbench.analysis.level_covariance import LevelCovariance, level_covariance
from ptxbench.analysis.operating_point import kernel_of, limited_trials
from ptxbench.analysis.static_power import StaticPower
from ptxbench.analysis.statistics import error_of_series
from ptxbench.catalogue.model import is_sparse
from ptxbench.core.arrays import Bools, Floats
from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.status import Status
from ptxbench.storage.schema import Role, TrialRecord

# A trial is set aside where the others tell the level no better than this, or where its own power is more
# probably that of no level that they allow than of one: it saw two.
# What other values give: studies/method/detail.md, "Constants of the fit".
_UNSURE = 0.003
_WRONG = 0.5
# After so long a pause the level may be any.
_APART_S = 1.0
# Fewer trials tell no levels; chosen (same section).
_FEWEST = 20


@dataclass(frozen=True)
class Drift:
    """What the supply's steps did to the power of each trial.

    Attributes:
        unfed_w: Power that the supply of the SMs does not feed, on the mean of the run.
        level: ln of the factor on the rest, by trial id, over the run's mean; a trial that is not there was
            not changed.
        lowered: How trials above the lowest level of a board that made a large step are brought there, by id.
        trial_error: Standard deviation of each trial's level as the other trials tell it, by trial id.
        unsure: Ids of trials whose level is not known, or whose power is of none.
        misfits: Those of them whose power is of none; if they are right, others of the kernel are not.
        level_error: Standard error of the level at which all energies are.
        covariance: How well the levels of kernels are known against it, by what `kernel_of` returns.
        noise: Scatter of one trial that is left, as a fraction of its power; NaN where no steps were found.
        static: Static power with the steps still in it, whose sessions may differ.
        off_by_dip: How many more of the trials in which the clock dipped are off than of others, as a share,
            by optimization level; a level that is not there: nobody knows, it may be all.
    """

    unfed_w: float = 0.0
    level: Mapping[str, float] = field(default_factory=dict)
    lowered: Mapping[str, Lowering] = field(default_factory=dict)
    trial_error: Mapping[str, float] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()
    misfits: frozenset[str] = frozenset()
    level_error: float = 0.0
    covariance: LevelCovariance | None = None
    noise: float = math.nan
    static: StaticPower | None = None
    off_by_dip: Mapping[OptLevel, float] = field(default_factory=dict)

    def unfed_at(self, record: TrialRecord) -> float:
        """Return the power that the supply of the SMs does not feed during a trial, W."""
        return self.unfed_w + (self.static.shift_w(record.start_ns) if self.static else 0.0)

    def power_w(self, record: TrialRecord) -> float:
        """Return a trial's power at the mean drift level, W."""
        level = self.level.get(record.trial_id, 0.0)
        lowering = self.lowered.get(record.trial_id)
        power_w = lowering.of(record.steady_power_w) if lowering else record.steady_power_w
        if level == 0.0:
            return power_w
        unfed_w = self.unfed_at(record)
        return unfed_w + (power_w - unfed_w) * math.exp(-level)

    def weight(self, record: TrialRecord) -> float:
        """Return what a trial counts for beside one whose level is known exactly: inverse variances."""
        level_error = self.trial_error.get(record.trial_id, 0.0)
        if level_error == 0.0:
            return 1.0
        fed = 1 - self.unfed_at(record) / record.steady_power_w
        return 1 / (1 + (fed * level_error / self.noise) ** 2)

    def error(self, weights: Mapping[str, float]) -> float:
        """Return what the levels leave open of a sum of kernels' fed powers, beside what scatter shows.

        Args:
            weights: What ln of each kernel's fed power counts for, by what `kernel_of` returns.
        """
        return self.covariance.hidden_error(weights) if self.covariance else 0.0


NO_STEPS = Drift()


def find_lowered(
    records: Iterable[TrialRecord],
    static: StaticPower,
    *,
    unfed_share: float,
    prior: LevelPrior,
    power_limit_w: float = math.nan,
) -> dict[str, Lowering]:
    """Find the trials above the lowest level of a board that made a large step, and what brings them there.

    Args:
        records: Trials of the run.
        static: Static power, with the steps still in it.
        unfed_share: As in `find_drift`.
        prior: As in `find_drift`.
        power_limit_w: As in `find_drift`.

    Returns:
        By trial id; none where there is no such step, or the trials are too few.
    """
    records = list(records)
    known, trials = _known_trials(records, power_limit_w)
    unfed_w = unfed_share * static.power_w
    if not _can_tell(trials, unfed_w):
        return {}
    observed = _observations(trials, static, unfed_w, frozenset(), prior)
    # From the first sparse product on, if only timed, all of the process is at one upper level.
    sparse_ns = min((r.start_ns for r in records if is_sparse(r.instruction)), default=math.inf)
    since = np.array([r.start_ns >= sparse_ns for r in trials])
    apart = np.where(since, np.cumsum(since) == 1, observed.after_pause)
    above = large_steps(observed.log_power, observed.kernel, observed.informative, apart)
    # A trial at the power limit draws more, too, at the clock that it has.
    return lowerings(known, _as_before(known, trials, above), unfed_w) if above.any() else {}


def find_drift(
    records: Iterable[TrialRecord],
    static: StaticPower,
    dipped: Collection[str],
    near: Drift | None = None,
    *,
    step: float = 0.0,
    unfed_share: float,
    prior: LevelPrior,
    power_limit_w: float = math.nan,
    lowered: Mapping[str, Lowering] | None = None,
) -> Drift:
    """Find the steps of the supply in the trials of a run.

    Args:
        records: Trials of the run.
        static: Static power, with the steps still in it.
        dipped: Ids of trials within which the clock dipped: they may be of no one level.
        near: What was found with another static power: the likelier of a fit near to it and of one by itself
            counts.
        step: Size of a step, a fraction, to look for levels that go with the temperature, too; takes two to
            three times as long. 0: do not.
        power_limit_w: The GPU's power limit, NaN where it is not known.
        unfed_share: Part of the static power that the supply of the SMs does not feed.
        prior: How levels of this GPU follow each other.
        lowered: What `find_lowered` returned for these trials.

    Returns:
        `NO_STEPS` where the trials are explained as well without steps; where they are too few, or none is at
        a level that is sure, the same but for those with a dip, of which nobody knows the level.
    """
    _, trials = _known_trials(records, power_limit_w)
    unfed_w = unfed_share * static.power_w
    lowered = lowered or {}
    none = replace(NO_STEPS, lowered=lowered) if lowered else NO_STEPS
    unknown = replace(none, unsure=frozenset(dipped), misfits=frozenset(dipped)) if dipped else none
    if not _can_tell(trials, unfed_w):
        return unknown
    observed = _observations([_lower(r, lowered) for r in trials], static, unfed_w, dipped, prior)
    if np.count_nonzero(observed.informative) < _FEWEST:
        return unknown
    levels = None if near is None else np.array([_known_level(near, r) for r in trials])
    found = fit_levels(observed, levels, step=step)
    if found is None:
        return replace(none, off_by_dip=dict.fromkeys(OptLevel, 0.0)) if dipped else none
    others = found.levels.others
    wrong = observed.informative & (found.levels.wrong > _WRONG)
    unsure = (found.levels.others_error > _UNSURE) | wrong
    telling = others[observed.informative & ~unsure]
    if not len(telling):
        return unknown
    return Drift(
        unfed_w=unfed_w,
        level=_by_id(trials, others - telling.mean()),
        lowered=lowered,
        trial_error=_by_id(trials, found.levels.others_error),
        unsure=_ids(trials, unsure),
        misfits=_ids(trials, wrong),
        level_error=error_of_series(telling),
        covariance=_covariance(trials, observed, found, unsure),
        noise=found.noise,
        static=static,
        off_by_dip=found.dips.excess,
    )


def _known_trials(
    records: Iterable[TrialRecord], power_limit_w: float
) -> tuple[list[TrialRecord], list[TrialRecord]]:
    """Return the trials whose power is known, in the order of time, and those that tell of the supply."""
    dynamic = (r for r in records if r.repeat >= 0 and r.protocol == DYNAMIC)
    known = [r for r in dynamic if r.status is Status.OK and math.isfinite(r.steady_power_w)]
    known.sort(key=lambda r: r.start_ns)
    # At the power limit it is the clock that gives way.
    limited = limited_trials(known, power_limit_w)
    return known, [r for r in known if r.trial_id not in limited]


def _can_tell(trials: Sequence[TrialRecord], unfed_w: float) -> bool:
    return len(trials) >= _FEWEST and 0 <= unfed_w < min(r.steady_power_w for r in trials)


def _as_before(known: Sequence[TrialRecord], trials: Sequence[TrialRecord], above: Floats) -> Floats:
    """Return what is known of some trials for all of them: as of the one before."""
    at = np.searchsorted([r.start_ns for r in trials], [r.start_ns for r in known], side="right") - 1
    return np.asarray(above[np.maximum(at, 0)])


def _lower(record: TrialRecord, lowered: Mapping[str, Lowering]) -> TrialRecord:
    lowering = lowered.get(record.trial_id)
    return replace(record, steady_power_w=lowering.of(record.steady_power_w)) if lowering else record


def _known_level(drift: Drift, record: TrialRecord) -> float:
    return math.nan if record.trial_id in drift.unsure else drift.level.get(record.trial_id, math.nan)


def _ids(trials: Sequence[TrialRecord], chosen: Bools) -> frozenset[str]:
    return frozenset(trial.trial_id for trial, is_so in zip(trials, chosen, strict=True) if is_so)


def _by_id(trials: Sequence[TrialRecord], values: Floats) -> dict[str, float]:
    return {trial.trial_id: float(value) for trial, value in zip(trials, values, strict=True)}


def _observations(
    trials: Sequence[TrialRecord],
    static: StaticPower,
    unfed_w: float,
    dipped: Collection[str],
    prior: LevelPrior,
) -> Observations:
    power_w = np.array([r.steady_power_w for r in trials])
    _, kernel = np.unique([kernel_of(r) for r in trials], return_inverse=True)
    warmer_c = np.nan_to_num(np.array([r.temperature_c for r in trials]) - static.temperature_c)
    slope = static.slope_w_per_c if math.isfinite(static.slope_w_per_c) else 0.0
    busy = np.array([r.role is not Role.STATIC for r in trials])
    shift_w = np.array([static.shift_w(r.start_ns) for r in trials])
    fed_w = np.maximum(power_w - unfed_w - shift_w - slope * warmer_c, 0.1 * power_w)
    began_s = np.array([r.start_ns for r in trials]) / 1e9
    ended_s = np.array([r.end_ns for r in trials]) / 1e9
    return Observations(
        np.log(fed_w),
        power_w / fed_w,
        kernel,
        busy & (np.bincount(kernel)[kernel] > 1),
        np.concatenate(([True], began_s[1:] - ended_s[:-1] > _APART_S)),
        Dips.of(trials, dipped),
        warmer_c,
        prior,
    )


def _covariance(
    trials: Sequence[TrialRecord], observed: Observations, fit: Fit, unsure: Bools
) -> LevelCovariance:
    """Return the covariance of the levels of the kernels whose levels are known."""
    sure = np.flatnonzero(~unsure)
    mean = fit.levels.mean[sure]
    apart = np.diff(np.cumsum(observed.after_pause)[sure], prepend=0).astype(bool)
    return level_covariance(
        [kernel_of(trials[int(n)]) for n in sure],
        stretches(mean, apart),
        observed.informative[sure],
        fit.noise * float(observed.power_ratio[sure].mean()),
        float(mean.std()) + fit.noise,
    )

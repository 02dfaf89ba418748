"""What one pass of a kernel's loop costs, from its trials at one operating point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.measure.operating_point import cold_trials, full_clock_mhz, same_operating_point
from ptxbench.measure.scatter import NO_PRIOR, Scatter, ScatterPrior, fit_prior, moderated
from ptxbench.measure.static import StaticPower, fit_static
from ptxbench.measure.statistics import Estimate
from ptxbench.measure.unit import nan_mean, trial_faults
from ptxbench.status import Status
from ptxbench.store.schema import Role, TrialRecord

_PICO = 1e12


@dataclass(frozen=True)
class Common:
    """What the units of a run share.

    Attributes:
        static: Static power.
        scatter: What other kernels say of a kernel's scatter, as a fraction of its power.
        full_clock_mhz: SM clock of undisturbed kernels, NaN where it is not known.
        cold: Ids of trials that a colder kernel ran before.
    """

    static: StaticPower
    scatter: ScatterPrior = NO_PRIOR
    full_clock_mhz: float = math.nan
    cold: frozenset[str] = frozenset()


def shared_by(records: Sequence[TrialRecord]) -> Common:
    """Return what the units of a run share, but for the scatter of a level's loops.

    Args:
        records: All trials of the run.
    """
    return Common(
        fit_static(records),
        full_clock_mhz=full_clock_mhz(
            [r.sm_clock_mhz for r in records if r.repeat >= 0 and r.role is not Role.STATIC]
        ),
        cold=cold_trials(records),
    )


@dataclass(frozen=True)
class LoopEnergy:
    """What one pass of a kernel's loop costs a thread, from its valid trials at one operating point.

    Attributes:
        energy_pj: Dynamic energy of each trial, shape (n,), pJ.
        total_pj: Mean energy with the static part: a percent of power is a percent of it.
        pass_s: Mean duration of a pass.
        pass_cycles: SM cycles of a pass, NaN where the kernel gave none.
        trials: Those trials.
        faults: Status and reason of every trial that is not valid, by trial id.
        on_cold_silicon: Valid trials left out because a colder kernel ran before them.
        at_lower_clock: Valid trials left out because the SM clock dipped.
    """

    energy_pj: tuple[float, ...]
    total_pj: float
    pass_s: float
    pass_cycles: float
    trials: tuple[TrialRecord, ...]
    faults: dict[str, tuple[Status, str]]
    on_cold_silicon: int
    at_lower_clock: int

    def estimate(self, prior: ScatterPrior) -> Estimate:
        """Return the mean energy with its interval."""
        return moderated(self.energy_pj, prior, self.power_w, self.total_pj)

    @property
    def clock_mhz(self) -> float:
        """Mean SM clock of its trials."""
        return nan_mean([t.sm_clock_mhz for t in self.trials])

    @property
    def power_w(self) -> float:
        """Mean power of its trials."""
        return nan_mean([t.steady_power_w for t in self.trials])

    @property
    def scatter(self) -> Scatter | None:
        """How much its trials scatter, None for one trial."""
        if len(self.energy_pj) < 2:
            return None
        variance = float(np.var(self.energy_pj, ddof=1)) / self.total_pj**2
        return Scatter(variance, len(self.energy_pj) - 1, self.power_w)


def loop_energy(records: Sequence[TrialRecord], common: Common) -> LoopEnergy:
    """Return what one pass of a kernel's loop costs from its trials; calibration is left out.

    Args:
        records: Trials of one kernel in one launch shape.
        common: Static power and full clock of the run.
    """
    faults = trial_faults(records)
    valid = [r for r in records if r.repeat >= 0 and r.trial_id not in faults]
    selected = same_operating_point(valid, common.cold, common.full_clock_mhz)
    trials = tuple(r for r, keep in zip(valid, selected.kept, strict=True) if keep)
    return LoopEnergy(
        tuple(pass_energy_pj(r, common.static) for r in trials),
        nan_mean([r.steady_power_w * pass_pj_per_w(r) for r in trials]),
        nan_mean([r.elapsed_s / r.iterations for r in trials]),
        nan_mean([r.cycles / r.iterations for r in trials if r.cycles >= 0]),
        trials,
        faults,
        selected.on_cold_silicon,
        selected.at_lower_clock,
    )


def scatter_of(loops: Iterable[LoopEnergy], known: Iterable[Scatter] = ()) -> ScatterPrior:
    """Return what loops of one level say of a loop's scatter.

    Args:
        loops: Their energies.
        known: How much other loops scatter.
    """
    return fit_prior([*known, *(s for loop in loops if (s := loop.scatter) is not None)])


def pass_energy_pj(record: TrialRecord, static: StaticPower) -> float:
    """Return the dynamic energy of one pass of a trial's loop, (P - P_static(T)) t / passes, pJ a thread."""
    return (record.steady_power_w - static.at(record.temperature_c)) * pass_pj_per_w(record)


def pass_pj_per_w(record: TrialRecord) -> float:
    """Return how many pJ a watt costs in one pass of a trial's loop, a thread."""
    return record.elapsed_s / record.iterations / (record.grid * record.block) * _PICO

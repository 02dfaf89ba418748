"""What lower clocks cost, from kernels of a run that the power limit slowed down: power capping.

The power limit makes a kernel that fills the chip run at a lower clock than on fewer SMs. No setting is
needed for such (clock, power) pairs. They all lie at the limit, so the energy of one pass of the loop is
compared instead: it goes with the voltage squared. Few clocks come of that: too few for Eq. 3 of Schoonhoven
et al. (2022), whose ridge point needs seven of one kernel. A power law over all kernels stands in for it
(`PowerLaw`), whose exponent is fitted here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.loop_energy import RunCalibration, pass_energy_pj
from ptxbench.analysis.static_power import fit_static
from ptxbench.core.condition import DYNAMIC
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.core.gpu_settings import CLOCK_STEP_MHZ
from ptxbench.core.status import Status
from ptxbench.model.clocks.law import Demand, PowerLaw, best_clock
from ptxbench.model.clocks.ridge import FEWEST_CLOCKS, PowerSample, Ridge, fit_ridge
from ptxbench.model.solved import ClockExponent
from ptxbench.sensors.kernel_run import POWER_CAP
from ptxbench.storage.schema import Role, TrialRecord

# Trials closer than this to the clock at which the same kernel runs freely are no evidence of a lower one.
_SLOWED = 0.98
# Cycles of a pass may differ by so much where a kernel is bound by the SM clock.
_SAME_CYCLES = 0.03
# Chosen.
_MIN_TRIALS = 3
_UNKNOWN = Estimate(math.nan, math.nan)


@dataclass(frozen=True)
class CappedKernel:
    """One kernel at the clocks that the power limit made.

    Attributes:
        instruction: Catalogue name.
        opt_level: Optimization level of the assembler.
        pattern: Operand pattern.
        role: Which kernel of the row.
        samples: Power at each clock, scaled to the whole chip: static power, and dynamic power times the
            threads of the largest launch over those of the trial.
        clocks: How many clocks they are, in steps of 15 MHz.
        free_mhz: Mean clock of its trials below the limit.
        best_mhz: Predicted clock of least energy within the clocks of the kernel, with its 95% interval;
            NaN where the energy does not change with the clock beyond the interval of gamma.
        saved: Predicted share of the energy that this saves against the clock `free_mhz`, likewise.
        at_lowest: Whether that is the kernel's lowest clock, so that the best may lie below it.
    """

    instruction: str
    opt_level: str
    pattern: str
    role: str
    samples: tuple[PowerSample, ...]
    clocks: int
    free_mhz: float
    best_mhz: Estimate
    saved: Estimate
    at_lowest: bool


@dataclass(frozen=True)
class PowerCapping:
    """What a run tells of clocks without a setting; every best clock is predicted, not measured.

    Attributes:
        verdict: One sentence.
        ridge: The fit, where one kernel ran at seven clocks or more.
        gamma: Exponent of the energy in the clock with its 95% interval.
        range_mhz: Lowest and highest clock of the kernels.
        static_w: Static power.
        kernels: The kernels that are bound by the SM clock and ran 2% below it, most clocks first.
    """

    verdict: str
    ridge: Ridge | None
    gamma: Estimate
    range_mhz: tuple[float, float]
    static_w: float
    kernels: tuple[CappedKernel, ...]


def fit_power_capping(records: Sequence[TrialRecord]) -> PowerCapping:
    """Return what the trials under the power limit tell of lower clocks.

    Args:
        records: All trials of a run.

    Raises:
        InputError: Too few trials were slowed by the power limit, or there is no static power.
    """
    common = RunCalibration(fit_static([r for r in records if r.protocol == DYNAMIC and r.repeat >= 0]))
    groups = [
        (free, slowed)
        for free, all_slowed in slowed_kernels(records)
        if (slowed := [t for t in all_slowed if t.throttle_reasons & POWER_CAP])
        and min(t.sm_clock_mhz for t in slowed) < _SLOWED * _mean_mhz(free)
        and _is_bound_by_clock([*free, *slowed])
    ]
    kept = [trial for free, slowed in groups for trial in (*free, *slowed)]
    exponent = clock_exponent(kept, common) if kept and math.isfinite(common.static.power_w) else None
    if exponent is None:
        raise InputError(
            "the run does not tell what a lower clock costs: the power limit slowed fewer than"
            f" {_MIN_TRIALS} trials of kernels that are bound by the SM clock by 2% against their free clock;"
            " name a run with matrix instructions (mma, wgmma) by the dynamic protocol, or give `samples`"
        )
    gamma = Estimate(exponent.gamma, COVERAGE_FACTOR * exponent.error)
    clocks = [trial.sm_clock_mhz for trial in kept]
    range_mhz = min(clocks), max(clocks)
    kernels = sorted(
        (_kernel(free, slowed, common, exponent) for free, slowed in groups),
        key=lambda kernel: (-kernel.clocks, kernel.instruction, kernel.opt_level, kernel.role),
    )
    most = kernels[0]
    ridge = fit_ridge(most.samples) if most.clocks >= FEWEST_CLOCKS else None
    return PowerCapping(
        verdict=ridge.verdict if ridge else _verdict(most, gamma, range_mhz),
        ridge=ridge,
        gamma=gamma,
        range_mhz=range_mhz,
        static_w=common.static.power_w,
        kernels=tuple(kernels),
    )


def _is_bound_by_clock(trials: Sequence[TrialRecord]) -> bool:
    """Tell whether a pass takes the same cycles at every clock and on every number of SMs."""
    cycles = [t.elapsed_s / t.iterations * t.sm_clock_mhz for t in trials]
    return max(cycles) <= (1 + _SAME_CYCLES) * min(cycles)


def _kernel(
    free: Sequence[TrialRecord],
    slowed: Sequence[TrialRecord],
    common: RunCalibration,
    exponent: ClockExponent,
) -> CappedKernel:
    threads = max(t.threads for t in (*free, *slowed))
    static_w = common.static.power_w
    samples = tuple(
        PowerSample(t.sm_clock_mhz, static_w + _whole_chip_w(t, common, threads)) for t in (*free, *slowed)
    )
    free_mhz, lowest_mhz = _mean_mhz(free), min(sample.clock_mhz for sample in samples)
    demand = Demand(
        clocked_j=float(np.mean([_whole_chip_w(t, common, threads) for t in free])),
        dram_j=0.0,
        static_w=static_w,
        time_s=1.0,
        follows_clock=True,
        law=PowerLaw(exponent.gamma, exponent.error, lowest_mhz / free_mhz),
    )
    best = best_clock(demand, free_mhz)
    told = exponent.gamma > COVERAGE_FACTOR * exponent.error
    first = free[0]
    return CappedKernel(
        instruction=first.instruction,
        opt_level=first.opt_level,
        pattern=first.operands,
        role=first.role,
        samples=samples,
        clocks=len({round(sample.clock_mhz / CLOCK_STEP_MHZ) for sample in samples}),
        free_mhz=free_mhz,
        best_mhz=best.clock_mhz if told else _UNKNOWN,
        saved=best.saved if told else _UNKNOWN,
        at_lowest=told and best.at_lowest,
    )


def _mean_mhz(trials: Sequence[TrialRecord]) -> float:
    return float(np.mean([t.sm_clock_mhz for t in trials]))


def _whole_chip_w(trial: TrialRecord, common: RunCalibration, threads: int) -> float:
    """Return the dynamic power of a trial if as many threads ran as in the largest launch, W."""
    pass_j = 1e-12 * pass_energy_pj(trial, common)
    return pass_j * threads * trial.iterations / trial.elapsed_s


def _verdict(most: CappedKernel, gamma: Estimate, range_mhz: tuple[float, float]) -> str:
    span = f"[{range_mhz[0]:.0f}, {range_mhz[1]:.0f}] MHz"
    few = (
        f"no ridge can be told within {span}: no kernel ran at more than {most.clocks} clocks, and"
        f" {FEWEST_CLOCKS} are needed"
    )
    if gamma.value - gamma.uncertainty > 0:
        return f"{few}; the voltage is not flat there, because the energy of a pass falls with the clock"
    return f"{few}; the energy of a pass does not change with the clock beyond its interval"


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
            groups[record.cubin_sha256, record.kernel, record.operands].append(record)
    both = (
        ([t for t in trials if t.status is Status.OK], [t for t in trials if t.status is Status.THROTTLED])
        for trials in groups.values()
    )
    return [(free, slowed) for free, slowed in both if free and slowed]


def clock_exponent(records: Sequence[TrialRecord], common: RunCalibration) -> ClockExponent | None:
    """Return gamma of all trials that the limit slowed (`PowerLaw.fitted`), at least 0.

    Args:
        records: All trials of a run.
        common: What the units of the run share (`shared_by`).

    Returns:
        None where fewer than three trials were slowed by at least 2% while the same kernel also ran freely.
    """
    ratios, scales = [], []
    for free, slowed in slowed_kernels(records):
        energy_pj = float(np.mean([pass_energy_pj(t, common) for t in free]))
        for trial in slowed:
            ratio = trial.sm_clock_mhz / _mean_mhz(free)
            if ratio < _SLOWED and pass_energy_pj(trial, common) > 0 < energy_pj:
                ratios.append(ratio)
                scales.append(pass_energy_pj(trial, common) / energy_pj)
    if len(ratios) < _MIN_TRIALS:
        return None
    law = PowerLaw.fitted(ratios, scales)
    return ClockExponent(max(law.gamma, 0.0), law.gamma_error, len(ratios), law.lowest_ratio)

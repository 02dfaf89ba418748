"""The dynamic protocol: the energy that an instruction adds, with the whole chip at work.

One pass of the target loop costs E_T = (P_T - P_static(T)) t_T / passes, and the same of the
overhead loop E_O; an instruction adds e = (E_T - E_O) / (N x threads). Static power is subtracted
before the difference, so that a target that merely takes longer than its overhead loop is not
charged for time. The form is Eq. 1 of Arafa et al. (2020) applied to dynamic energy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ptxbench.errors import LaunchError
from ptxbench.gpu.protocol import Cubin, OptLevel
from ptxbench.measure.bench import Bench, Work
from ptxbench.measure.record import TrialPlan
from ptxbench.measure.static import StaticPower, fit_static
from ptxbench.measure.statistics import Estimate, estimate
from ptxbench.measure.unit import (
    Unit,
    by_round,
    cycles_per_instruction,
    most_common_fault,
    nan_mean,
    trial_faults,
    valid_pair,
)
from ptxbench.status import Status
from ptxbench.store.manifest import RunArguments
from ptxbench.store.schema import Protocol, Role, TableRow, TrialRecord

# One block an SM, in step by its barrier. At O3 32 warps of several chains each keep the pipes full; at
# O0 every warp waits some 15 cycles after each instruction, and with more than two warps a scheduler
# they collide in ways that differ by SM, so that some SMs end long before the others.
BLOCK = {OptLevel.O0: 256, OptLevel.O3: 1024}
WARP = 32
# Where the GPU throttles, the unit is begun again on so many of its SMs.
_SHARES = (1.0, 0.75, 0.5, 0.25)
# Repeats of one attempt are numbered from this times the attempt.
_ATTEMPT = 1000
# N and 2N may differ by this much, or by what their intervals allow, before the row says so.
_LINEARITY = 0.02
_PICO = 1e12
_STUDENT_LARGE = 1.96


@dataclass(frozen=True)
class DynamicResult:
    """What the valid rounds of one unit say, a thread.

    Attributes:
        energy_pj: Dynamic energy of one instruction from N copies.
        energy_2n_pj: The same from 2N copies.
        static_error_pj: Standard error that comes from P_static, the same for every round.
    """

    energy_pj: Estimate
    energy_2n_pj: Estimate
    static_error_pj: float

    @property
    def ci95_pj(self) -> float:
        """Half-width of the 95% interval, rounds and static power together."""
        return math.hypot(self.energy_pj.ci95, _STUDENT_LARGE * self.static_error_pj)

    def of_threads(self, threads: int) -> DynamicResult:
        """Return the result for an instruction that `threads` threads execute together."""
        return DynamicResult(
            self.energy_pj.times(threads), self.energy_2n_pj.times(threads), self.static_error_pj * threads
        )


def measure_dynamic(bench: Bench, unit: Unit, sleep: Cubin, arguments: RunArguments) -> None:
    """Run the rounds of one unit until its energy is precise enough.

    Rounds alternate between target first and overhead first, so that drift cancels. The
    sleeping kernel runs once in each round, right after the hot kernels. Where the GPU throttles in
    the first round, the unit is begun again on fewer SMs.

    Args:
        bench: Where trials run.
        unit: What is measured.
        sleep: Module of the sleeping kernel.
        arguments: Precision, repeats and window asked for.

    Raises:
        LaunchError: A kernel did not run.
        GpuError: The GPU stopped answering.
    """
    for attempt, share in enumerate(_SHARES):
        grid = max(1, round(share * bench.gpu.info.sm_count))
        first = attempt * _ATTEMPT
        works = _calibrated_works(bench, unit, sleep, grid, first, arguments.window_s)
        if _measure_rounds(bench, works, first, arguments):
            return


def _measure_rounds(bench: Bench, works: Sequence[Work], first: int, arguments: RunArguments) -> bool:
    """Run the rounds of one attempt; return False where the GPU throttles in the first one."""
    records: list[TrialRecord] = []
    for done in range(arguments.max_repeats):
        order = works if done % 2 == 0 else [*reversed(works[:-1]), works[-1]]
        records += [bench.trial(work, first + done) for work in order]
        if done == 0 and any(r.status is Status.THROTTLED for r in records):
            return False
        if done + 1 >= arguments.min_repeats:
            # Trials that a resumed run holds already of what comes later must not change when to stop.
            so_far = [r for r in bench.folder.records() if r.order <= records[-1].order]
            result = solve_dynamic(records, fit_static(so_far))
            if result.energy_pj.precise(arguments.precision):
                break
    return True


def solve_dynamic(records: Sequence[TrialRecord], static: StaticPower) -> DynamicResult:
    """Return the energy of one unit from its trials.

    Args:
        records: The unit's trials.
        static: Static power of the run.
    """
    faults = trial_faults(records)
    energies_pj, doubles_pj, errors_pj = [], [], []
    for trials in by_round(records).values():
        pair = valid_pair(trials, Role.TARGET, (Role.OVERHEAD,), faults)
        double = valid_pair(trials, Role.TARGET_2N, (Role.OVERHEAD_2N, Role.OVERHEAD), faults)
        if pair:
            energies_pj.append(_difference_pj(*pair, static))
            errors_pj.append(_static_error_pj(*pair, static))
        if double:
            doubles_pj.append(_difference_pj(*double, static))
    return DynamicResult(estimate(energies_pj), estimate(doubles_pj), nan_mean(errors_pj))


def dynamic_row(unit: Unit, records: Sequence[TrialRecord], static: StaticPower, sm_count: int) -> TableRow:
    """Return the table's row of one unit.

    Args:
        unit: What was measured.
        records: Its trials.
        static: Static power of the run.
        sm_count: Streaming multiprocessors of the GPU.
    """
    # A later attempt, on fewer SMs, stands for the ones that throttled.
    last_grid = min((r.grid for r in records), default=0)
    records = [r for r in records if r.grid == last_grid]
    result = solve_dynamic(records, static).of_threads(unit.module.instruction.unit.threads)
    targets = [r for r in records if r.role is Role.TARGET and r.repeat >= 0]
    if result.energy_pj.n < 2:
        status, reason = most_common_fault(trial_faults(records))
        return unit.row(status, reason)
    if math.isnan(static.error_w):
        return unit.row(Status.BELOW_RESOLUTION, "fewer than two sleeping kernels gave the static power")
    overheads = [r for r in records if r.role is Role.OVERHEAD and r.repeat >= 0]
    threads = targets[0].grid * targets[0].block
    warps_per_sm = threads / WARP / min(targets[0].grid, sm_count)
    row = replace(
        unit.row(Status.OK, _linearity_note(result)),
        threads=threads,
        count=targets[0].iterations * targets[0].copies,
        dynamic_pj=result.energy_pj.mean,
        dynamic_ci95_pj=result.ci95_pj,
        cycles=cycles_per_instruction(targets[0], overheads[0]) / warps_per_sm,
        power_w=nan_mean([r.steady_power_w for r in targets]),
        static_w=nan_mean([static.at(r.temperature_c) for r in targets]),
        clock_mhz=nan_mean([r.sm_clock_mhz for r in targets]),
        temperature_c=nan_mean([r.temperature_c for r in targets]),
        repeats=result.energy_pj.n,
    )
    if not abs(row.dynamic_pj) > row.dynamic_ci95_pj:
        bound_pj = abs(row.dynamic_pj) + row.dynamic_ci95_pj
        reason = f"not distinguishable from zero; under {bound_pj:.3g} pJ"
        return replace(row, dynamic_pj=math.nan, status=Status.BELOW_RESOLUTION, reason=reason)
    return row


def _calibrated_works(
    bench: Bench, unit: Unit, sleep: Cubin, grid: int, first: int, window_s: float
) -> list[Work]:
    """Return target, 2N, their overheads and, last, the sleeping kernel, each filling `window_s`."""
    block = unit.module.instruction.block or BLOCK[unit.module.opt_level]
    roles = [Role.TARGET, Role.TARGET_2N, Role.OVERHEAD]
    if unit.module.instruction.companions:
        roles.append(Role.OVERHEAD_2N)
    works = []
    for role in roles:
        if not bench.gpu.blocks_per_sm(unit.module.cubin, role, block):
            raise LaunchError(f"the {role} kernel needs more registers than {block} threads can have")
        works.append(unit.work(role, grid, block))
    plan = TrialPlan("static", OptLevel.O3, Protocol.DYNAMIC, "zeros", Role.STATIC, 1, unit.name)
    chip = replace(works[0], grid=bench.gpu.info.sm_count, block=BLOCK[OptLevel.O3])
    works.append(replace(chip, plan=plan, cubin=sleep))
    return [bench.calibrated(work, window_s, first) for work in works]


def _difference_pj(target: TrialRecord, overhead: TrialRecord, static: StaticPower) -> float:
    """Return (E_T - E_O) / (N x threads), dynamic energies of one pass, pJ a thread."""
    pass_j = _dynamic_pass_j(target, static) - _dynamic_pass_j(overhead, static)
    return pass_j / (target.copies * target.grid * target.block) * _PICO


def _dynamic_pass_j(record: TrialRecord, static: StaticPower) -> float:
    """Return the dynamic energy of one pass of a kernel's loop over all threads, J."""
    dynamic_w = record.steady_power_w - static.at(record.temperature_c)
    return dynamic_w * record.elapsed_s / record.iterations


def _static_error_pj(target: TrialRecord, overhead: TrialRecord, static: StaticPower) -> float:
    """Return what an error of one sigma in P_static does to the difference, pJ a thread."""
    pass_s = target.elapsed_s / target.iterations - overhead.elapsed_s / overhead.iterations
    error_j = static.error_at(target.temperature_c) * abs(pass_s)
    return error_j / (target.copies * target.grid * target.block) * _PICO


def _linearity_note(result: DynamicResult) -> str:
    """Return a sentence where N and 2N copies disagree by more than their intervals, else ""."""
    n, double = result.energy_pj, result.energy_2n_pj
    gap_pj = abs(double.mean - n.mean)
    if not gap_pj > max(_LINEARITY * abs(n.mean), math.hypot(n.ci95, double.ci95)):
        return ""
    return f"2N copies give {double.mean:.4g} pJ, {100 * (double.mean / n.mean - 1):+.1f}%"

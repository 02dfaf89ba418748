"""Fits the terms of an estimate to a board: factors on the terms of a table, by kernels that span them.

For kernel k at clock ratio r with dynamic energy E_k = (P - P_static(T)) t a launch:

    E_k = r^gamma (x_op Z_k + sum_g x_g F_kg + P_active t) + sum_d x_d F_kd

Z_k is the energy of its opcodes by the table, F_kg what the terms of group g say of its bytes, accesses or
multiply-adds, d those of DRAM, whose clock is its own. A group holds what a stream always has together, so
that its terms keep the ratio that they had. All but gamma is linear and not negative. Each kernel weighs the
same, relative to its energy. A factor is drawn to 1 by a standard error of 10, so that what no kernel tells
stays as it was.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

import numpy as np

from ptxbench.analysis.static_power import StaticPower
from ptxbench.core.arrays import Floats
from ptxbench.core.distributions import student_quantile
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.model.estimate import dynamic_parts
from ptxbench.model.fit_kernel import (
    GAMMAS,
    RELATIVE,
    SLOWED,
    FitKernel,
    gamma_error,
    solve_drawn,
    weighted_equations,
)
from ptxbench.model.fit_time import TimedKernel, level_rates, tensor_rates
from ptxbench.model.leave_out import can_be_predicted, left_out_errors
from ptxbench.model.opcode_energies import RANDOM, ZEROS, OpcodeEnergies
from ptxbench.model.tensor import multiply_adds, tensor_kind
from ptxbench.model.terms import ByteEnergy, TensorEnergy, Terms, TimeTerms
from ptxbench.model.work import Access, Activity, Level
from ptxbench.storage.schema import J_PER_PJ

FILE = "calibration.json"
OPCODES, ACTIVE = "opcodes", "active chip"
DRAM = "DRAM"
# Terms that no stream tells apart: what comes from L2 passes the crossbar, and a line is asked for.
GROUPS: Mapping[Level | Access, str] = {
    Level.L1: "L1",
    Access.L1_WAVEFRONT: "L1",
    Level.SHARED: "shared",
    Level.CROSSBAR: "L2",
    Level.L2: "L2",
    Access.L2_REQUEST: "L2",
    Level.DRAM: DRAM,
    Access.L2_MISS: DRAM,
}
# Standard errors with which factors are drawn to 1, and the power of an active chip to the model's own: wide,
# so that only what no kernel tells stays there.
_FACTOR_PRIOR = 10.0
_ACTIVE_PRIOR_W = 30.0
# Where each tensor opcode runs at one clock, whatever the SMs, nothing tells gamma from its energy.
_GAMMA_PRIOR = 3.0
# With fewer kernels than this that ran at a lower clock, nothing is learned of the clock term.
_MIN_SLOWED = 2

Energy = TypeVar("Energy", ByteEnergy, TensorEnergy)


@dataclass(frozen=True)
class CalibratedTerm:
    """One unknown of the fit.

    Attributes:
        name: "opcodes", "active chip", or a group of terms and the operand pattern, such as "L2 random".
        unit: "pJ/byte", "pJ/multiply-add", "W", or "" for a factor on all opcodes.
        before: Value by the terms of the table, a stream of its level with all of the group.
        value: Value on this board.
        ci95: Half-width of its 95% interval.
        kernels: How many kernels have it.
    """

    name: str
    unit: str
    before: float
    value: float
    ci95: float
    kernels: int

    @property
    def factor(self) -> float:
        """Value over that before, NaN where that was none."""
        return self.value / self.before if self.before else math.nan


@dataclass(frozen=True)
class Residual:
    """What the fit leaves of one kernel, as fractions of its energy.

    Attributes:
        kernel: Which.
        fitted: By all kernels.
        left_out: By the other kernels, NaN where these tell too little of it.
    """

    kernel: str
    fitted: float
    left_out: float


@dataclass(frozen=True, kw_only=True)
class CalibrationFit:
    """What the kernels of a board say of the terms of a table.

    Attributes:
        terms: The terms, calibrated.
        found: What was fitted.
        residuals: What the fit leaves, by kernel.
        gamma_fitted: Whether gamma was fitted, else it is that of the terms before.
        kept: What stays as it was, or goes with others, a sentence each.
    """

    terms: Terms
    found: tuple[CalibratedTerm, ...]
    residuals: tuple[Residual, ...]
    gamma_fitted: bool
    kept: tuple[str, ...]

    @property
    def fitted_error(self) -> float:
        """Mean absolute residual, a fraction of a kernel's energy."""
        return float(np.mean([abs(one.fitted) for one in self.residuals]))

    @property
    def left_out_error(self) -> float:
        """The same of kernels that are left out; NaN where none can be predicted from the others."""
        off = [abs(one.left_out) for one in self.residuals if math.isfinite(one.left_out)]
        return float(np.mean(off)) if off else math.nan


@dataclass(frozen=True, kw_only=True)
class Calibration(CalibrationFit):
    """Terms of one board, `calibration.json`.

    Attributes:
        table: Table whose rows and terms were taken: a name that comes with ptxbench, or a folder.
        terms_of: Whose terms were calibrated: the table, or one that comes with ptxbench.
        gpu: The board.
        static_power: Static power of its sleeping kernels.
        notes: What must be said of the measurement, a sentence each.
    """

    table: str
    terms_of: str
    gpu: GpuInfo
    static_power: StaticPower
    notes: tuple[str, ...]


def fit_calibration(
    kernels: Sequence[FitKernel], opcode_energies: OpcodeEnergies, before: Terms, gpu: GpuInfo
) -> CalibrationFit:
    """Return the terms of a board by kernels that ran on it.

    Args:
        kernels: Kernels on random operands or zeros, with their bytes at every level and all accesses.
        opcode_energies: Energies of opcodes, by a table.
        before: Terms that the factors are on.
        gpu: The board.
    """
    unit = _unit(before, kernels)
    features = [_features(kernel, opcode_energies, unit) for kernel in kernels]
    names = sorted({name for one in features for name in one})
    columns = np.array([[one.get(name, 0.0) for name in names] for one in features])
    is_slowed = sum(kernel.clock_ratio < SLOWED for kernel in kernels) >= _MIN_SLOWED
    gammas = GAMMAS if is_slowed else np.array([before.gamma])
    middle, spreads = _priors(names, before)

    def solve(matrix: Floats, right: Floats) -> tuple[Floats, float]:
        return solve_drawn(matrix, right, middle, spreads)

    clocked = np.array([not name.startswith(DRAM) for name in names])
    tried = [weighted_equations(kernels, columns, clocked, float(gamma)) for gamma in gammas]
    priors = ((gammas - before.gamma) / _GAMMA_PRIOR) ** 2
    losses = [solve(*system)[1] + prior for system, prior in zip(tried, map(float, priors), strict=True)]
    best = int(np.argmin(losses))
    matrix, right = tried[best]
    values = dict(zip(names, map(float, solve(matrix, right)[0]), strict=True))
    residuals = _residuals(kernels, matrix, right, lambda *part: solve(*part)[0])
    freedom = max(len(kernels) - len(names), 1)
    error = math.sqrt(sum(one.fitted**2 for one in residuals) / freedom)
    errors = _errors(matrix, names, spreads, error)
    reach = student_quantile(freedom)
    terms, kept = _applied(values, unit, before)
    if not is_slowed:
        kept = (*kept, f"gamma {before.gamma:.2f}: fewer than {_MIN_SLOWED} kernels ran at a lower clock")
    else:
        lowest = min(kernel.clock_ratio for kernel in kernels)
        gamma, off = float(gammas[best]), gamma_error(losses, freedom)
        terms = replace(terms, gamma=gamma, gamma_error=off, lowest_clock_ratio=lowest)
    found = tuple(
        _found(name, values[name], reach * errors[name], unit, before, int(np.sum(columns[:, at] > 0)))
        for at, name in enumerate(names)
    )
    terms = replace(
        terms, kernels=tuple(sorted(kernel.name for kernel in kernels)), time=_time(before, kernels, gpu)
    )
    return CalibrationFit(terms=terms, found=found, residuals=residuals, gamma_fitted=is_slowed, kept=kept)


def _unit(before: Terms, kernels: Sequence[FitKernel]) -> Terms:
    """Return the terms that factors are on: 1 pJ where a byte had none, or a multiply-add has no term."""
    kinds = {tensor_kind(op) for kernel in kernels for op, _ in kernel.work.opcodes if multiply_adds(op)}
    lacking = sorted(kinds - {one.kind for one in before.tensor})

    def told(energies: Sequence[Energy]) -> list[Energy]:
        return [replace(e, random_pj=e.random_pj or 1.0, zeros_pj=e.zeros_pj or 1.0) for e in energies]

    tensor = (*told(before.tensor), *(TensorEnergy(kind, 1.0, 1.0, 1.0) for kind in lacking))
    return replace(before, active_w=0.0, bytes_pj=tuple(told(before.bytes_pj)), tensor=tensor)


def _features(kernel: FitKernel, opcode_energies: OpcodeEnergies, unit: Terms) -> dict[str, float]:
    """Return what multiplies each unknown, J; that of the active chip, in W, multiplies a time."""
    plain = tuple((opcode, n) for opcode, n in kernel.work.opcodes if not multiply_adds(opcode))
    work = replace(kernel.work, opcodes=plain)
    data = 1.0 if kernel.pattern == RANDOM else 0.0
    # The rows of a table are on random operands; what counts and computes addresses toggles less.
    activity = Activity(data, data if kernel.integer_data else unit.random.index, data)
    found: dict[str, float] = defaultdict(float)
    for name, joules in dynamic_parts(work, opcode_energies, unit, activity).items():
        if name in set(Access):
            # An access costs the same whatever the data are.
            found[f"{GROUPS[Access(name)]} {RANDOM}"] += joules
        elif name in set(Level):
            found[f"{GROUPS[Level(name)]} {kernel.pattern}"] += joules
        else:
            found[OPCODES] += joules
    energies = {one.kind: one for one in unit.tensor}
    for opcode, n in kernel.work.opcodes:
        if macs := multiply_adds(opcode):
            kind = tensor_kind(opcode)
            found[f"{kind} {kernel.pattern}"] += n * macs * _of(energies[kind], kernel.pattern) * J_PER_PJ
    found[ACTIVE] = kernel.work.time_s
    return {name: joules for name, joules in found.items() if joules}


def _of(energy: ByteEnergy | TensorEnergy, pattern: str) -> float:
    return energy.random_pj if pattern == RANDOM else energy.zeros_pj


def _priors(names: Sequence[str], before: Terms) -> tuple[Floats, Floats]:
    """Return what unknowns are drawn to, and by which standard errors."""
    middle = np.array([before.active_w if name == ACTIVE else 1.0 for name in names])
    errors = np.array([_ACTIVE_PRIOR_W if name == ACTIVE else _FACTOR_PRIOR for name in names])
    return middle, errors


def _errors(matrix: Floats, names: Sequence[str], priors: Floats, error: float) -> dict[str, float]:
    """Return the standard error of each unknown where a kernel is off by `error` of its energy."""
    scaled = matrix * (RELATIVE / max(error, 1e-6))
    covariance = np.linalg.inv(scaled.T @ scaled + np.diag(1 / priors**2))
    return dict(zip(names, map(float, np.sqrt(np.diag(covariance))), strict=True))


def _residuals(
    kernels: Sequence[FitKernel], matrix: Floats, right: Floats, solve: Callable[[Floats, Floats], Floats]
) -> tuple[Residual, ...]:
    names = [kernel.name for kernel in kernels]
    fitted = RELATIVE * (matrix @ solve(matrix, right) - right)
    left_out = RELATIVE * left_out_errors(matrix, right, names, can_be_predicted(matrix, names), solve)
    return tuple(Residual(*one) for one in zip(names, map(float, fitted), map(float, left_out), strict=True))


def _found(name: str, value: float, ci95: float, unit: Terms, before: Terms, kernels: int) -> CalibratedTerm:
    if name == ACTIVE:
        return CalibratedTerm(name, "W", before.active_w, value, ci95, kernels)
    if name == OPCODES:
        return CalibratedTerm(name, "", 1.0, value, ci95, kernels)
    was, each = (_energy_pj(terms, *name.rsplit(" ", 1)) for terms in (before, unit))
    of = "byte" if name.rsplit(" ", 1)[0] in GROUPS.values() else "multiply-add"
    return CalibratedTerm(name, f"pJ/{of}", was, value * each, ci95 * each, kernels)


def _energy_pj(terms: Terms, group: str, pattern: str) -> float:
    """Return the energy of a multiply-add, or of a byte at all levels of a group together, 0 for none."""
    bytes_pj = sum(_of(one, pattern) for one in terms.bytes_pj if GROUPS[one.level] == group)
    return bytes_pj + sum(_of(one, pattern) for one in terms.tensor if one.kind == group)


def _applied(factors: Mapping[str, float], unit: Terms, before: Terms) -> tuple[Terms, tuple[str, ...]]:
    """Return the terms with the factors, and what was kept."""

    def calibrated(one: Energy, was: Energy, group: str, otherwise: float) -> Energy:
        """Return an energy; what was not measured on zeros goes with random operands."""
        random = factors.get(f"{group} {RANDOM}", otherwise)
        zeros = factors.get(f"{group} {ZEROS}")
        return replace(
            was,
            random_pj=random * (one if f"{group} {RANDOM}" in factors else was).random_pj,
            zeros_pj=random * was.zeros_pj if zeros is None else zeros * one.zeros_pj,
        )

    known = {one.kind for one in before.tensor}
    measured = [one.kind for one in unit.tensor if f"{one.kind} {RANDOM}" in factors]
    ratios = [factors[f"{kind} {RANDOM}"] for kind in measured if kind in known]
    common = median(ratios) if ratios else 1.0
    bytes_was = {one.level: one for one in before.bytes_pj}
    tensor_was = {one.kind: one for one in before.tensor}
    terms = replace(
        before,
        opcode_scale=before.opcode_scale * factors.get(OPCODES, 1.0),
        active_w=factors.get(ACTIVE, before.active_w),
        bytes_pj=tuple(
            calibrated(one, bytes_was[one.level], GROUPS[one.level], 1.0) for one in unit.bytes_pj
        ),
        accesses_pj=tuple(
            replace(one, energy_pj=factors.get(f"{GROUPS[one.access]} {RANDOM}", 1.0) * one.energy_pj)
            for one in before.accesses_pj
        ),
        tensor=tuple(calibrated(one, tensor_was.get(one.kind, one), one.kind, common) for one in unit.tensor),
    )
    kept = [
        "a byte that L2 hands out, one touched in L2 and a request of L2 keep their ratio, and so do a byte"
        " of DRAM and a miss of L2: a stream has them together"
    ]
    others = [kind for kind in sorted(known) if kind not in measured]
    if others:
        so = f"goes with the others that did, times {common:.3g}" if ratios else "stays as it was"
        kept.append(f"a multiply-add of {', '.join(others)}: no kernel of it ran, so that it {so}")
    kept.append(
        "how much data and indices toggle, by kind of data, and how far whole kernels are from an estimate:"
        " these are of kernels, not of a board"
    )
    return terms, tuple(kept)


def _time(before: Terms, kernels: Sequence[FitKernel], gpu: GpuInfo) -> TimeTerms | None:
    """Return what a time is modelled with: the rates that the kernels reached, the rest as before."""
    if before.time is None:
        return None
    timed = [TimedKernel(kernel.work, kernel.clock_ratio, gpu.sm_count) for kernel in kernels]
    rates = {one.level: one for one in (*before.time.bytes, *level_rates(timed))}
    tensor = {one.kind: one for one in (*before.time.tensor, *tensor_rates(timed, gpu.max_sm_clock_mhz))}
    return replace(before.time, bytes=tuple(rates.values()), tensor=tuple(tensor.values()))

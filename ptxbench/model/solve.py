"""The joint solve: energy per SASS opcode from every kernel of a run at once.

Kernel i has n_ij executions of opcode j in a pass of its loop, and dynamic energy E_i of that pass a thread:
E_i = sum_j n_ij e_j with e_j >= 0. Weighted by the errors of E_i, this is solved by non-negative least
squares (Lawson and Hanson 1974). Each operand pattern is solved by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ptxbench.core.arrays import Floats
from ptxbench.core.least_squares import nonnegative
from ptxbench.model.opcodes import ONCE_A_WARP, ONCE_A_WARP_SHARE, opcode_class
from ptxbench.model.pass_energy import PassEnergy, moved_bytes, patterns_of
from ptxbench.model.solution import MODEL_ERROR, SURE, Comparison, JointSolution, PatternFit, SolvedOpcode
from ptxbench.storage.schema import TableRow

# Entries of a null vector under this are rounding.
_ZERO = 1e-6
# A prior or an error of nothing, whose square can still be divided by.
_LEAST_PJ = 1e-6


@dataclass(frozen=True)
class _System:
    """One pattern's weighted equations: `counts` (m, n), `energies` (m,), `weights` (m,)."""

    opcodes: tuple[str, ...]
    counts: Floats
    energies: Floats
    weights: Floats

    @property
    def matrix(self) -> Floats:
        return self.counts * self.weights[:, None]


def solve(passes: Sequence[PassEnergy], rows: Sequence[TableRow] = ()) -> JointSolution:
    """Return the energy of each opcode, with its error and whether it is determined at all.

    The covariance is that of the opcodes above zero, (A^T W A)^-1, times the reduced chi-square where
    that is above one. Opcodes at the bound have the error that they would have if they were free.

    Args:
        passes: Kernels of one run.
        rows: Valid dynamic rows of its table, to be set beside the solution.
    """
    fits: list[PatternFit] = []
    energies: list[SolvedOpcode] = []
    compared: list[Comparison] = []
    for pattern in patterns_of(passes):
        of_pattern = [one for one in passes if one.pattern == pattern]
        system = _system(of_pattern)
        values = solve_bounded(system.matrix, system.energies * system.weights)
        fit = _fit(pattern, of_pattern, system, values)
        covariance = _covariance(system, values, fit)
        groups = _undetermined(system)
        fits.append(fit)
        energies += _opcode_energies(pattern, system, values, covariance, groups)
        compared += _compare([r for r in rows if r.operands == pattern], system, values, covariance)
    return JointSolution(tuple(fits), tuple(energies), tuple(compared))


def solve_bounded(matrix: Floats, right: Floats) -> Floats:
    """Return the x >= 0 that makes |matrix x - right| least.

    Args:
        matrix: Shape (m, n).
        right: Shape (m,).
    """
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    # The triangle of a QR decomposition asks the same question with no more equations than unknowns.
    basis, triangle = np.linalg.qr(matrix / scale)
    return np.asarray(nonnegative(triangle, basis.T @ right) / scale)


def _system(passes: Sequence[PassEnergy]) -> _System:
    opcodes = tuple(sorted({opcode for one in passes for opcode, _ in one.counts}))
    index = {opcode: j for j, opcode in enumerate(opcodes)}
    counts = np.zeros((len(passes), len(opcodes)))
    for i, one in enumerate(passes):
        for opcode, n in one.counts:
            counts[i, index[opcode]] = n
    energies = np.array([one.energy_pj for one in passes])
    errors = np.array([math.hypot(one.error_pj, MODEL_ERROR * one.energy_pj) for one in passes])
    return _System(opcodes, counts, energies, 1 / np.maximum(errors, _LEAST_PJ))


def _fit(pattern: str, passes: Sequence[PassEnergy], system: _System, values: Floats) -> PatternFit:
    residuals = system.counts @ values - system.energies
    relative = np.abs(residuals) / np.maximum(np.abs(system.energies), _LEAST_PJ)
    scaled = system.matrix / np.linalg.norm(system.matrix, axis=0)
    singular = np.linalg.svd(np.linalg.qr(scaled, mode="r"), compute_uv=False)
    rank = int(np.sum(singular > _rank_tolerance(scaled, singular)))
    freedom = len(passes) - int(np.sum(values > 0))
    chi2 = float(np.sum((residuals * system.weights) ** 2))
    worst = int(np.argmax(relative))
    return PatternFit(
        pattern=pattern,
        kernels=len(passes),
        opcodes=len(system.opcodes),
        rank=rank,
        condition=float(singular[0] / singular[rank - 1]),
        reduced_chi2=chi2 / freedom if freedom > 0 else math.nan,
        median_residual=median(relative.tolist()),
        worst_residual=float(relative[worst]),
        worst_kernel=passes[worst].name,
    )


def _rank_tolerance(matrix: Floats, singular: Floats) -> float:
    return float(singular[0] * max(matrix.shape) * np.finfo(float).eps * 10)


def _covariance(system: _System, values: Floats, fit: PatternFit) -> Floats:
    """Return the covariance of all opcodes, shape (n, n); those at the bound have none with others."""
    scale = max(fit.reduced_chi2, 1.0) if math.isfinite(fit.reduced_chi2) else 1.0
    active = np.flatnonzero(values > 0)
    covariance = np.zeros((len(values), len(values)))
    matrix = system.matrix
    normal = matrix.T @ matrix
    inner = np.linalg.pinv(normal[np.ix_(active, active)], hermitian=True)
    covariance[np.ix_(active, active)] = inner
    for j in np.flatnonzero(values <= 0):
        # What is left of an opcode's own information once the active ones have explained what they can.
        beside = normal[j, active]
        own = normal[j, j] - beside @ inner @ beside
        covariance[j, j] = 1 / max(own, _ZERO * normal[j, j])
    return np.asarray(scale * covariance)


def _undetermined(system: _System) -> dict[str, tuple[str, ...]]:
    """Return the opcodes that the counts do not determine, each with those that it cannot be separated from.

    An opcode is determined where it has no part in the null space of the counts.
    """
    counts = system.counts / np.linalg.norm(system.counts, axis=0)
    _, singular, rows = np.linalg.svd(np.linalg.qr(counts, mode="r"), full_matrices=True)
    rank = int(np.sum(singular > _rank_tolerance(counts, singular)))
    null = rows[rank:].T
    shared = np.abs(null @ null.T) > _ZERO
    return {
        opcode: tuple(other for k, other in enumerate(system.opcodes) if shared[j, k] and k != j)
        for j, opcode in enumerate(system.opcodes)
        if shared[j, j]
    }


def _opcode_energies(
    pattern: str, system: _System, values: Floats, covariance: Floats, groups: dict[str, tuple[str, ...]]
) -> list[SolvedOpcode]:
    found = [
        SolvedOpcode(
            opcode=opcode,
            pattern=pattern,
            # Rounding decides which of those that always run together is given their energy.
            energy_pj=math.nan if opcode in groups else float(values[j]),
            error_pj=math.nan if opcode in groups else math.sqrt(max(float(covariance[j, j]), 0.0)),
            together_with=groups.get(opcode, ()),
            kernels=int(np.sum(system.counts[:, j] > 0)),
        )
        for j, opcode in enumerate(system.opcodes)
    ]
    return sorted(found, key=lambda one: -one.energy_pj if one.identifiable else math.inf)


def _compare(
    rows: Sequence[TableRow], system: _System, values: Floats, covariance: Floats
) -> list[Comparison]:
    """Set each row's direct difference beside the joint solve of the same SASS."""
    index = {opcode: j for j, opcode in enumerate(system.opcodes)}
    compared = []
    for row in rows:
        added = row_counts(row) | dict(moved_bytes(row.instruction, 1.0))
        if any(opcode not in index for opcode in added):
            continue
        vector = np.zeros(len(values))
        for opcode, n in added.items():
            vector[index[opcode]] = n
        joint_error_pj = math.sqrt(max(float(vector @ covariance @ vector), 0.0))
        compared.append(Comparison.of_row(row, float(vector @ values), joint_error_pj))
    return compared


def row_counts(row: TableRow) -> dict[str, float]:
    """Return the opcodes of one copy of a row, by its column `sass`, such as "IADD3*0.5 IMAD*0.5"."""
    words = (word.partition("*") for word in row.sass.split())
    return {opcode: float(count or 1) for opcode, _, count in words}


def solve_with_prior(passes: Sequence[PassEnergy], solution: JointSolution) -> dict[str, tuple[float, float]]:
    """Return energy and standard error, pJ, of every opcode of some kernels, determined or not.

    For use in an estimate, where an opcode that cannot be separated from others must still cost something.
    Each is drawn to the median of its class among the well determined ones, with a standard error of that
    whole median. Where its class has none, it is drawn to the median of all, or to an eighth of that for what
    a warp executes once, whatever its threads do. What the kernels determine hardly moves.

    Args:
        passes: Kernels of one pattern.
        solution: Their solution (`report --opcodes`), perhaps with that of other patterns.
    """
    pattern = passes[0].pattern
    opcodes = [o for o in solution.opcodes if o.pattern == pattern]
    sure = [o for o in opcodes if o.identifiable and o.error_pj < SURE * o.energy_pj]
    known_pj = [o.energy_pj for o in sure or opcodes if o.identifiable]
    mean_pj = [one.energy_pj / sum(n for _, n in one.counts) for one in passes]
    overall_pj = median(known_pj or mean_pj)
    system = _system(passes)
    priors_pj = np.array([_prior_pj(opcode, sure, overall_pj) for opcode in system.opcodes])
    priors_pj = np.maximum(priors_pj, _LEAST_PJ)
    matrix = np.vstack([system.matrix, np.diag(1 / priors_pj)])
    values = solve_bounded(
        matrix, np.concatenate([system.energies * system.weights, np.ones(len(priors_pj))])
    )
    (reduced_chi2,) = (fit.reduced_chi2 for fit in solution.fits if fit.pattern == pattern)
    chi2 = max(reduced_chi2, 1.0) if math.isfinite(reduced_chi2) else 1.0
    covariance = np.linalg.inv(system.matrix.T @ system.matrix / chi2 + np.diag(1 / priors_pj**2))
    errors = np.sqrt(np.diag(covariance))
    return {o: (float(v), float(e)) for o, v, e in zip(system.opcodes, values, errors, strict=True)}


def _prior_pj(opcode: str, sure: Sequence[SolvedOpcode], overall_pj: float) -> float:
    kind = opcode_class(opcode)
    alike = [one.energy_pj for one in sure if opcode_class(one.opcode) is kind]
    if alike:
        return median(alike)
    return overall_pj * ONCE_A_WARP_SHARE if kind in ONCE_A_WARP else overall_pj

"""Fits what the table lacks (bytes, accesses, tensor cores, clock, activity) to kernels kept for that.

For fit kernel k at clock ratio r with dynamic energy E_k = (P - P_static(T)) t a call:

    E_k = r^gamma (Z_k + a_d D_k + a_i I_k + sum_l b_kl e_l + sum_c n_kc e_c + sum_q m_kq e_q + P_active t)
          + d_k e_DRAM + n_k,miss e_miss

where Z_k is the energy of its opcodes on zeros, D_k and I_k are what random operands add in data and in index
opcodes (all three by the table), b_kl bytes by memory level (d_k: DRAM), n_kc accesses by kind and m_kq
multiply-adds. All unknowns but gamma are linear and not negative; gamma is the one that leaves the least.
Each kernel weighs the same, relative to its energy. Accesses are terms only where that makes the error of
kernels that are left out of the fit smaller (ptxbench.model.leave_out); the same error chooses the share of
its own energy that an opcode keeps (`OpcodeEnergies.drawn`). Each kind of data has an activity a_d; bytes and
multiply-adds on other data than zeros count as those on random operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import numpy as np
from conformal import log_normal_ends

from ptxbench.core.arrays import Bools, Floats
from ptxbench.core.errors import InputError
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
from ptxbench.model.leave_out import can_be_predicted, left_out_errors
from ptxbench.model.opcode_energies import RANDOM, ZEROS, OpcodeEnergies
from ptxbench.model.tensor import multiply_adds, tensor_kind
from ptxbench.model.terms import (
    MOSTLY_DYNAMIC,
    UNFITTED,
    AccessEnergy,
    ByteEnergy,
    CountedSpread,
    KindActivity,
    TensorEnergy,
    Terms,
)
from ptxbench.model.work import OFF_CLOCK, Access, Activity, KernelWork, Level

_PICO = 1e-12
# Activities of data are drawn to 1 on random operands, 0 on zeros and the middle on others, by this error.
_ACTIVITY_PRIOR = 0.5
# Neighbouring threads' addresses differ in few bits.
_INDEX_PRIOR = 0.5
_OTHER_PRIOR = 0.5
# With fewer kernels than this below this share of the clock, nothing is learned of the clock term.
_MIN_SLOWED = 3
# Shares of its own energy that an opcode may keep, the table as it is first.
SHARES = (1.0, 0.75, 0.5, 0.25)
# A term more must make the error of kernels that are left out smaller by this part of it.
_WORTH = 0.02
# Fewer kernels do not tell how far others may be off.
_MIN_SPREAD = 4


@dataclass(frozen=True)
class _Solved:
    """One choice of unknowns, solved at each gamma: weighted equations and values at the best one.

    `residuals` are those of kernels that are left out, relative to their whole energy; NaN where one is not
    predicted.
    """

    names: tuple[str, ...]
    gamma: float
    gamma_error: float
    freedom: int
    matrix: Floats
    right: Floats
    values: Floats
    residuals: Floats

    @property
    def left_out(self) -> float:
        """Mean absolute residual of kernels that are left out, NaN where none can be."""
        off = self._predicted
        return float(np.mean(off)) if off.size else math.nan

    @property
    def left_out_error(self) -> float:
        """Standard error of that."""
        off = self._predicted
        return float(np.std(off) / math.sqrt(off.size)) if off.size else math.nan

    @property
    def _predicted(self) -> Floats:
        return np.abs(self.residuals[np.isfinite(self.residuals)])


def fit_terms(
    kernels: Sequence[FitKernel], opcode_energies: OpcodeEnergies, shares: Sequence[float] = SHARES
) -> Terms:
    """Return the terms by which kernels that are left out of the fit are predicted best.

    Of the shares it is the largest whose error is within one standard error of the least (Hastie, Tibshirani
    and Friedman, The Elements of Statistical Learning, 2009, section 7.10).

    Args:
        kernels: Kernels to fit to.
        opcode_energies: Energies of opcodes, by a run.
        shares: Shares of its own energy that an opcode may keep.

    Raises:
        InputError: There is no kernel.
    """
    if not kernels:
        raise InputError("no kernel was both measured and counted, so the model's terms cannot be fitted")
    tried = [_fit(kernels, opcode_energies, share) for share in sorted(shares, reverse=True)]
    # Where no kernel can be left out (NaN) it is the first.
    best, error = min(tried, key=lambda one: one[0].left_out_error)
    return next((t for t, _ in tried if t.left_out_error <= best.left_out_error + error), best)


def _fit(kernels: Sequence[FitKernel], opcode_energies: OpcodeEnergies, kept: float) -> tuple[Terms, float]:
    """Return the terms at one share, and the standard error of their error on kernels left out."""
    names, constants, features, predicted = _equations(kernels, opcode_energies.drawn(kept))
    counted = [access for access in Access if access in names]
    tried = []
    for chosen in _subsets(counted):
        columns = [j for j, name in enumerate(names) if name not in counted or name in chosen]
        part = [names[j] for j in columns]
        tried.append(_solved(kernels, constants, features[:, columns], part, predicted))
    fewest = min(len(one.names) for one in tried)
    # Where no kernel can be left out (NaN) it is the first, which has no such term.
    best = min(tried, key=lambda one: one.left_out * (1 + _WORTH * (len(one.names) - fewest)))
    # Weights make a residual relative to a kernel's whole energy; the error is one of dynamic energy.
    share = np.array([k.total_j / k.dynamic_j for k in kernels])
    residuals = (best.matrix @ best.values - best.right) * RELATIVE * share
    error = math.sqrt(float(np.sum(residuals**2)) / best.freedom)
    terms = _terms(best, _errors(best.matrix, best.names, error), error, kernels)
    terms = replace(terms, opcode_share=kept, counted_spreads=_counted_spreads(kernels, best.residuals))
    return terms, best.left_out_error


def left_out_residuals(kernels: Sequence[FitKernel], opcode_energies: OpcodeEnergies, kept: float) -> Floats:
    """Return how far each kernel's energy is from its estimate by terms of the other families, relative.

    It is NaN for those that the others tell too little of. All accesses are terms.

    Args:
        kernels: Kernels, fitted to and predicted in turn.
        opcode_energies: Energies of opcodes, by a run.
        kept: Share of its own energy that an opcode keeps.
    """
    names, constants, features, predicted = _equations(kernels, opcode_energies.drawn(kept))
    return _solved(kernels, constants, features, names, predicted).residuals


def _equations(
    kernels: Sequence[FitKernel], opcode_energies: OpcodeEnergies
) -> tuple[list[str], Floats, Floats, Bools]:
    """Return the names of all unknowns, constants and features of each kernel, and which can be predicted."""
    names = _unknowns(kernels)
    beside = opcode_energies.beside(_levels(kernels))
    rows = [_features(kernel, beside, names) for kernel in kernels]
    constants = np.array([constant for constant, _ in rows])
    features = np.array([row for _, row in rows])
    # The same kernels for every choice of terms: those that the others tell of with all terms.
    whole, _ = _system(kernels, constants, features, names, UNFITTED.gamma)
    return names, constants, features, can_be_predicted(whole, [kernel.group for kernel in kernels])


def _counted_spreads(kernels: Sequence[FitKernel], residuals: Floats) -> tuple[CountedSpread, ...]:
    """Return how far kernels that are left out are from their dynamic energy, by what they are like."""
    ratios: dict[tuple[bool, bool], dict[str, float]] = {}
    families: dict[tuple[bool, bool], set[str]] = {}
    for kernel, residual in zip(kernels, residuals, strict=True):
        estimated_j = kernel.dynamic_j + residual * kernel.total_j
        if estimated_j > 0:
            share = estimated_j / (estimated_j + kernel.total_j - kernel.dynamic_j)
            like = kernel.work.uses_global_memory, bool(share >= MOSTLY_DYNAMIC)
            ratios.setdefault(like, {})[kernel.name] = kernel.dynamic_j / estimated_j
            families.setdefault(like, set()).add(kernel.group)
    return tuple(
        CountedSpread(*log_normal_ends(list(of.values())), len(of), len(families[like]), *like)
        for like, of in sorted(ratios.items())
        if len(of) >= _MIN_SPREAD
    )


def _subsets(accesses: Sequence[Access]) -> Iterable[tuple[Access, ...]]:
    """Return every choice of accesses, the smallest first."""
    return chain.from_iterable(combinations(accesses, n) for n in range(len(accesses) + 1))


def _solved(
    kernels: Sequence[FitKernel], constants: Floats, features: Floats, names: Sequence[str], predicted: Bools
) -> _Solved:
    slowed = sum(kernel.clock_ratio < SLOWED for kernel in kernels)
    gammas = GAMMAS if slowed >= _MIN_SLOWED else np.array([UNFITTED.gamma])
    systems = [_system(kernels, constants, features, names, float(gamma)) for gamma in gammas]
    found = [_solve(*system, names) for system in systems]
    losses = [loss for _, loss in found]
    best = int(np.argmin(losses))
    matrix, right = systems[best]
    freedom = max(len(kernels) - int(np.sum(found[best][0] > 0)), 1)
    errors = left_out_errors(
        matrix,
        right,
        [k.group for k in kernels],
        predicted,
        lambda part, aim: _solve(part, aim, names)[0],
    )
    return _Solved(
        names=tuple(names),
        gamma=float(gammas[best]),
        gamma_error=gamma_error(losses, freedom) if len(losses) > 1 else UNFITTED.gamma_error,
        freedom=freedom,
        matrix=matrix,
        right=right,
        values=found[best][0],
        residuals=RELATIVE * errors,
    )


def _unknowns(kernels: Sequence[FitKernel]) -> list[str]:
    """Return the names of the unknowns: active power, accesses; by pattern activities, bytes, tensor kinds.

    Bytes and accesses that one of the kernels was not counted for are none.
    """
    moved = [p for p in (RANDOM, ZEROS) if any(k.moved == p for k in kernels)]
    others = sorted({k.pattern for k in kernels} - {RANDOM, ZEROS})
    kinds = sorted({tensor_kind(op) for k in kernels for op, _ in k.work.opcodes if multiply_adds(op)})
    levels = _levels(kernels)
    accesses = [access for access in Access if all(access in dict(k.work.accesses) for k in kernels)]
    per_pattern = ["data", *levels, *kinds]
    # Addresses, counters and what is looked up by them are the same whatever the data are.
    return [
        "active",
        "index",
        *accesses,
        *(f"{name} {pattern}" for pattern in moved for name in per_pattern),
        *(f"data {kind}" for kind in others),
    ]


def _levels(kernels: Sequence[FitKernel]) -> list[Level]:
    """Return the levels whose bytes were counted of every kernel."""
    return [level for level in Level if all(level in dict(k.work.bytes_moved) for k in kernels)]


def _features(
    kernel: FitKernel, opcode_energies: OpcodeEnergies, names: Sequence[str]
) -> tuple[float, list[float]]:
    """Return a kernel's energy on zeros without fitted terms, and what multiplies each unknown, J."""
    pattern = kernel.pattern
    tensor: dict[str, float] = {}
    plain = []
    for opcode, count in kernel.work.opcodes:
        macs = multiply_adds(opcode)
        if macs:
            key = f"{tensor_kind(opcode)} {kernel.moved}"
            tensor[key] = tensor.get(key, 0.0) + count * macs * _PICO
        else:
            plain.append((opcode, count))
    work = KernelWork(kernel.work.name, tuple(plain), idle=kernel.work.idle)

    def joules(activity: Activity) -> float:
        return sum(dynamic_parts(work, opcode_energies, UNFITTED, activity).values())

    zeros_j = joules(Activity(0.0, 0.0))
    index_j = joules(Activity(0.0, 1.0)) - zeros_j
    data_j = joules(Activity(1.0, 0.0)) - zeros_j
    # Integers that are data toggle as data do; random ones as the table's random operands.
    random_integers_j = index_j if kernel.integer_data and pattern == RANDOM else 0.0
    if kernel.integer_data and pattern not in (RANDOM, ZEROS):
        data_j, index_j = data_j + index_j, 0.0
    values = {
        "active": kernel.work.time_s,
        f"data {pattern}": data_j,
        "index": index_j - random_integers_j,
        **tensor,
        **{access: count * _PICO for access, count in kernel.work.accesses},
        **{f"{level} {kernel.moved}": count * _PICO for level, count in kernel.work.bytes_moved},
    }
    return zeros_j + random_integers_j, [values.get(name, 0.0) for name in names]


def _system(
    kernels: Sequence[FitKernel], constants: Floats, features: Floats, names: Sequence[str], gamma: float
) -> tuple[Floats, Floats]:
    """Return the weighted equations at one gamma: matrix (m, n) and right side (m,)."""
    off_clock = {*OFF_CLOCK, *(f"{name} {pattern}" for name in OFF_CLOCK for pattern in (RANDOM, ZEROS))}
    clocked = np.array([name not in off_clock for name in names])
    return weighted_equations(kernels, features, clocked, gamma, constants)


def _solve(matrix: Floats, right: Floats, names: Sequence[str]) -> tuple[Floats, float]:
    """Return the unknowns and what is left, the activities drawn to their priors."""
    priors = [_prior(name) for name in names]
    middle = np.array([0.0 if prior is None else prior for prior in priors])
    errors = np.array([math.inf if prior is None else _ACTIVITY_PRIOR for prior in priors])
    return solve_drawn(matrix, right, middle, errors)


def _prior(name: str) -> float | None:
    known = {f"data {RANDOM}": 1.0, f"data {ZEROS}": 0.0, "index": _INDEX_PRIOR}
    return known.get(name, _OTHER_PRIOR if name.startswith("data ") else None)


def _errors(matrix: Floats, names: Sequence[str], error: float) -> Mapping[str, float]:
    """Return the standard error of each unknown, in its unit, where a kernel is off by `error`."""
    scaled = matrix * (RELATIVE / max(error, 1e-6))
    covariance = np.linalg.pinv(scaled.T @ scaled)
    return dict(zip(names, np.sqrt(np.clip(np.diag(covariance), 0, None)), strict=True))


def _terms(solved: _Solved, errors: Mapping[str, float], error: float, kernels: Sequence[FitKernel]) -> Terms:
    values = dict(zip(solved.names, map(float, solved.values), strict=True))

    def of(name: str, default: float = 0.0) -> float:
        return values.get(name, default)

    def relative(name: str) -> float:
        return min(float(errors[name]) / of(name), 1.0) if of(name) > 0 else 1.0

    per_pattern = {name.rpartition(" ")[0] for name in values if name.endswith((RANDOM, ZEROS))}
    return Terms(
        gamma=solved.gamma,
        gamma_error=solved.gamma_error,
        random=Activity(of(f"data {RANDOM}", 1.0), of("index"), 1.0),
        zeros=Activity(of(f"data {ZEROS}"), of("index"), 0.0),
        active_w=of("active"),
        bytes_pj=tuple(
            ByteEnergy(level, of(f"{level} {RANDOM}"), of(f"{level} {ZEROS}"), relative(f"{level} {RANDOM}"))
            for level in Level
            if level in per_pattern
        ),
        tensor=tuple(
            TensorEnergy(kind, of(f"{kind} {RANDOM}"), of(f"{kind} {ZEROS}"), relative(f"{kind} {RANDOM}"))
            for kind in sorted(per_pattern - {"data", *Level})
        ),
        error=error,
        kernels=tuple(sorted(k.name for k in kernels)),
        accesses_pj=tuple(
            AccessEnergy(access, of(access), relative(access)) for access in Access if access in values
        ),
        left_out_error=solved.left_out,
        lowest_clock_ratio=min(k.clock_ratio for k in kernels),
        kinds=tuple(
            KindActivity(kind, of(f"data {kind}"), float(errors[f"data {kind}"]))
            for kind in sorted({k.pattern for k in kernels} - {RANDOM, ZEROS})
        ),
    )

"""Fits what the table does not hold (bytes, tensor cores, clock, activity) to kernels kept for that.

For fit kernel k at clock ratio r with dynamic energy E_k = (P - P_static(T)) t a call:

    E_k = r^gamma (Z_k + a_d D_k + a_i I_k + sum_l b_kl e_l + sum_kind m_kq e_q + P_active t) + d_k e_DRAM

where Z_k prices its opcodes on zeros, D_k and I_k are what random operands add in data and in index opcodes
(all three by the table), b_kl are bytes by level (d_k: DRAM) and m_kq multiply-adds. All unknowns but gamma
are linear and not negative; gamma is the one that leaves the least. Each kernel weighs the same, relative to
its energy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.errors import InputError
from ptxbench.model.estimate import dynamic_parts
from ptxbench.model.prices import RANDOM, ZEROS, Prices
from ptxbench.model.solve import solve_bounded
from ptxbench.model.tensor import multiply_adds, tensor_kind
from ptxbench.model.terms import UNFITTED, ByteEnergy, TensorEnergy, Terms
from ptxbench.model.work import Activity, KernelWork, Level

_PICO = 1e-12
_GAMMAS = np.linspace(0.0, 3.0, 61)
# A kernel's energy counts as known to this: what a simple model can hold.
_RELATIVE = 0.05
# Activities of data are drawn to 1 on random operands and 0 on zeros, by this standard error.
_ACTIVITY_PRIOR = 0.5
# Neighbouring threads' addresses differ in few bits.
_INDEX_PRIOR = 0.5
# With fewer kernels than this below this share of the clock, nothing is learned of the clock term.
_MIN_SLOWED = 3
_SLOWED = 0.97

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FitKernel:
    """One kernel that the terms may be fitted to.

    Attributes:
        name: Kernel and operands.
        pattern: "random" or "zeros".
        work: What it executes; its time is the measured one.
        dynamic_j: Measured energy of a call less static power.
        total_j: Measured energy of a call.
        clock_ratio: SM clock over the full clock.
    """

    name: str
    pattern: str
    work: KernelWork
    dynamic_j: float
    total_j: float
    clock_ratio: float


def fit_terms(kernels: Sequence[FitKernel], prices: Prices) -> Terms:
    """Return the terms that fit some kernels best.

    Raises:
        InputError: There is no kernel.
    """
    if not kernels:
        raise InputError("no kernel was both measured and counted, so the model's terms cannot be fitted")
    names = _unknowns(kernels)
    rows = [_features(kernel, prices, names) for kernel in kernels]
    constants = np.array([constant for constant, _ in rows])
    features = np.array([row for _, row in rows])
    slowed = sum(kernel.clock_ratio < _SLOWED for kernel in kernels)
    gammas = _GAMMAS if slowed >= _MIN_SLOWED else np.array([UNFITTED.gamma])
    systems = [_system(kernels, constants, features, names, float(gamma)) for gamma in gammas]
    found = [_solve(*system, names) for system in systems]
    losses = [loss for _, loss in found]
    best = int(np.argmin(losses))
    matrix, right = systems[best]
    values = found[best][0]
    # Weights make a residual relative to a kernel's whole energy; the error is one of dynamic energy.
    share = np.array([k.total_j / k.dynamic_j for k in kernels])
    residuals = (matrix @ values - right) * _RELATIVE * share
    freedom = max(len(kernels) - int(np.sum(values > 0)), 1)
    error = math.sqrt(float(np.sum(residuals**2)) / freedom)
    return _terms(
        dict(zip(names, values, strict=True)),
        _errors(matrix, names, error),
        float(gammas[best]),
        _gamma_error(gammas, losses),
        error,
        kernels,
    )


def _unknowns(kernels: Sequence[FitKernel]) -> list[str]:
    """Return the names of the unknowns: active power, and by pattern activities, bytes and tensor kinds."""
    patterns = [p for p in (RANDOM, ZEROS) if any(k.pattern == p for k in kernels)]
    kinds = sorted({tensor_kind(op) for k in kernels for op, _ in k.work.opcodes if multiply_adds(op)})
    per_pattern = ["data", *Level, *kinds]
    # Addresses and counters are the same whatever the data are.
    return ["active", "index", *(f"{name} {pattern}" for pattern in patterns for name in per_pattern)]


def _features(kernel: FitKernel, prices: Prices, names: Sequence[str]) -> tuple[float, list[float]]:
    """Return a kernel's energy on zeros without fitted terms, and what multiplies each unknown, J."""
    pattern = kernel.pattern
    tensor: dict[str, float] = {}
    plain = []
    for opcode, count in kernel.work.opcodes:
        macs = multiply_adds(opcode)
        if macs:
            key = f"{tensor_kind(opcode)} {pattern}"
            tensor[key] = tensor.get(key, 0.0) + count * macs * _PICO
        else:
            plain.append((opcode, count))
    work = KernelWork(kernel.work.name, tuple(plain))

    def joules(activity: Activity) -> float:
        return sum(dynamic_parts(work, prices, UNFITTED, activity).values())

    zeros_j = joules(Activity(0.0, 0.0))
    values = {
        "active": kernel.work.time_s,
        f"data {pattern}": joules(Activity(1.0, 0.0)) - zeros_j,
        "index": joules(Activity(0.0, 1.0)) - zeros_j,
        **tensor,
        **{f"{level} {pattern}": count * _PICO for level, count in kernel.work.bytes_moved},
    }
    return zeros_j, [values.get(name, 0.0) for name in names]


def _system(
    kernels: Sequence[FitKernel], constants: Floats, features: Floats, names: Sequence[str], gamma: float
) -> tuple[Floats, Floats]:
    """Return the weighted equations at one gamma: matrix (m, n) and right side (m,)."""
    ratios = np.array([k.clock_ratio**gamma for k in kernels])
    weights = np.array([1 / (_RELATIVE * k.total_j) for k in kernels])
    clocked = np.array([not name.startswith(Level.DRAM) for name in names])
    scales = np.where(clocked[None, :], ratios[:, None], 1.0)
    measured = np.array([k.dynamic_j for k in kernels])
    return features * scales * weights[:, None], (measured - ratios * constants) * weights


def _solve(matrix: Floats, right: Floats, names: Sequence[str]) -> tuple[Floats, float]:
    """Return the unknowns and what is left, the activities drawn to their priors."""
    priors = [(j, prior) for j, name in enumerate(names) if (prior := _prior(name)) is not None]
    drawn = np.zeros((len(priors), len(names)))
    for i, (j, _) in enumerate(priors):
        drawn[i, j] = 1 / _ACTIVITY_PRIOR
    full = np.vstack([matrix, drawn])
    aim = np.concatenate([right, [prior / _ACTIVITY_PRIOR for _, prior in priors]])
    solution = solve_bounded(full, aim)
    return solution, float(np.sum((full @ solution - aim) ** 2))


def _prior(name: str) -> float | None:
    return {f"data {RANDOM}": 1.0, f"data {ZEROS}": 0.0, "index": _INDEX_PRIOR}.get(name)


def _errors(matrix: Floats, names: Sequence[str], error: float) -> Mapping[str, float]:
    """Return the standard error of each unknown, in its unit, where a kernel is off by `error`."""
    scaled = matrix * (_RELATIVE / max(error, 1e-6))
    covariance = np.linalg.pinv(scaled.T @ scaled)
    return dict(zip(names, np.sqrt(np.clip(np.diag(covariance), 0, None)), strict=True))


def _gamma_error(gammas: Floats, losses: Sequence[float]) -> float:
    """Return the standard error of gamma: how far it moves to change the loss by its mean a kernel."""
    if len(gammas) == 1:
        return UNFITTED.gamma_error
    least = min(losses)
    inside = gammas[np.array(losses) <= least + max(1.0, least / max(len(losses) - 1, 1))]
    return max(float(np.ptp(inside)) / 2, float(gammas[1] - gammas[0]))


def _terms(
    values: Mapping[str, float],
    errors: Mapping[str, float],
    gamma: float,
    gamma_error: float,
    error: float,
    kernels: Sequence[FitKernel],
) -> Terms:
    def of(name: str, default: float = 0.0) -> float:
        return float(values.get(name, default))

    def relative(name: str) -> float:
        random = f"{name} {RANDOM}"
        return min(float(errors.get(random, 0.0)) / of(random), 1.0) if of(random) > 0 else 1.0

    kinds = sorted({name.rpartition(" ")[0] for name in values} - {"", "data", *Level})
    return Terms(
        gamma=gamma,
        gamma_error=gamma_error,
        random=Activity(of(f"data {RANDOM}", 1.0), of("index"), 1.0),
        zeros=Activity(of(f"data {ZEROS}"), of("index"), 0.0),
        active_w=of("active"),
        bytes_pj=tuple(
            ByteEnergy(level, of(f"{level} {RANDOM}"), of(f"{level} {ZEROS}"), relative(level))
            for level in Level
        ),
        tensor=tuple(
            TensorEnergy(kind, of(f"{kind} {RANDOM}"), of(f"{kind} {ZEROS}"), relative(kind))
            for kind in kinds
        ),
        error=error,
        kernels=tuple(sorted(k.name for k in kernels)),
    )

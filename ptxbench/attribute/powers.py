"""The power of each kernel from its equations: non-negative least squares with a prior, and resampled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ptxbench.attribute.equations import SETTINGS, Equations
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.least_squares import nonnegative
from ptxbench.sensors.trace import Float64s


@dataclass(frozen=True)
class Expected:
    """What a kernel should draw by a measured table, or by an earlier replay.

    Attributes:
        power_w: Mean power of the whole board while it runs, W.
        error_w: Half of its 95% interval, W.
        is_replayed: Whether it drew that when it was launched again: that is no prior, it splits groups.
        parts: Share of its energy by class of opcode and by memory level, where a table expects it.
        kernels: Of a whole graph the part of its time that each kernel had in the replay.
    """

    power_w: float
    error_w: float
    is_replayed: bool = False
    parts: Mapping[str, float] = field(default_factory=dict)
    kernels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Prior:
    """What is thought of the columns' powers before: mean, W, and weight as a Gram matrix's diagonal.

    `noise_w` is what a reading may differ from the model by, W.
    """

    mean_w: Float64s
    spread_w: Float64s
    weight: Float64s
    noise_w: float = 0.0


def prior_of(equations: Equations, kernels: int, known: Mapping[int, Expected]) -> Prior:
    """Return what the readings say of all kernels together, as what is thought of each."""
    power_w, (count, width) = equations.power_w, (equations.count, len(equations.gram))
    is_kernel = np.arange(width) < kernels
    together: Float64s = np.column_stack((is_kernel.astype(np.float64), np.eye(width)[:, kernels:]))
    no_prior = Prior(np.zeros(3), np.zeros(3), np.zeros(3))
    gram, side_w = together.T @ equations.gram @ together, together.T @ equations.side_w
    all_w = solve(gram, side_w, no_prior, no_prior.mean_w)[0]
    half_w = max((all_w - float(np.min(power_w))) / 2, SETTINGS.prior_spread * all_w, 1e-3)
    mean_w = np.where(is_kernel, all_w, SETTINGS.prior_idle * all_w)
    spread_w = np.where(is_kernel, half_w, SETTINGS.prior_idle * all_w + 1e-3)
    for column, names in enumerate(equations.names):
        if len(names) == 1 and names[0] in known:
            mean_w[column] = known[names[0]].power_w
            spread_w[column] = max(known[names[0]].error_w / COVERAGE_FACTOR, 1e-3)
    # The noise is what is left with a weak prior; that sets the weight of the prior.
    weak = Prior(mean_w, spread_w, np.full(width, SETTINGS.ridge * count))
    left_w2 = equations.left_w2(solve(equations.gram, equations.side_w, weak, mean_w))
    # A model of the sensor is never exact: its error does not show where a program repeats itself.
    noise = left_w2 / max(count - width, count // 4) + (SETTINGS.model_error * float(power_w.mean())) ** 2
    weight = noise / spread_w**2
    return Prior(mean_w, spread_w, weight, math.sqrt(noise))


def solve(gram: Float64s, side: Float64s, prior: Prior, mean_w: Float64s) -> Float64s:
    """Solve non-negative least squares with a prior from the normal equations."""
    full, right = gram + np.diag(prior.weight), side + prior.weight * mean_w
    root = np.linalg.cholesky(full + 1e-12 * full.max() * np.eye(len(full)))
    return nonnegative(root.T, np.asarray(np.linalg.solve(root, right), dtype=np.float64))


def resampled(equations: Equations, prior: Prior, resamples: int) -> Float64s:
    """Return the powers over resampled blocks of readings, shape (resamples, columns)."""
    blocks, width = equations.sides_w.shape
    rng = np.random.default_rng(0)
    draws = np.empty((resamples, width))
    for i in range(resamples):
        times = np.bincount(rng.integers(0, blocks, blocks), minlength=blocks).astype(np.float64)
        mean_w = prior.mean_w + prior.spread_w * rng.standard_normal(width)
        gram = np.tensordot(times, equations.grams, 1)
        # Shares^T times an error of each reading has the variance noise^2 times the Gram matrix.
        values, vectors = np.linalg.eigh(gram)
        error = (vectors * np.sqrt(np.clip(values, 0, None))) @ rng.standard_normal(width)
        draws[i] = solve(gram, times @ equations.sides_w + prior.noise_w * error, prior, mean_w)
    return draws

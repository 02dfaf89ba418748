"""Kernels that terms are fitted to, and the weighted equations that they make at one exponent of the clock.

For fit kernel k at clock ratio r with dynamic energy E_k = (P - P_static(T)) t a call, and features F_kj of
unknowns x_j, some of which follow the SM clock:

    E_k = r^gamma (Z_k + sum_clocked x_j F_kj) + sum_others x_j F_kj

Each kernel weighs the same, relative to its energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.arrays import Bools, Floats
from ptxbench.model.opcode_energies import RANDOM, ZEROS
from ptxbench.model.solve import solve_bounded
from ptxbench.model.work import KernelWork

GAMMAS = np.linspace(0.0, 3.0, 61)
# A kernel's energy counts as known to this: what a simple model can hold.
RELATIVE = 0.05
# Kernels below this share of the clock tell of the clock term.
SLOWED = 0.97


@dataclass(frozen=True)
class FitKernel:
    """One kernel that the terms may be fitted to.

    Attributes:
        name: Kernel and operands.
        pattern: Kind of data, such as "random", "zeros" or "image".
        work: What it executes; its time is the measured one.
        dynamic_j: Measured energy of a call less static power.
        total_j: Measured energy of a call.
        clock_ratio: SM clock over the full clock.
        integer_data: Whether its integer opcodes compute data, not addresses.
    """

    name: str
    pattern: str
    work: KernelWork
    dynamic_j: float
    total_j: float
    clock_ratio: float
    integer_data: bool = False

    @property
    def group(self) -> str:
        """Its family where it has one ("hash/crc32"), else its name without the operands."""
        return self.name.removesuffix(f" {self.pattern}").partition("/")[0]

    @property
    def moved(self) -> str:
        """The pattern that its bytes and multiply-adds count under."""
        return ZEROS if self.pattern == ZEROS else RANDOM


def weighted_equations(
    kernels: Sequence[FitKernel],
    features: Floats,
    clocked: Bools,
    gamma: float,
    constants: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """Return the weighted equations at one gamma: matrix (m, n) and right side (m,).

    Args:
        kernels: The kernels.
        features: What multiplies each unknown, J, shape (m, n).
        clocked: Which unknowns follow the SM clock, shape (n,).
        gamma: Exponent of the clock.
        constants: Energy Z_k that is known beforehand, J, shape (m,).
    """
    ratios = np.array([kernel.clock_ratio**gamma for kernel in kernels])
    weights = np.array([1 / (RELATIVE * kernel.total_j) for kernel in kernels])
    measured = np.array([kernel.dynamic_j for kernel in kernels])
    scales = np.where(clocked[None, :], ratios[:, None], 1.0)
    return features * scales * weights[:, None], (measured - ratios * constants) * weights


def solve_drawn(matrix: Floats, right: Floats, middle: Floats, errors: Floats) -> tuple[Floats, float]:
    """Return the unknowns, none below 0, and the sum of squares that is left.

    Args:
        matrix: Weighted equations, shape (m, n).
        right: Their right side, shape (m,).
        middle: What each unknown is drawn to, shape (n,).
        errors: By which standard error it is, shape (n,); infinite: it is not drawn.
    """
    drawn = np.isfinite(errors)
    whole = np.vstack([matrix, np.diag(1 / errors)[drawn]])
    aim = np.concatenate([right, (middle / errors)[drawn]])
    values = solve_bounded(whole, aim)
    return values, float(np.sum((whole @ values - aim) ** 2))


def gamma_error(losses: Sequence[float], freedom: int) -> float:
    """Return the standard error of gamma: how far it moves to change the loss by a degree of freedom's share.

    Args:
        losses: Sum of squares that is left at each of `GAMMAS`.
        freedom: Kernels less fitted unknowns.
    """
    least = min(losses)
    inside = GAMMAS[np.array(losses) <= least + max(1.0, least / freedom)]
    return max(float(np.ptp(inside)) / 2, float(GAMMAS[1] - GAMMAS[0]))

"""The law of operands: what the data of the instructions in a loop cost (docs/operands.md).

A pass of a loop on some data takes, above what it takes on zeros,

    E - E_zeros = h H + p P + f F + o O        pJ, of a warp

H: bits in which the words that lanes i and i + 16 read and write differ. P: bits that change in a place of an
operand since the warp's instruction before, whatever its opcode. F: bits that results change in their
registers. O: bits that are set in the words that are read. The four numbers follow by least squares of
relative residuals, none below zero. Intervals are of the residuals, misfit of the law included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.core.distributions import student_quantile
from ptxbench.core.errors import InputError
from ptxbench.core.least_squares import nonnegative

Floats = npt.NDArray[np.float64]

_TERMS = 4


@dataclass(frozen=True)
class LoopBits:
    """Bits of a loop's copy, all lanes of a warp together.

    Attributes:
        halves: That differ from lane i to lane i + 16, of words read and written.
        ports: That change in an operand's place from one instruction to the next.
        flips: That results change in their registers.
        ones: That are set in words read.
    """

    halves: float
    ports: float
    flips: float
    ones: float

    @property
    def as_array(self) -> Floats:
        """All four, in the order of the law's terms."""
        return np.array([self.halves, self.ports, self.flips, self.ones])


@dataclass(frozen=True)
class LoopPoint:
    """A loop that was measured on some data.

    Attributes:
        loop: Its name.
        bits: Of a copy.
        energy_pj: Of a copy in a warp, static energy left out.
        zeros_pj: The same on zeros.
    """

    loop: str
    bits: LoopBits
    energy_pj: float
    zeros_pj: float


@dataclass(frozen=True)
class OperandLaw:
    """The law fitted to some loops.

    Attributes:
        terms_fj: What a bit of H, P, F and O costs, fJ.
        half_fj: Half-widths of their 95% intervals, fJ.
        residuals: Of each point, over its energy.
        left_out: Of each point of a loop by a fit to the other loops, over its energy; none of one loop.
    """

    terms_fj: tuple[float, ...]
    half_fj: tuple[float, ...]
    residuals: tuple[float, ...]
    left_out: tuple[float, ...]


def fit_law(points: Sequence[LoopPoint]) -> OperandLaw:
    """Return the law that is nearest to some points.

    Args:
        points: Of one loop or more; at least two more than the law has numbers.

    Raises:
        InputError: There are too few.
    """
    if len(points) < _TERMS + 2:
        raise InputError(f"{len(points)} points are too few for the law of operands: measure more patterns")
    matrix, right = _system(points)
    terms = nonnegative(matrix, right)
    residuals = right - matrix @ terms
    freedom = len(points) - _TERMS
    scatter = float(np.sqrt(np.square(residuals).sum() / freedom))
    half = student_quantile(freedom) * scatter * np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix)))
    loops = np.array([one.loop for one in points])
    left_out = np.zeros(len(points) if len(set(loops)) > 1 else 0)
    for loop in set(loops) if len(left_out) else ():
        own = loops == loop
        left_out[own] = right[own] - matrix[own] @ nonnegative(matrix[~own], right[~own])
    return OperandLaw(*(tuple(x.tolist()) for x in (1e3 * terms, 1e3 * half, residuals, left_out)))


def _system(points: Sequence[LoopPoint]) -> tuple[Floats, Floats]:
    energies = np.array([one.energy_pj for one in points])
    above = energies - np.array([one.zeros_pj for one in points])
    return np.stack([one.bits.as_array for one in points]) / energies[:, None], above / energies


def rms_pct(residuals: Sequence[float] | Floats) -> float:
    """Return the root mean square of residuals, %."""
    return 100 * float(np.sqrt(np.mean(np.square(residuals))))

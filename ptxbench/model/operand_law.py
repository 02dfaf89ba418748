"""The law of operands: what the data and the lanes of an instruction cost (docs/operands.md).

A warp of n active lanes takes, with the u lanes of these whose neighbour 16 lanes on is active, too,

    E = w + n l + n T t + U (u f(h) + ...)        pJ an instruction of a warp

t is the bits of its operands that change since the instruction before on the same unit, h those that differ
from lane i to lane i + 16, each over those of random words, from 0 to 1. f(s) = s (1 + k) / (s + k) is a line
for large k and a step for small k, with f(1) = 1. Forms differ by what stands in the last bracket:

    linear, saturating   u f(h): what the second half of a warp changes in the unit
    passes               (u f(h) + u f(c) + (n - 2 u) f(t)) / 2: the first half changes something, too; c is
                         the bits that differ from what lanes i + 16 had in the instruction before

w, l, T and U follow by least squares of relative residuals, k from a grid; which form holds is by Akaike's
criterion for few points (Hurvich and Tsai 1989, Biometrika 76). Intervals are of the residuals, misfit of the
form included; that of k is where the residuals grow by no more than F allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ptxbench.core.distributions import chi_square_tail, student_quantile
from ptxbench.core.errors import InputError
from ptxbench.core.least_squares import nonnegative
from ptxbench.core.threads import WARP

Floats = npt.NDArray[np.float64]

_HALF = WARP // 2
# From a step to nearly a line: f(1/2) is 1/2 within 0.1% at the last.
_BENDS = np.geomspace(1e-3, 1e2, 201)
_TERMS = ("issue_pj", "lane_pj", "time_pj", "halves_pj")


class Form(StrEnum):
    """What the halves of a warp cost."""

    LINEAR = "linear"
    SATURATING = "saturating"
    PASSES = "passes"


@dataclass(frozen=True)
class Point:
    """One row of a table, as the law sees it.

    Attributes:
        lanes: Active lanes, the first ones.
        halves: Bits that differ from lane i to lane i + 16, over those of random words.
        across: Bits in which lane i differs from what lane i + 16 had in the instruction before, likewise.
        moved: Bits that change since the instruction before, likewise.
        energy_pj: Of a warp's instruction, pJ.
        ci95_pj: Half-width of its 95% interval, pJ.
    """

    lanes: int
    halves: float
    across: float
    moved: float
    energy_pj: float
    ci95_pj: float

    @property
    def pairs(self) -> int:
        """Lanes i below 16 of which lane i + 16 is active, too."""
        return max(self.lanes - _HALF, 0)


@dataclass(frozen=True)
class Law:
    """A form fitted to the points of one instruction.

    Attributes:
        form: Which.
        terms_pj: w of the warp, l of a lane, T of a lane whose operands change in time, U of a pair whose
            halves differ, as random words do, pJ; NaN where the points do not tell w and l apart.
        half_pj: Half-widths of their 95% intervals, pJ.
        bend: k of f; infinite for a line.
        bend_range: Between which values k may be (95%).
        residuals: Of each point, over its energy.
        misfit: How likely residuals as large are by the errors of the measurement alone, from 0 to 1.
        score: Akaike's criterion: less is better, 2 is little and 10 much.
    """

    form: Form
    terms_pj: tuple[float, ...]
    half_pj: tuple[float, ...]
    bend: float
    bend_range: tuple[float, float]
    residuals: tuple[float, ...]
    misfit: float
    score: float

    @property
    def rms_pct(self) -> float:
        """Root mean square of the residuals, %."""
        return 100 * float(np.sqrt(np.mean(np.square(self.residuals))))

    def share_at(self, halves: float) -> float:
        """Return which part of U halves cost that differ by so much of random words."""
        return float(_bent(np.array([halves]), self.bend)[0])


def fit_laws(points: Sequence[Point]) -> dict[Form, Law]:
    """Return every form fitted to the points of one instruction, the best first.

    Args:
        points: At least two more than a form has numbers.

    Raises:
        InputError: There are too few points.
    """
    if len(points) < len(_TERMS) + 3:
        raise InputError(f"{len(points)} points are too few for the law of operands: measure more patterns")
    laws = [_fitted(points, form) for form in Form]
    return {law.form: law for law in sorted(laws, key=lambda law: law.score)}


def _fitted(points: Sequence[Point], form: Form) -> Law:
    energies = np.array([one.energy_pj for one in points])
    bends = [math.inf] if form is Form.LINEAR else list(_BENDS)
    matrices = [_columns(points, form, bend) / energies[:, None] for bend in bends]
    # Where all points have as many lanes, what is of the warp is in what is of a lane.
    told = np.array([len({one.lanes for one in points}) > 1, True, True, True])
    solved = [nonnegative(matrix[:, told], np.ones(len(points))) for matrix in matrices]
    squares = np.array(
        [float(np.square(1 - matrix[:, told] @ x).sum()) for matrix, x in zip(matrices, solved, strict=True)]
    )
    best = int(np.argmin(squares))
    numbers = int(told.sum()) + (len(bends) > 1)
    freedom = len(points) - numbers
    matrix, x = matrices[best][:, told], solved[best]
    residuals = 1 - matrix @ x
    t = student_quantile(freedom)
    scatter = math.sqrt(squares[best] / freedom)
    covariance = np.linalg.pinv(matrix.T @ matrix)
    terms, half = np.full(len(_TERMS), np.nan), np.full(len(_TERMS), np.nan)
    terms[told], half[told] = x, t * scatter * np.sqrt(np.diag(covariance))
    may_be = np.array(bends)[squares <= squares[best] * (1 + t**2 / freedom)]
    errors = np.array([one.ci95_pj / one.energy_pj / student_quantile(math.inf) for one in points])
    ratio = float(np.mean(np.square(residuals / errors)) * len(points) / freedom)
    count = numbers + 1
    score = len(points) * math.log(max(squares[best], 1e-12) / len(points)) + 2 * count * len(points) / max(
        len(points) - count - 1, 1
    )
    return Law(
        form,
        tuple(terms.tolist()),
        tuple(half.tolist()),
        float(bends[best]),
        (float(may_be.min()), float(may_be.max())),
        tuple(residuals.tolist()),
        chi_square_tail(freedom, ratio),
        score,
    )


def _columns(points: Sequence[Point], form: Form, bend: float) -> Floats:
    """Return what w, l, T and U are multiplied by, shape (points, 4)."""
    lanes, pairs = (np.array([getattr(one, name) for one in points], float) for name in ("lanes", "pairs"))
    halves, across, moved = (
        np.array([getattr(one, name) for one in points]) for name in ("halves", "across", "moved")
    )
    by_halves = pairs * _bent(halves, bend)
    if form is Form.PASSES:
        alone = lanes - 2 * pairs
        by_halves = (by_halves + pairs * _bent(across, bend) + alone * _bent(moved, bend)) / 2
    return np.stack([np.ones_like(lanes), lanes, lanes * moved, by_halves], axis=1)


def _bent(share: Floats, bend: float) -> Floats:
    return share if math.isinf(bend) else share * (1 + bend) / (share + bend)

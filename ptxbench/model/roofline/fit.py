"""From measured kernels to what a flop, a byte and a second cost: Eqs. 9 to 12 of Choi and Vuduc (2012).

Eq. 9 regresses energy per flop on bytes per flop, time per flop and the kind of flop. Here every kind of
flop and every memory level has its own energy, which is Eq. 9 with Eq. 10 in one regression:

    E = sum_k eps_k W_k + sum_l eps_l Q_l + pi_0 T

The paper divides by W. Here each equation is divided by its measured energy, so that a kernel counts by
its relative error: energy per flop spans three orders of magnitude over the intensities of one run.

What is known only roughly of a kernel, and moves all of them together (the instructions of its loop, how
static power grows with the temperature), is in the regression as one term each, drawn to what is known of it
by an observation with that error (mixed estimation, Theil and Goldberger 1961). Errors are those of the
jackknife over groups of neighbouring intensities (Bell and McCaffrey 2002), with Student's t: kernels that
are alike are off alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptxbench.core.bounds import positive
from ptxbench.core.distributions import student_quantile
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import Estimate
from ptxbench.model.roofline.equations import RooflineMachine

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# So many points more than unknowns, or the errors mean nothing.
_SPARE_POINTS = 3
# Beyond this two columns are one for the arithmetic of doubles and readings of a sensor.
_WORST_CONDITION = 1e5
_DRAWS = 2000
# No power is measured better than this fraction.
_LEAST_ERROR = 1e-3
_ROUNDS = 5


@dataclass(frozen=True)
class RooflinePoint:
    """One measured kernel.

    Attributes:
        name: Its name, for messages.
        kind: Kind of its flops, such as "f32".
        flops: Flops of one launch; a fused multiply-add is two.
        bytes_moved: Bytes of one launch by memory level, such as (("dram", 1e9),).
        time_s: Time of one launch, s.
        energy_j: Energy of one launch, J, static power included.
        extras: How much of each rough term it has, such as (("loop", 1e9),) for instructions of its loop.
        at_full_clock: Whether the SM clock stayed at that of the other points. Energies of a kernel that
            the power limit slowed down belong to another, lower voltage.
    """

    name: str
    kind: str
    flops: float
    bytes_moved: tuple[tuple[str, float], ...]
    time_s: float
    energy_j: float
    at_full_clock: bool = True
    extras: tuple[tuple[str, float], ...] = ()

    @property
    def group(self) -> tuple[str, tuple[str, ...], int]:
        """Kernels that are off alike: of one kind and level, within a factor of two in intensity."""
        moved = sum(count for _, count in self.bytes_moved)
        octave = math.floor(math.log2(self.flops / moved)) if moved > 0 else 1 << 10
        return self.kind, tuple(level for level, _ in self.bytes_moved), octave

    def bytes_of(self, level: str) -> float:
        """Return the bytes that it moves at one memory level."""
        return sum(count for name, count in self.bytes_moved if name == level)


@dataclass(frozen=True)
class RoughTerm:
    """A term that is known roughly before the fit.

    Attributes:
        name: Its name, as `RooflinePoint.extras` has it.
        value: What it is, J for each of what a kernel has of it.
        error: Standard error of that.
    """

    name: str
    value: float
    error: float


@dataclass(frozen=True)
class RooflineFit:
    """Fitted energies.

    Attributes:
        names: What each coefficient is: kinds of flop, then memory levels, then "constant".
        rough: Rough terms, whose coefficients follow.
        values: Coefficients, J per flop, J per byte and W, and of rough terms, shape (n,).
        covariance: Their covariance, shape (n, n).
        degrees_of_freedom: Groups of neighbouring intensities less coefficients, 1 at least.
        points: How many points the fit used.
        left_out: Names of the points that did not run at the full clock.
        residual: Median of the relative residuals, as a fraction.
        condition: Condition number of the regression, columns scaled to one.
    """

    names: tuple[str, ...]
    rough: tuple[str, ...]
    values: Float
    covariance: Float
    degrees_of_freedom: int
    points: int
    left_out: tuple[str, ...]
    residual: float
    condition: float

    def coefficient(self, name: str) -> Estimate:
        """Return one coefficient with its 95% interval, J per flop, J per byte or W.

        Raises:
            InputError: The fit has none of this name.
        """
        return self._estimate({name: 1.0})

    def energy(self, kind: str, level: str, flops: float, bytes_moved: float, time_s: float) -> Estimate:
        """Return what some work takes with its 95% interval, J: Eq. 2, a sum of the coefficients.

        Args:
            kind: Kind of its flops.
            level: Memory level of its bytes.
            flops: Its flops.
            bytes_moved: Its bytes.
            time_s: Its time, s.

        Raises:
            InputError: The fit lacks the kind or the level.
        """
        return self._estimate({kind: flops, level: bytes_moved, "constant": time_s})

    def _estimate(self, amounts: Mapping[str, float]) -> Estimate:
        """Return the sum of so much of each coefficient, with its 95% interval."""
        places = [self._place(name) for name in amounts]
        many = np.array(list(amounts.values()))
        variance = float(many @ self.covariance[np.ix_(places, places)] @ many)
        width = student_quantile(self.degrees_of_freedom) * math.sqrt(variance)
        return Estimate(float(many @ self.values[places]), width)

    def machine(
        self, kind: str, level: str, flop_s: float, byte_s: float, cap_w: float = math.inf
    ) -> RooflineMachine:
        """Return the machine of the equations for one kind of flop and one memory level.

        Args:
            kind: Kind of flop.
            level: Memory level.
            flop_s: Time of a flop at full throughput, s.
            byte_s: Time of a byte at full bandwidth, s.
            cap_w: Power limit, W.

        Raises:
            InputError: The fit lacks the kind or the level, or one of its energies is not positive.
        """
        flop_j, byte_j, constant_w = self.values[[self._place(n) for n in (kind, level, "constant")]]
        return RooflineMachine(flop_s, byte_s, float(flop_j), float(byte_j), float(constant_w), cap_w)

    def machines(
        self, kind: str, level: str, flop_s: float, byte_s: float, cap_w: float = math.inf, seed: int = 0
    ) -> list[RooflineMachine]:
        """Return machines drawn from the fit's errors, so that any quantity gets an interval.

        Draws with an energy that is not positive are no machine and are left out.

        Args:
            kind: Kind of flop.
            level: Memory level.
            flop_s: Time of a flop at full throughput, s.
            byte_s: Time of a byte at full bandwidth, s.
            cap_w: Power limit, W.
            seed: Seed of the draws.
        """
        places = [self._place(n) for n in (kind, level, "constant")]
        draws = np.random.default_rng(seed).multivariate_normal(
            self.values[places], self.covariance[np.ix_(places, places)], _DRAWS
        )
        good = draws[(draws[:, 0] > 0) & (draws[:, 1] > 0) & (draws[:, 2] >= 0) & (draws[:, 2] < cap_w)]
        return [
            RooflineMachine(flop_s, byte_s, float(flop_j), float(byte_j), float(constant_w), cap_w)
            for flop_j, byte_j, constant_w in good
        ]

    def _place(self, name: str) -> int:
        every = (*self.names, *self.rough)
        if name not in every:
            raise InputError(f"the fit has no {name!r}, only {', '.join(self.names)}")
        return every.index(name)


def fit_roofline(points: Sequence[RooflinePoint], rough: Sequence[RoughTerm] = ()) -> RooflineFit:
    """Fit the energies of flops and bytes, and the constant power, to measured kernels.

    Args:
        points: The kernels; those that did not run at the full clock are left out.
        rough: Terms that are known roughly; a kernel without one in its `extras` has none of it.

    Raises:
        InputError: Too few points, a point that is no number, or points that cannot tell two
            coefficients apart.
    """
    used = [point for point in points if point.at_full_clock]
    left_out = tuple(point.name for point in points if not point.at_full_clock)
    for point in used:
        _require_numbers(point)
    kinds = tuple(dict.fromkeys(point.kind for point in used))
    levels = tuple(dict.fromkeys(level for point in used for level, count in point.bytes_moved if count > 0))
    names = (*kinds, *levels, "constant")
    if len(used) < len(names) + _SPARE_POINTS:
        slowed = f"; {len(left_out)} more were slowed down by the power limit" if left_out else ""
        raise InputError(
            f"{len(used)} points are too few for {len(names)} energies ({', '.join(names)}){slowed}: "
            f"measure at least {len(names) + _SPARE_POINTS} at the full clock, such as on fewer SMs"
        )
    energy = np.array([point.energy_j for point in used])
    columns = [[point.flops * (point.kind == kind) for point in used] for kind in kinds]
    columns += [[point.bytes_of(level) for point in used] for level in levels]
    columns.append([point.time_s for point in used])
    _require_distinct(np.array(columns, dtype=float).T / energy[:, None], names)
    columns += [[dict(point.extras).get(term.name, 0.0) for point in used] for term in rough]
    design = np.array(columns, dtype=float).T / energy[:, None]
    groups = np.unique([str(point.group) for point in used], return_inverse=True)[1]
    found = _Regression(design, groups, rough).solve()
    return RooflineFit(
        names=names,
        rough=tuple(term.name for term in rough),
        values=found.values,
        covariance=found.covariance,
        degrees_of_freedom=max(1, int(groups.max()) + 1 - len(names)),
        points=len(used),
        left_out=left_out,
        residual=float(np.median(np.abs(found.residuals))),
        condition=found.condition,
    )


def _require_distinct(design: Float, names: Sequence[str]) -> None:
    """Refuse columns that are one for the arithmetic, or almost.

    Raises:
        InputError: They are.
    """
    condition = _condition(design)
    if not condition < _WORST_CONDITION:
        raise InputError(
            f"the points cannot tell {', '.join(names)} apart (condition {condition:.2g}): add intensities "
            "on both sides of the balance, or kernels on fewer SMs"
        )


def _condition(design: Float) -> float:
    """Return the condition number, columns scaled to one."""
    scale = np.linalg.norm(design, axis=0)
    return float(np.linalg.cond(design / scale)) if np.all(scale > 0) else math.inf


@dataclass(frozen=True)
class _Solution:
    """Coefficients, their covariance, and relative residuals."""

    values: Float
    covariance: Float
    residuals: Float
    condition: float


class _Regression:
    """Ones regressed on the shares that each term has in the energy of each kernel."""

    def __init__(self, design: Float, groups: Ints, rough: Sequence[RoughTerm]) -> None:
        self._design, self._groups = design, groups
        first = design.shape[1] - len(rough)
        self._prior = np.zeros((len(rough), design.shape[1]))
        for row, term in enumerate(rough):
            self._prior[row, first + row] = 1 / term.error
        self._known = np.array([term.value / term.error for term in rough])

    def solve(self) -> _Solution:
        """Return the coefficients; how much rough terms count follows the residuals, round by round."""
        error, everyone = _LEAST_ERROR, np.ones(len(self._groups), dtype=bool)
        spare = max(1, self._design.shape[0] + len(self._known) - self._design.shape[1])
        for _ in range(_ROUNDS):
            values = self._values(everyone, error)
            residuals = 1.0 - self._design @ values
            error = max(_LEAST_ERROR, math.sqrt(float(residuals @ residuals) / spare))
        return _Solution(values, self._covariance(values, error), residuals, _condition(self._design))

    def _values(self, used: Bools, error: float) -> Float:
        """Return the coefficients of some rows; rough terms weigh by the relative error of a row."""
        rows = np.vstack([self._design[used], error * self._prior])
        aim = np.concatenate([np.ones(int(used.sum())), error * self._known])
        norms = np.linalg.norm(rows, axis=0)
        # A term that no row is left of counts as none.
        scale = np.where(norms > 0, norms, 1.0)
        solved: Float = np.linalg.lstsq(rows / scale, aim, rcond=None)[0] / scale
        return solved

    def _covariance(self, values: Float, error: float) -> Float:
        """Return the jackknife over groups, and what the errors of rough terms add."""
        numbers = range(int(self._groups.max()) + 1)
        without = np.array([self._values(self._groups != number, error) for number in numbers])
        off = without - values
        jackknife = off.T @ off * (len(numbers) - 1) / len(numbers)
        if not len(self._known):
            return jackknife
        rows = np.vstack([self._design, error * self._prior])
        norms = np.linalg.norm(rows, axis=0)
        scale = np.where(norms > 0, norms, 1.0)
        inverse = np.linalg.pinv((rows / scale).T @ (rows / scale)) / np.outer(scale, scale)
        prior: Float = inverse @ self._prior.T * error**2
        return jackknife + prior @ prior.T


def interval_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the central 95% of some draws."""
    low, high = np.quantile(np.asarray(values, dtype=float), [0.025, 0.975])
    return float(low), float(high)


def _require_numbers(point: RooflinePoint) -> None:
    for name in ("flops", "time_s", "energy_j"):
        positive(f"{name} of {point.name}", getattr(point, name))
    for level, count in point.bytes_moved:
        if not (math.isfinite(count) and count >= 0):
            raise InputError(f"bytes at {level} of {point.name} are {count}; they must be finite, 0 or more")

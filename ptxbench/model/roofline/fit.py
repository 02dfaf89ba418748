"""From measured kernels to what a flop, a byte and a second cost: Eqs. 9 to 12 of Choi and Vuduc (2012).

Eq. 9 regresses energy per flop on bytes per flop, time per flop and the kind of flop. Here every kind of
flop and every memory level has its own energy, which is Eq. 9 with Eq. 10 in one regression:

    E = sum_k eps_k W_k + sum_l eps_l Q_l + pi_0 T

A third power (`ThirdPower`) may be added; `choose_fit` says which explains the kernels. The paper divides by
W. Here each equation is divided by its measured energy, so that a kernel counts by its relative error: energy
per flop spans three orders of magnitude over the intensities of one run.

What is known only roughly of a kernel, and moves all of them together (the instructions of its loop, how
static power grows with the temperature), is in the regression as one term each, drawn to what is known of it
by an observation with that error (mixed estimation, Theil and Goldberger 1961). Errors are those of the
jackknife over groups of neighbouring intensities (Bell and McCaffrey 2002), with Student's t: kernels that
are alike are off alike. Where kernels ran on four numbers of SMs or more, those of the jackknife over these
numbers are added.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.arrays import Bools, Floats, Ints
from ptxbench.core.bounds import positive
from ptxbench.core.distributions import student_quantile
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import Estimate
from ptxbench.model.roofline.equations import RooflineMachine
from ptxbench.model.roofline.third_power import ThirdPower

# So many points more than unknowns, or the errors mean nothing.
_SPARE_POINTS = 3
# Beyond this two columns are one for the arithmetic of doubles and readings of a sensor.
_WORST_CONDITION = 1e5
# Draws of an interval.
_DRAWS = 2000
# No power is measured better than this fraction.
_LEAST_ERROR = 1e-3
# Rounds in which the error of a point follows the residuals.
_ROUNDS = 5
# Fewer numbers of SMs cannot tell how kernels on as many are off together.
_FEWEST_SM_COUNTS = 4
_DRAM = "dram"


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
        bandwidth_share: Its bandwidth from DRAM over the highest.
        sms_share: Its SMs over all.
    """

    name: str
    kind: str
    flops: float
    bytes_moved: tuple[tuple[str, float], ...]
    time_s: float
    energy_j: float
    at_full_clock: bool = True
    extras: tuple[tuple[str, float], ...] = ()
    bandwidth_share: float = 0.0
    sms_share: float = 1.0

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
        names: What each coefficient is: kinds of flop, then memory levels, then "constant", then the third
            power, if there is one.
        third: Form of the third power; None for none.
        rough: Rough terms, whose coefficients follow.
        values: Coefficients, J per flop, J per byte and W, and of rough terms, shape (n,).
        errors: Parts of their covariance, shape (n, n), each with its degrees of freedom: groups of
            neighbouring intensities less coefficients, and numbers of SMs less one.
        points: How many points the fit used.
        left_out: Names of the points that did not run at the full clock.
        residuals: Relative residuals of the points, each 1 - fitted / measured.
        unseen: Root mean square of the relative errors of each group of neighbouring intensities as the
            others predict it.
        aic: Akaike's information criterion.
        condition: Condition number of the regression, columns scaled to one.
    """

    names: tuple[str, ...]
    third: ThirdPower | None
    rough: tuple[str, ...]
    values: Floats
    errors: tuple[tuple[Floats, int], ...]
    points: int
    left_out: tuple[str, ...]
    residuals: tuple[float, ...]
    unseen: float
    aic: float
    condition: float

    @property
    def residual(self) -> float:
        """Median of the absolute residuals."""
        return float(np.median(np.abs(self.residuals)))

    @property
    def rms_residual(self) -> float:
        """Root mean square of the residuals."""
        return math.sqrt(float(np.mean(np.square(self.residuals))))

    @property
    def covariance(self) -> Floats:
        """Covariance of the coefficients, shape (n, n)."""
        total: Floats = np.sum([part for part, _ in self.errors], axis=0)
        return total

    def coefficient(self, name: str) -> Estimate:
        """Return one coefficient with its 95% interval, J per flop, J per byte or W.

        Raises:
            InputError: The fit has none of this name.
        """
        return self.sum_of({name: 1.0})

    def energy(
        self,
        kind: str,
        level: str,
        flops: float,
        bytes_moved: float,
        time_s: float,
        bandwidth_share: float = 0.0,
    ) -> Estimate:
        """Return what some work on all SMs takes with its 95% interval, J: Eq. 2, a sum of the coefficients.

        Args:
            kind: Kind of its flops.
            level: Memory level of its bytes.
            flops: Its flops.
            bytes_moved: Its bytes.
            time_s: Its time, s.
            bandwidth_share: Its bandwidth from DRAM over the highest.

        Raises:
            InputError: The fit lacks the kind or the level.
        """
        amounts = {kind: flops, level: bytes_moved, "constant": time_s}
        if self.third is not None:
            amounts[self.third] = time_s * self.third.share(bandwidth_share if level == _DRAM else 0.0)
        return self.sum_of(amounts)

    def sum_of(self, amounts: Mapping[str, float]) -> Estimate:
        """Return the sum of so much of each coefficient, J or W, with its 95% interval.

        Raises:
            InputError: The fit has none of a name.
        """
        places = [self._place(name) for name in amounts]
        many = np.array(list(amounts.values()))
        variances = [float(many @ part[np.ix_(places, places)] @ many) for part, _ in self.errors]
        # (Satterthwaite 1946)
        spread = sum(v**2 / degrees for v, (_, degrees) in zip(variances, self.errors, strict=True))
        degrees = sum(variances) ** 2 / spread if spread > 0 else math.inf
        width = student_quantile(degrees) * math.sqrt(sum(variances))
        return Estimate(float(many @ self.values[places]), width)

    def drawn(self, rng: np.random.Generator) -> Floats:
        """Return draws of the coefficients from their errors, shape (draws, n)."""
        # Energies of a flop and watts are twelve orders of magnitude apart: both are drawn as of one.
        scale = np.sqrt(np.diag(self.covariance))
        scale = np.where(scale > 0, scale, 1.0)
        normal = rng.multivariate_normal(
            np.zeros(len(scale)), self.covariance / np.outer(scale, scale), _DRAWS
        )
        values: Floats = self.values + normal * scale
        return values

    def amounts(self, of: Sequence[Mapping[str, float]]) -> Floats:
        """Return how much some kernels have of each coefficient, 0 of those not named, shape (kernels, n).

        Raises:
            InputError: The fit has none of a name.
        """
        made = np.zeros((len(of), len(self.values)))
        for row, one in enumerate(of):
            for name, amount in one.items():
                made[row, self._place(name)] = amount
        return made

    def machine(self, kind: str, level: str, like: RooflineMachine) -> RooflineMachine:
        """Return the machine of the equations for one kind of flop and one memory level.

        Args:
            kind: Kind of flop.
            level: Memory level.
            like: Its times, limit and exponent.

        Raises:
            InputError: The fit lacks the kind or the level, or one of its energies is not positive.
        """
        figures = self._figures(self.values, kind, level)
        return self._machine(figures, like, like.flop_s, like.byte_s, like.clock_exponent)

    def machines(
        self,
        kind: str,
        level: str,
        like: RooflineMachine,
        scatter: tuple[float, float] = (0.0, 0.0),
        exponent_error: float = 0.0,
    ) -> list[RooflineMachine]:
        """Return machines drawn from the fit's errors, so that any quantity gets an interval.

        Draws with an energy that is not positive are no machine and are left out.

        Args:
            kind: Kind of flop.
            level: Memory level.
            like: Their times, limit and exponent.
            scatter: Relative standard errors of the time of a flop and of a byte.
            exponent_error: Standard error of the exponent of the clock.
        """
        rng = np.random.default_rng(0)
        drawn = self._figures(self.drawn(rng).T, kind, level).T
        times = np.array([like.flop_s, like.byte_s]) * (1 + rng.normal(size=(_DRAWS, 2)) * scatter)
        exponents = np.maximum(0.0, like.clock_exponent + exponent_error * rng.normal(size=_DRAWS))
        good = (drawn[:, :3].min(axis=1) > 0) & (drawn[:, 2:].sum(axis=1) < like.cap_w)
        return [
            self._machine(figures, like, float(flop_s), float(byte_s), float(exponent))
            for figures, (flop_s, byte_s), exponent in zip(
                drawn[good], times[good], exponents[good], strict=True
            )
        ]

    def _figures(self, values: Floats, kind: str, level: str) -> Floats:
        """Return energy of a flop and of a byte, constant power and that of the memory, from coefficients."""
        flop_j, byte_j, constant_w = (values[self._place(name)] for name in (kind, level, "constant"))
        third_w = np.zeros_like(constant_w) if self.third is None else values[self._place(self.third)]
        if self.third is ThirdPower.BUSY_SMS:
            return np.array([flop_j, byte_j, constant_w + third_w, np.zeros_like(third_w)])
        return np.array([flop_j, byte_j, constant_w, np.maximum(third_w, 0.0) * (level == _DRAM)])

    def _machine(
        self, figures: Floats, like: RooflineMachine, flop_s: float, byte_s: float, exponent: float
    ) -> RooflineMachine:
        """Return a machine from its figures, times and exponent; limit and form are those of `like`."""
        flop_j, byte_j, constant_w, memory_w = map(float, figures)
        return RooflineMachine(
            flop_s, byte_s, flop_j, byte_j, constant_w, like.cap_w, exponent, memory_w, like.memory_form
        )

    def _place(self, name: str) -> int:
        every = (*self.names, *self.rough)
        if name not in every:
            raise InputError(f"the fit has no {name!r}, only {', '.join(self.names)}")
        return every.index(name)


def choose_fit(
    points: Sequence[RooflinePoint], rough: Sequence[RoughTerm] = ()
) -> tuple[RooflineFit, tuple[RooflineFit, ...]]:
    """Return the fit with the third power that explains the kernels, and every fit that was tried.

    A third power is taken where it is above zero and both Akaike's criterion and the error on kernels
    that were left out are below those of Eq. 4; of several, the one with the least criterion. Kernels on one
    number of SMs cannot tell powers apart. The first that was tried is Eq. 4 itself.

    Raises:
        InputError: As `fit_roofline` without a third power.
    """
    plain = fit_roofline(points, rough)
    tried = [plain]
    sm_counts = {point.sms_share for point in points if point.at_full_clock}
    for third in ThirdPower if len(sm_counts) > 1 else ():
        # One that the kernels cannot tell from the other terms is none.
        with contextlib.suppress(InputError):
            tried.append(fit_roofline(points, rough, third))
    better = [
        one
        for one in tried[1:]
        if one.aic < plain.aic and one.unseen < plain.unseen and one.coefficient(one.names[-1]).value > 0
    ]
    return min(better, key=lambda one: one.aic, default=plain), tuple(tried)


def fit_roofline(
    points: Sequence[RooflinePoint], rough: Sequence[RoughTerm] = (), third: ThirdPower | None = None
) -> RooflineFit:
    """Fit the energies of flops and bytes, and the constant power, to measured kernels.

    Args:
        points: The kernels; those that did not run at the full clock are left out.
        rough: Terms that are known roughly; a kernel without one in its `extras` has none of it.
        third: Form of the third power; None for none.

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
    names = (*kinds, *levels, "constant", *([third] if third else []))
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
    if third is not None:
        columns.append([point.time_s * third.share(point.bandwidth_share, point.sms_share) for point in used])
    _require_distinct(np.array(columns, dtype=float).T / energy[:, None], names)
    columns += [[dict(point.extras).get(term.name, 0.0) for point in used] for term in rough]
    design = np.array(columns, dtype=float).T / energy[:, None]
    regression = _Regression(design, rough)
    found = regression.solve()
    groups = _numbered([str(point.group) for point in used])
    sm_counts = _numbered([f"{point.sms_share:.6f}" for point in used])
    unseen = regression.without(groups, found.error)
    errors = [
        (_jackknife(unseen - found.values) + regression.prior_covariance(found.error),
         max(1, int(groups.max()) + 1 - len(names))),
    ]  # fmt: skip
    if (counts := int(sm_counts.max()) + 1) >= _FEWEST_SM_COUNTS:
        errors.append((_jackknife(regression.without(sm_counts, found.error) - found.values), counts - 1))
    square = float(found.residuals @ found.residuals)
    return RooflineFit(
        names=names,
        third=third,
        rough=tuple(term.name for term in rough),
        values=found.values,
        errors=tuple(errors),
        points=len(used),
        left_out=left_out,
        residuals=tuple(map(float, found.residuals)),
        unseen=math.sqrt(float(np.mean((1 - np.sum(design * unseen[groups], axis=1)) ** 2))),
        aic=len(used) * math.log(max(square / len(used), _LEAST_ERROR**2)) + 2 * design.shape[1],
        condition=found.condition,
    )


def _numbered(labels: Sequence[str]) -> Ints:
    """Return a number for each label, the same for the same."""
    numbers: Ints = np.unique(labels, return_inverse=True)[1]
    return numbers


def _jackknife(off: Floats) -> Floats:
    """Return the covariance of coefficients that are off by rows of `off` without one group each."""
    covariance: Floats = off.T @ off * (len(off) - 1) / len(off)
    return covariance


def _require_distinct(design: Floats, names: Sequence[str]) -> None:
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


def _condition(design: Floats) -> float:
    """Return the condition number, columns scaled to one."""
    scale = np.linalg.norm(design, axis=0)
    return float(np.linalg.cond(design / scale)) if np.all(scale > 0) else math.inf


@dataclass(frozen=True)
class _Solution:
    """Coefficients, relative residuals, and the relative error of a kernel."""

    values: Floats
    residuals: Floats
    error: float
    condition: float


class _Regression:
    """Ones regressed on the shares that each term has in the energy of each kernel."""

    def __init__(self, design: Floats, rough: Sequence[RoughTerm]) -> None:
        self._design = design
        first = design.shape[1] - len(rough)
        self._prior = np.zeros((len(rough), design.shape[1]))
        for row, term in enumerate(rough):
            self._prior[row, first + row] = 1 / term.error
        self._known = np.array([term.value / term.error for term in rough])

    def solve(self) -> _Solution:
        """Return the coefficients; how much rough terms count follows the residuals, round by round."""
        error, everyone = _LEAST_ERROR, np.ones(len(self._design), dtype=bool)
        spare = max(1, self._design.shape[0] + len(self._known) - self._design.shape[1])
        for _ in range(_ROUNDS):
            values = self._values(everyone, error)
            residuals = 1.0 - self._design @ values
            error = max(_LEAST_ERROR, math.sqrt(float(residuals @ residuals) / spare))
        return _Solution(values, residuals, error, _condition(self._design))

    def _values(self, used: Bools, error: float) -> Floats:
        """Return the coefficients of some rows; rough terms weigh by the relative error of a row."""
        rows = np.vstack([self._design[used], error * self._prior])
        aim = np.concatenate([np.ones(int(used.sum())), error * self._known])
        norms = np.linalg.norm(rows, axis=0)
        # A term that no row is left of counts as none.
        scale = np.where(norms > 0, norms, 1.0)
        solved: Floats = np.linalg.lstsq(rows / scale, aim, rcond=None)[0] / scale
        return solved

    def without(self, groups: Ints, error: float) -> Floats:
        """Return the coefficients without each group, shape (groups, n).

        Args:
            groups: Number of each row's group.
            error: Relative error of a row.
        """
        return np.array([self._values(groups != number, error) for number in range(int(groups.max()) + 1)])

    def prior_covariance(self, error: float) -> Floats:
        """Return what the errors of rough terms add to the covariance."""
        rows = np.vstack([self._design, error * self._prior])
        norms = np.linalg.norm(rows, axis=0)
        scale = np.where(norms > 0, norms, 1.0)
        inverse = np.linalg.pinv((rows / scale).T @ (rows / scale)) / np.outer(scale, scale)
        prior: Floats = inverse @ self._prior.T * error**2
        covariance: Floats = prior @ prior.T
        return covariance


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

"""Fits of power over the SM clock: least squares at every ridge point, and the curves that are not rejected.

    P(f) = P_idle + alpha f v(f)^2,    v(f) = 1 + beta x + kappa x^2,    x = max(0, f - tau)

The scatter of power is taken as a share of it, so that residuals are relative. At one ridge point tau the fit
is smooth: Levenberg-Marquardt, with beta and kappa at least 0, because voltage does not fall with the clock.
Over tau it is not, so that tau is a grid, which zooms in on the 95% likelihood region (profile likelihood;
Venzon and Moolgavkar 1988). A fit of all parameters at once ends at whatever ridge it began near.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxbench.core.arrays import Floats
from ptxbench.core.distributions import student_quantile

# Columns of the coefficients: P_idle, p, q, r of P = P_idle + F (p + q x + r x^2)^2; F and x over the highest
# clock. So alpha = p^2, beta = q / p, kappa = r / p.
_IDLE, _P, _Q, _R = range(4)
# Which of them are free; of those with none below 0 the best is taken.
LINEAR = ((_IDLE, _P, _Q),)
QUADRATIC = (*LINEAR, (_IDLE, _P, _R), (_IDLE, _P, _Q, _R))

# Clocks of the ridge that are tried at once; how often the tried range is narrowed to those that fit; steps
# of each fit; and the least slope that one begins at, as a part of the mean power.
_RIDGES = 49
_ZOOMS = 5
_STEPS = 25
_LEAST_SLOPE = 1e-3
# Relative scatter below which powers count as exact: NVML gives whole mW.
_EXACT = 1e-5
# Relative residuals that no misfit is looked for in: settled powers of an H200 repeat to 0.16%.
_REPEATED = 2e-3
# Draws of the scatter.
_DRAWS = 2000
# Clocks above the ridge among which the one of least energy is.
_CLOCKS = 1001
# Of a step that leaves the region, what is left after each try to stay in it.
_SHORTER, _TRIES = 0.7, 12


@dataclass(frozen=True)
class Samples:
    """Clock and power in ascending order of the clock, both of shape (n,).

    Attributes:
        clocks: Clocks over the highest one.
        powers: Power, W.
        top_mhz: The highest clock.
    """

    clocks: Floats
    powers: Floats
    top_mhz: float

    def model_w(self, ridges: Floats, coefficients: Floats) -> Floats:
        """Return the power of curves at the clocks, W, shape (..., n)."""
        return coefficients[..., :1] + self.clocks * _root(_above(self.clocks, ridges), coefficients) ** 2

    def residuals(self, ridges: Floats, coefficients: Floats) -> Floats:
        """Return by what share of it each power lies above curves, shape (..., n)."""
        return 1 - self.model_w(ridges, coefficients) / self.powers

    def squares(self, ridges: Floats, coefficients: Floats) -> Floats:
        """Return the sum of squared relative residuals of curves, not below the rounding of the powers."""
        squares = np.sum(self.residuals(ridges, coefficients) ** 2, axis=-1)
        return np.asarray(np.maximum(squares, self.exact))

    @property
    def exact(self) -> float:
        """Sum of squared relative residuals that is no more than the rounding of the powers."""
        return len(self.powers) * _EXACT**2

    def jacobian(self, ridges: Floats, coefficients: Floats) -> Floats:
        """Return the derivatives of relative power by the coefficients, shape (..., n, 4)."""
        above = _above(self.clocks, ridges)
        slope = 2 * self.clocks * _root(above, coefficients)
        columns = [np.ones_like(above), slope, slope * above, slope * above**2]
        return np.stack(columns, axis=-1) / self.powers[:, None]


def _above(clocks: Floats, ridges: Floats) -> Floats:
    """Return how far clocks are above ridge points, 0 below them, shape (..., n)."""
    return np.asarray(np.maximum(0.0, clocks - ridges[..., None]))


def _root(above: Floats, coefficients: Floats) -> Floats:
    """Return the square root of alpha times the voltage, shape (..., n)."""
    p, q, r = (coefficients[..., at, None] for at in (_P, _Q, _R))
    return np.asarray(p + above * (q + above * r))


@dataclass(frozen=True)
class Line:
    """A straight line through relative powers: a voltage that stays.

    Attributes:
        idle_w: Power where it meets 0 MHz.
        slope_w: Its rise to the highest clock, W.
        errors: Standard errors of both.
        squares: Sum of squared relative residuals.
    """

    idle_w: float
    slope_w: float
    errors: tuple[float, float]
    squares: float

    @classmethod
    def of(cls, samples: Samples) -> Line:
        """Fit it."""
        design = np.column_stack([np.ones_like(samples.clocks), samples.clocks]) / samples.powers[:, None]
        inverse = np.linalg.pinv(design)
        idle_w, slope_w = inverse @ np.ones_like(samples.clocks)
        left = 1 - design @ [idle_w, slope_w]
        scatter = math.sqrt(float(left @ left) / (len(left) - 2))
        errors = scatter * np.linalg.norm(inverse, axis=1)
        squares = max(float(left @ left), samples.exact)
        return cls(float(idle_w), float(slope_w), (float(errors[0]), float(errors[1])), squares)


@dataclass(frozen=True)
class Profile:
    """The best fit of one law at each of some ridge points.

    Attributes:
        samples: What it was fitted to.
        ridges: Ridge points over the highest clock, ascending, shape (t,).
        coefficients: P_idle, p, q, r at each, shape (t, 4).
        squares: Sum of squared relative residuals at each, shape (t,).
        freedom: Samples less fitted parameters.
    """

    samples: Samples
    ridges: Floats
    coefficients: Floats
    squares: Floats
    freedom: int

    @classmethod
    def of(cls, samples: Samples, law: tuple[tuple[int, ...], ...]) -> Profile:
        """Fit a law, `LINEAR` or `QUADRATIC`."""
        lowest, highest = low, high = samples.clocks[0], samples.clocks[-2]
        freedom = len(samples.clocks) - len(law[-1]) - 1
        for _ in range(_ZOOMS):
            ridges = np.linspace(low, high, _RIDGES)
            found = cls(samples, ridges, *_fitted(samples, ridges, law), freedom)
            inside, step = np.flatnonzero(found.squares <= found.limit), ridges[1] - ridges[0]
            if 2 * len(inside) > _RIDGES:
                break
            low, high = max(lowest, ridges[inside[0]] - step), min(highest, ridges[inside[-1]] + step)
        return found

    @property
    def best(self) -> int:
        """Index of the best ridge point."""
        return int(np.argmin(self.squares))

    @property
    def least(self) -> float:
        """Sum of squares of the best fit."""
        return float(np.min(self.squares))

    @cached_property
    def limit(self) -> float:
        """Sum of squares up to which a curve is within the 95% region (F test)."""
        return self.least * (1 + student_quantile(self.freedom) ** 2 / self.freedom)

    def ridge_interval(self) -> tuple[float, float]:
        """Return the 95% interval of the ridge point, over the highest clock."""
        inside = np.flatnonzero(self.squares <= self.limit)
        return self._crossing(inside[0], inside[0] - 1), self._crossing(inside[-1], inside[-1] + 1)

    def _crossing(self, inside: int, outside: int) -> float:
        """Return where the squares pass the limit between two neighbours; the last ridge has none."""
        if not 0 <= outside < len(self.ridges):
            return float(self.ridges[inside])
        ends = [inside, outside]
        return float(np.interp(self.limit, self.squares[ends], self.ridges[ends]))

    def likely(self) -> tuple[Floats, Floats]:
        """Return curves at the edge of the 95% region: ridge points (m,) and coefficients (m, 4).

        At each ridge point the region of the coefficients is an ellipsoid. The curves are those at which a
        parameter, the clock of least energy, or the voltage at a clock is at its largest and its least.
        """
        inside = self.squares <= self.limit
        ridges, centres = self.ridges[inside], self.coefficients[inside]
        slack = np.sqrt(np.maximum(0.0, self.limit - self.squares[inside]))
        jacobian = self.samples.jacobian(ridges, centres)
        # Samples that do not determine a direction leave it as it is.
        spread = np.linalg.pinv(np.einsum("tnk,tnl->tkl", jacobian, jacobian), rcond=1e-12, hermitian=True)
        edges = [(ridges, centres)]
        for gradient in _gradients(ridges, centres, float(self.samples.clocks[0])):
            moved = np.einsum("tkl,tl->tk", spread, gradient)
            length = np.sqrt(np.maximum(np.sum(moved * gradient, axis=1), 1e-300))
            step = (slack / length)[:, None] * moved
            edges += [(ridges, self._within(ridges, centres, sign * step)) for sign in (-1, 1)]
        return np.concatenate([r for r, _ in edges]), np.concatenate([c for _, c in edges])

    def _within(self, ridges: Floats, centres: Floats, step: Floats) -> Floats:
        """Return the centres after a step, shortened to stay within the region."""
        for _ in range(_TRIES):
            moved = centres + step
            moved[:, _Q:] = np.maximum(0.0, moved[:, _Q:])
            outside = (self.samples.squares(ridges, moved) > self.limit * 1.001) | (moved[:, _P] <= 0)
            if not outside.any():
                return moved
            step = np.where(outside[:, None], _SHORTER * step, step)
        return np.where(outside[:, None], centres, moved)

    def misfit_probability(self) -> float:
        """Return how probable residuals that follow the clock as much are, if the best fit is true.

        It is 1 for residuals that are as small as power repeats.

        Two statistics, one for each length of a wave: that of Durbin and Watson (1950), and the Cramer-von
        Mises one of the cumulative sums (Stute 1997). Their distribution is that of normal scatter, less what
        the fit takes of it; the probability is twice the smaller one (Bonferroni).
        """
        if self.least <= self.freedom * _REPEATED**2:
            return 1.0
        ridge, best = self.ridges[self.best], self.coefficients[self.best]
        residuals = self.samples.residuals(ridge, best)
        rng = np.random.default_rng(0)
        by_ridge = _by_ridge(self.samples, ridge, best)
        # A coefficient that is held at 0, and a ridge of no effect, take nothing of the scatter.
        fitted = np.column_stack([self.samples.jacobian(ridge, best)[:, best != 0], by_ridge])
        base, sizes, _ = np.linalg.svd(fitted / np.maximum(np.linalg.norm(fitted, axis=0), 1e-300))
        base = base[:, : int(np.sum(sizes > 1e-9 * sizes[0]))]
        scatter = rng.standard_normal((_DRAWS, len(residuals)))
        scatter -= scatter @ base @ base.T
        shares = [np.mean(of(scatter) >= of(residuals)) for of in (_neighbours_alike, _cumulative)]
        return min(1.0, 2 * float(min(shares)))


def _neighbours_alike(residuals: Floats) -> Floats:
    """Return 4 less the Durbin-Watson statistic of residuals in the order of the clock."""
    steps = np.sum(np.diff(residuals, axis=-1) ** 2, axis=-1)
    return np.asarray(4 - steps / np.sum(residuals**2, axis=-1))


def _cumulative(residuals: Floats) -> Floats:
    """Return the Cramer-von Mises statistic of the cumulative sums of residuals."""
    sums = np.sum(np.cumsum(residuals, axis=-1) ** 2, axis=-1)
    return np.asarray(sums / np.sum(residuals**2, axis=-1))


def _by_ridge(samples: Samples, ridge: Floats, best: Floats) -> Floats:
    """Return the derivative of relative power by the ridge point, shape (n,)."""
    above = _above(samples.clocks, ridge)
    slope = -(best[_Q] + 2 * best[_R] * above) * (above > 0)
    return np.asarray(2 * samples.clocks * _root(above, best) * slope / samples.powers)


def _gradients(ridges: Floats, coefficients: Floats, low: float) -> list[Floats]:
    """Return derivatives by the coefficients of what has an interval, each of shape (t, 4)."""
    found = [np.tile(one, (len(ridges), 1)) for one in np.eye(4)]
    p, q, r = coefficients[:, _P], coefficients[:, _Q], coefficients[:, _R]
    zeros = np.zeros_like(p)
    for share in (0.25, 0.5, 1.0):
        # Of the voltage at this share of the clocks above the ridge.
        above = share * (1 - ridges)
        found.append(np.column_stack([zeros, -(q * above + r * above**2) / p, above, above**2]) / p[:, None])
    # Of the slope of the energy, -P_idle / f^2 + 2 w w' with w = p + q x + r x^2, where it is least.
    best = least_energy(ridges, coefficients, low)
    x = best - ridges
    w, rise = p + x * (q + x * r), q + 2 * r * x
    found.append(np.column_stack([-1 / best**2, 2 * rise, 2 * (x * rise + w), 2 * (x**2 * rise + 2 * x * w)]))
    return found


def least_energy(ridges: Floats, coefficients: Floats, low: float) -> Floats:
    """Return the clock of least power over clock of each curve, over the highest clock, shape (t,).

    Args:
        ridges: Ridge points, shape (t,).
        coefficients: Coefficients, shape (t, 4).
        low: Lowest clock. Below the ridge energy falls with the clock, unless P_idle is below 0.
    """
    begin = np.where(coefficients[:, _IDLE] < 0, low, np.clip(ridges, low, 1.0))
    clocks = np.linspace(begin, 1.0, _CLOCKS, axis=1)
    energies = coefficients[:, :1] / clocks + _root(_above(clocks, ridges), coefficients) ** 2
    return np.take_along_axis(clocks, np.argmin(energies, axis=1)[:, None], axis=1)[:, 0]


def _fitted(samples: Samples, ridges: Floats, law: tuple[tuple[int, ...], ...]) -> tuple[Floats, Floats]:
    """Return the coefficients of the best fit at each ridge point, and its sum of squares."""
    line = Line.of(samples)
    base = np.zeros((len(ridges), 4))
    # A line that falls has no root; the fits that begin there end at a slope of about 0.
    base[:, _IDLE], base[:, _P] = (
        line.idle_w,
        math.sqrt(max(line.slope_w, _LEAST_SLOPE * samples.powers.mean())),
    )
    best, squares = base, samples.squares(ridges, base)
    for free in law:
        found = _levenberg_marquardt(samples, ridges, _start(samples, ridges, base, free), free)
        sizes = np.where((found[:, _P:] < 0).any(axis=1), math.inf, samples.squares(ridges, found))
        best = np.where((sizes < squares)[:, None], found, best)
        squares = np.minimum(sizes, squares)
    return best, squares


def _start(samples: Samples, ridges: Floats, base: Floats, free: tuple[int, ...]) -> Floats:
    """Return where a fit begins: by linear least squares with v^2 = 1 + c x or 1 + c x^2."""
    power = 1 if _Q in free else 2
    above = _above(samples.clocks, ridges)
    columns = [
        np.ones_like(above),
        np.broadcast_to(samples.clocks, above.shape),
        samples.clocks * above**power,
    ]
    design = np.stack(columns, axis=-1) / samples.powers[:, None]
    found = np.linalg.pinv(design) @ np.ones(len(samples.powers))
    start = base.copy()
    start[:, _IDLE] = found[:, 0]
    start[:, _P] = np.sqrt(np.maximum(found[:, 1], 10 * _LEAST_SLOPE * samples.powers.mean()))
    start[:, _P + power] = np.maximum(found[:, 2], 0.0) / 2 / start[:, _P]
    return start


def _levenberg_marquardt(samples: Samples, ridges: Floats, start: Floats, free: tuple[int, ...]) -> Floats:
    """Return the coefficients that fit best at each ridge point, those that are not free as they are."""
    found, squares = start, samples.squares(ridges, start)
    damping = np.full(len(ridges), 1e-3)
    unit = np.eye(len(free))
    for _ in range(_STEPS):
        jacobian = samples.jacobian(ridges, found)[:, :, list(free)]
        gradient = np.einsum("tnk,tn->tk", jacobian, samples.residuals(ridges, found))
        curvature = np.einsum("tnk,tnl->tkl", jacobian, jacobian)
        size = np.einsum("tkk->tk", curvature)
        matrix = curvature + unit * (damping[:, None] * size + 1e-15)[:, :, None]
        moved = found.copy()
        moved[:, list(free)] += np.linalg.solve(matrix, gradient[:, :, None])[:, :, 0]
        sizes = samples.squares(ridges, moved)
        better = sizes < squares
        found, squares = np.where(better[:, None], moved, found), np.minimum(sizes, squares)
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-9, 1e9)
    return found

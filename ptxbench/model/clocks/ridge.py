"""Power over the SM clock, and the clock of least energy: Schoonhoven et al. (2022), Eqs. 2 and 3.

    P(f) = min(P_max, P_idle + alpha f v(f)^2)

The core voltage v, relative to its lowest, is flat up to the ridge point tau and rises with beta above
it. As printed, Eq. 3 jumps from 1 to 0 at tau; the continuous form is used here:

    v(f) = 1 + beta max(0, f - tau)

A kernel that is bound by the SM clock takes a time of 1/f, so that its energy goes with P(f) / f. It is
least at or above the ridge, never below it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxbench.core.bounds import positive
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import Estimate
from ptxbench.core.printable import printable
from ptxbench.storage.file_errors import read_text

Float = npt.NDArray[np.float64]

_PARAMETERS = 4
_SPARE_SAMPLES = 3
# Samples within this fraction of the power limit may have been held down by it.
_NEAR_CAP = 0.02
# Clocks that a level needs, to be told from a curve.
_LEVEL_CLOCKS = 3
# By how much the Bayesian information criterion must prefer a ridge to a line ("very strong", Kass and
# Raftery 1995).
_STRONG_EVIDENCE = 10.0
# Relative scatter below which powers count as exact.
_EXACT = 1e-7
# The grid: ridge points, slopes, and the steepest slope: voltage over the highest clock.
_RIDGES = 160
_SLOPES = 100
_STEEPEST = 4.0
_DRAWS = 200
_SEARCHED = 0.1
_COLUMNS = ("clock_mhz", "power_w")
# No clock and no power of a GPU is larger.
_HIGHEST = 1e5
_LONGEST = 40


@dataclass(frozen=True)
class PowerSample:
    """Mean power of one kernel at one clock.

    Attributes:
        clock_mhz: SM clock, MHz.
        power_w: Power, W.
    """

    clock_mhz: float
    power_w: float


@dataclass(frozen=True)
class PowerCurve:
    """Eqs. 2 and 3 with their parameters.

    Attributes:
        idle_w: P_idle, W.
        alpha_w_per_mhz: alpha, W per MHz at the lowest voltage.
        ridge_mhz: tau, MHz.
        beta_per_mhz: beta, relative voltage per MHz.
        cap_w: P_max, W; infinite where no limit was given.
    """

    idle_w: float
    alpha_w_per_mhz: float
    ridge_mhz: float
    beta_per_mhz: float
    cap_w: float = math.inf

    def voltage(self, clock_mhz: float) -> float:
        """Return the core voltage relative to its lowest: Eq. 3, continuous."""
        return 1 + self.beta_per_mhz * max(0.0, clock_mhz - self.ridge_mhz)

    def power_w(self, clock_mhz: float) -> float:
        """Return the power at a clock, W: Eq. 2."""
        dynamic_w = self.alpha_w_per_mhz * clock_mhz * self.voltage(clock_mhz) ** 2
        return min(self.cap_w, self.idle_w + dynamic_w)

    def relative_energy(self, clock_mhz: float) -> float:
        """Return power over clock, W per MHz: up to a factor, energy of a kernel bound by the SM clock."""
        return self.power_w(clock_mhz) / clock_mhz

    def best_clock_mhz(self, low_mhz: float, high_mhz: float) -> float:
        """Return the clock of least energy within a range, MHz."""
        if self.idle_w < 0:
            # Power falls faster than the clock, and the energy with it.
            return low_mhz
        # Energy falls up to the ridge, so that it is among the candidates.
        ridge_mhz = min(max(self.ridge_mhz, low_mhz), high_mhz)
        clocks = np.linspace(ridge_mhz, high_mhz, 2001)
        voltage = 1 + self.beta_per_mhz * np.maximum(0.0, clocks - self.ridge_mhz)
        energy = self.idle_w / clocks + self.alpha_w_per_mhz * voltage**2
        return float(clocks[int(np.argmin(energy))])


@dataclass(frozen=True)
class Ridge:
    """What power samples over the clock tell.

    Attributes:
        found: Whether there is a ridge within the clocks of the samples.
        verdict: The same in a sentence.
        curve: The fitted curve; without a ridge, the line (beta 0) or the curve that rises everywhere.
        idle_w: P_idle with its 95% interval, W: the power where the line through the clocks meets 0 MHz.
        alpha_w_per_mhz: alpha with its 95% interval, W per MHz.
        beta_per_mhz: beta with its 95% interval, relative voltage per MHz; 0 without one for a line.
        ridge_mhz: tau with its 95% interval from the profile likelihood; NaN where none was found.
        best_clock_mhz: Clock of least energy of a kernel bound by the SM clock, with its 95% interval; NaN
            where the samples fit no curve of the model.
        search_mhz: Clocks that are worth trying: within 10% of the best (section V-D), NaN without one.
        range_mhz: Lowest and highest clock of the samples used.
        residual_w: Standard deviation of the samples about the curve, W.
        near_cap: How many samples were left out because they lie at the power limit.
    """

    found: bool
    verdict: str
    curve: PowerCurve
    idle_w: Estimate
    alpha_w_per_mhz: Estimate
    beta_per_mhz: Estimate
    ridge_mhz: Estimate
    best_clock_mhz: Estimate
    search_mhz: tuple[float, float]
    range_mhz: tuple[float, float]
    residual_w: float
    near_cap: int


def fit_ridge(samples: Sequence[PowerSample], cap_w: float = math.inf, seed: int = 0) -> Ridge:
    """Fit the power curve to samples of one kernel that loads the GPU, at several clocks.

    A grid over the ridge point and the slope, with the other two by linear least squares, gives the
    start of a Levenberg-Marquardt fit of all four, which alone ends at whatever ridge it began near.

    Args:
        samples: Clock and power; at least seven below the power limit.
        cap_w: Power limit, W; samples at it are left out.
        seed: Seed of the bootstrap that gives the interval of the best clock.

    Raises:
        InputError: A sample or the limit is no positive number, or there are too few.
    """
    _require_valid(samples, cap_w)
    used = sorted(
        (sample for sample in samples if sample.power_w < (1 - _NEAR_CAP) * cap_w),
        key=lambda sample: sample.clock_mhz,
    )
    near_cap = len(samples) - len(used)
    clocks = np.array([sample.clock_mhz for sample in used])
    powers = np.array([sample.power_w for sample in used])
    needed = _PARAMETERS + _SPARE_SAMPLES
    if len(np.unique(clocks)) < needed:
        beside = f" ({near_cap} more lie at the power limit)" if near_cap else ""
        raise InputError(
            f"{len(np.unique(clocks))} clocks below the power limit are too few{beside}: "
            f"measure at {needed} or more"
        )
    grid = _Grid(clocks)
    line, best = _line(clocks, powers), _polished(clocks, powers, grid.best(powers))
    low_mhz, high_mhz = grid.ridge_interval(powers, best)
    outcome = _outcome(clocks, powers, line, best, low_mhz)
    curve = (line if outcome is _Outcome.FLAT else best).curve
    errors = _parameter_errors(clocks, powers, curve)
    if outcome is _Outcome.FLAT and curve.idle_w + errors[0] < 0:
        outcome = _Outcome.STEEP
    elif outcome is not _Outcome.RISING and curve.alpha_w_per_mhz <= errors[1]:
        outcome = _Outcome.LEVEL
    fits = outcome not in (_Outcome.STEEP, _Outcome.LEVEL)
    best_mhz = curve.best_clock_mhz(clocks[0], clocks[-1]) if fits else math.nan
    best_error_mhz = 0.0 if fits else math.nan
    if outcome in (_Outcome.RIDGE, _Outcome.RISING):
        best_error_mhz = grid.best_clock_error_mhz(powers, curve, seed)
    return Ridge(
        found=outcome is _Outcome.RIDGE,
        verdict=outcome.sentence(float(clocks[0]), float(clocks[-1])),
        curve=PowerCurve(curve.idle_w, curve.alpha_w_per_mhz, curve.ridge_mhz, curve.beta_per_mhz, cap_w),
        idle_w=Estimate(curve.idle_w, errors[0]),
        alpha_w_per_mhz=Estimate(curve.alpha_w_per_mhz, errors[1]),
        beta_per_mhz=Estimate(curve.beta_per_mhz, errors[2]),
        ridge_mhz=(
            Estimate(curve.ridge_mhz, max(high_mhz - curve.ridge_mhz, curve.ridge_mhz - low_mhz))
            if outcome is _Outcome.RIDGE
            else Estimate(math.nan, math.nan)
        ),
        best_clock_mhz=Estimate(best_mhz, best_error_mhz),
        search_mhz=searched(best_mhz),
        range_mhz=(float(clocks[0]), float(clocks[-1])),
        residual_w=math.sqrt(best.squares / (len(clocks) - _PARAMETERS)),
        near_cap=near_cap,
    )


def searched(best_mhz: float) -> tuple[float, float]:
    """Return the clocks that are worth trying: within 10% of the best one (section V-D), MHz."""
    return (1 - _SEARCHED) * best_mhz, (1 + _SEARCHED) * best_mhz


def fitted_cap_w(samples: Sequence[PowerSample]) -> float:
    """Fit P_max of Eq. 2: the level of the highest clocks where power no longer rises with the clock.

    Args:
        samples: Clock and power; at least seven clocks must lie below the level.

    Returns:
        P_max in W, infinite where the samples are no better explained with a limit than without.

    Raises:
        InputError: A sample is no positive number.
    """
    _require_valid(samples, math.inf)
    ordered = sorted(samples, key=lambda sample: sample.clock_mhz)
    clocks = np.array([sample.clock_mhz for sample in ordered])
    powers = np.array([sample.power_w for sample in ordered])
    level = _level_count(powers)
    free = len(powers) - level
    if level < _LEVEL_CLOCKS or len(np.unique(clocks[:free])) < _PARAMETERS + _SPARE_SAMPLES:
        return math.inf
    cap_w = float(np.mean(powers[free:]))
    without = _polished(clocks, powers, _Grid(clocks).best(powers)).squares
    below = _polished(clocks[:free], powers[:free], _Grid(clocks[:free]).best(powers[:free])).curve
    limited = np.minimum(cap_w, [below.power_w(clock) for clock in clocks])
    count, squares = len(clocks), float(np.sum((powers - limited) ** 2))
    gained = count * math.log(_at_least_exact(without, powers) / _at_least_exact(squares, powers))
    return cap_w if gained - math.log(count) > _STRONG_EVIDENCE else math.inf


def _level_count(powers: Float) -> int:
    """Return how many of the highest clocks have one power, within 2%."""
    count = 1
    while count < len(powers) and np.ptp(powers[-count - 1 :]) <= _NEAR_CAP * np.mean(powers[-count - 1 :]):
        count += 1
    return count


class _Outcome(Enum):
    """Where the ridge lies."""

    RIDGE = "the voltage is flat and then rises: a ridge within [{low:.0f}, {high:.0f}] MHz"
    FLAT = "no ridge within [{low:.0f}, {high:.0f}] MHz: power is a straight line in the clock"
    STEEP = (
        "no ridge can be told within [{low:.0f}, {high:.0f}] MHz: power falls faster than the clock, to less"
        " than nothing at 0 MHz, which no curve of the model does; the range is too narrow, or the samples"
        " differ in more than the clock"
    )
    LEVEL = (
        "no ridge can be told within [{low:.0f}, {high:.0f}] MHz: power does not rise with the clock by more"
        " than its scatter, as every curve of the model does; a limit held it down (give --cap-w), or the"
        " samples differ in more than the clock"
    )
    RISING = "no ridge within [{low:.0f}, {high:.0f}] MHz: the voltage rises over the whole range"

    def sentence(self, low_mhz: float, high_mhz: float) -> str:
        """Return the outcome in words."""
        return self.value.format(low=low_mhz, high=high_mhz)


@dataclass(frozen=True)
class _Fit:
    """A curve and its sum of squared residuals, W^2."""

    squares: float
    curve: PowerCurve


def _line(clocks: Float, powers: Float) -> _Fit:
    """Fit a constant voltage."""
    design = np.column_stack([np.ones_like(clocks), clocks])
    idle_w, alpha = np.linalg.lstsq(design, powers, rcond=None)[0]
    residuals = powers - design @ [idle_w, alpha]
    return _Fit(float(residuals @ residuals), PowerCurve(float(idle_w), float(alpha), float(clocks[-1]), 0.0))


class _Grid:
    """Ridge points and slopes, each with the best idle power and alpha by linear least squares.

    Args:
        clocks: Clocks of the samples in ascending order, MHz, shape (n,).
    """

    def __init__(self, clocks: Float) -> None:
        self._clocks = clocks
        self._ridges = np.linspace(clocks[0], clocks[-2], _RIDGES)
        # Dense at small slopes, where the fit is most sensitive.
        self._slopes = _STEEPEST * np.linspace(0, 1, _SLOPES) ** 2 / clocks[-1]
        above = np.maximum(0.0, clocks - self._ridges[:, None, None])
        shape = clocks * (1 + self._slopes[None, :, None] * above) ** 2
        self._shape = shape.reshape(-1, len(clocks))
        centred = self._shape - self._shape.mean(axis=1, keepdims=True)
        self._direction = centred / np.linalg.norm(centred, axis=1, keepdims=True)

    def best(self, powers: Float) -> _Fit:
        """Return the best point of the grid."""
        return self._fit(powers, int(np.argmin(self._squares(powers))))

    def ridge_interval(self, powers: Float, best: _Fit) -> tuple[float, float]:
        """Return the 95% profile-likelihood interval of the ridge point, MHz."""
        from scipy.special import fdtri

        left = len(self._clocks) - _PARAMETERS
        limit = _at_least_exact(best.squares, powers)
        limit *= 1 + float(fdtri(1, left, 0.95)) / left
        profile = self._squares(powers).reshape(_RIDGES, _SLOPES).min(axis=1)
        inside = [*self._ridges[profile <= limit], best.curve.ridge_mhz]
        # The grid may be coarser than the interval: a step is left open on each side.
        step = float(self._ridges[1] - self._ridges[0])
        return float(min(inside)) - step, float(max(inside)) + step

    def best_clock_error_mhz(self, powers: Float, curve: PowerCurve, seed: int) -> float:
        """Return the 95% half-width of the best clock, MHz, by a bootstrap of the residuals."""
        modelled = np.array([curve.power_w(clock) for clock in self._clocks])
        count = len(powers)
        residuals = (powers - modelled) * math.sqrt(count / (count - _PARAMETERS))
        rng = np.random.default_rng(seed)
        drawn = [modelled + rng.choice(residuals, count) for _ in range(_DRAWS)]
        best = [self.best(powers).curve.best_clock_mhz(*self._clocks[[0, -1]]) for powers in drawn]
        low, high = np.quantile(best, [0.025, 0.975])
        return float(high - low) / 2

    def _squares(self, powers: Float) -> Float:
        """Return the sum of squared residuals at every grid point, W^2, shape (ridges x slopes,)."""
        centred = powers - powers.mean()
        explained = np.maximum(0.0, self._direction @ centred)
        squares: Float = np.maximum(0.0, centred @ centred - explained**2)
        return squares

    def _fit(self, powers: Float, at: int) -> _Fit:
        ridge, slope = divmod(at, _SLOPES)
        design = np.column_stack([np.ones_like(powers), self._shape[at]])
        idle_w, alpha = np.linalg.lstsq(design, powers, rcond=None)[0]
        curve = PowerCurve(
            float(idle_w), float(alpha), float(self._ridges[ridge]), float(self._slopes[slope])
        )
        return _Fit(float(np.sum((powers - design @ [idle_w, alpha]) ** 2)), curve)


def _polished(clocks: Float, powers: Float, start: _Fit) -> _Fit:
    """Fit all four parameters by Levenberg-Marquardt from a start that is near."""
    from scipy.optimize import least_squares

    top_mhz = float(clocks[-1])

    def residuals(parameters: Float) -> Float:
        idle_w, alpha, ridge, beta = parameters
        above = np.maximum(0.0, clocks / top_mhz - ridge)
        modelled: Float = idle_w + alpha * clocks / top_mhz * (1 + beta * above) ** 2
        return modelled - powers

    at = start.curve
    begin = [at.idle_w, at.alpha_w_per_mhz * top_mhz, at.ridge_mhz / top_mhz, at.beta_per_mhz * top_mhz]
    end = least_squares(residuals, begin, method="lm")
    idle_w, alpha, ridge, beta = (float(value) for value in end.x)
    inside = clocks[0] <= ridge * top_mhz <= clocks[-2]
    squares = 2 * float(end.cost)
    if not (inside and alpha > 0 and beta >= 0 and squares < start.squares):
        return start
    return _Fit(squares, PowerCurve(idle_w, alpha / top_mhz, ridge * top_mhz, beta / top_mhz))


def _parameter_errors(clocks: Float, powers: Float, curve: PowerCurve) -> tuple[float, float, float]:
    """Return the 95% half-widths of P_idle, alpha and beta, by the covariance of least squares.

    NaN where the samples do not determine the parameters; beta has none on a line.
    """
    from scipy.special import stdtrit

    above = np.maximum(0.0, clocks - curve.ridge_mhz)
    voltage = 1 + curve.beta_per_mhz * above
    slope = 2 * curve.alpha_w_per_mhz * clocks * voltage
    # By P_idle, alpha, beta and tau.
    jacobian = np.column_stack(
        [np.ones_like(clocks), clocks * voltage**2, slope * above, -slope * curve.beta_per_mhz * (above > 0)]
    )
    if curve.beta_per_mhz == 0:
        jacobian = jacobian[:, :2]
    left = len(clocks) - jacobian.shape[1]
    residuals = powers - curve.idle_w - curve.alpha_w_per_mhz * clocks * voltage**2
    # Scaled, because watts a MHz and relative voltage a MHz differ by orders of magnitude.
    scale = np.linalg.norm(jacobian, axis=0)
    if np.linalg.matrix_rank(jacobian / scale) < len(scale):
        return math.nan, math.nan, math.nan
    inverse = np.linalg.pinv(jacobian / scale)
    errors = np.linalg.norm(inverse, axis=1) / scale * math.sqrt(float(residuals @ residuals) / left)
    idle_w, alpha, *others = (float(stdtrit(left, 0.975)) * errors).tolist()
    return idle_w, alpha, others[0] if others else math.nan


def _outcome(clocks: Float, powers: Float, line: _Fit, best: _Fit, low_mhz: float) -> _Outcome:
    """Decide between a ridge, a straight line and a voltage that rises everywhere."""
    count = len(clocks)
    straight = count * math.log(_at_least_exact(line.squares, powers)) + 2 * math.log(count)
    bent = count * math.log(_at_least_exact(best.squares, powers)) + _PARAMETERS * math.log(count)
    if not straight - bent > _STRONG_EVIDENCE:
        return _Outcome.FLAT
    return _Outcome.RISING if low_mhz < clocks[0] else _Outcome.RIDGE


def _at_least_exact(squares: float, powers: Float) -> float:
    """Return a sum of squares that is not below the rounding of the powers."""
    return max(squares, len(powers) * (_EXACT * float(np.max(powers))) ** 2)


def _require_valid(samples: Sequence[PowerSample], cap_w: float) -> None:
    for number, sample in enumerate(samples, 1):
        for name in ("clock_mhz", "power_w"):
            positive(f"{name} of sample {number}", getattr(sample, name))
    if not cap_w > 0:
        raise InputError(f"the power limit is {cap_w} W; it must be above 0")


def read_power_samples(path: Path) -> tuple[PowerSample, ...]:
    """Read the columns clock_mhz and power_w; others are passed over.

    Raises:
        InputError: The file cannot be read, lacks a column, or a value is no number.
    """
    cure = f"name a CSV file whose first line is {','.join(_COLUMNS)}"
    rows = csv.DictReader(read_text(path, cure).splitlines(), skipinitialspace=True, restval="")
    try:
        names = [name.strip() for name in rows.fieldnames or ()]
        for column in _COLUMNS:
            if names.count(column) != 1:
                raise InputError(f"{path} has {names.count(column)} columns {column}; {cure}")
        rows.fieldnames = names
        return tuple(_sample(path, rows.line_num, row) for row in rows)
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}; {cure}") from error


def _sample(path: Path, line: int, row: dict[str, str]) -> PowerSample:
    return PowerSample(*(_number(path, line, column, row[column]) for column in _COLUMNS))


def _number(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _HIGHEST:
        raise InputError(
            f"{path}, line {line}: {column} is {printable(text[:_LONGEST])!r};"
            f" it must be a positive number up to {_HIGHEST:g}"
        )
    return value

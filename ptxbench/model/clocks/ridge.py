"""Power over the SM clock, and the clock of least energy: Schoonhoven et al. (2022), Eqs. 2 and 3.

    P(f) = min(P_max, P_idle + alpha f v(f)^2)

The core voltage v, relative to its lowest, is flat up to the ridge point tau and rises above it. As printed,
Eq. 3 jumps from 1 to beta 0 at tau and rises in a line. The continuous form is used here, and a second term,
because a voltage rises "seemingly quadratically" (section V-D):

    v(f) = 1 + beta x + kappa x^2,    x = max(0, f - tau)

The simplest law that the samples do not reject is the curve: a straight line of power (v = 1), kappa = 0, or
both terms. The intervals are those of both terms, whichever is chosen: a bend that is too small to be seen
moves the ridge by more than the scatter does. Samples that no law fits give no ridge and no clock.

A kernel that is bound by the SM clock takes a time of 1/f, so that its energy goes with P(f) / f. It is
least at or above the ridge, never below it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np

from ptxbench.core.arrays import Floats
from ptxbench.core.bounds import positive
from ptxbench.core.distributions import f_tail, student_quantile
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import Estimate
from ptxbench.core.gpu_settings import CLOCK_STEP_MHZ
from ptxbench.core.printable import printable
from ptxbench.model.clocks.likelihood import LINEAR, QUADRATIC, Line, Profile, Samples, least_energy
from ptxbench.storage.file_errors import read_text

# The laws have up to four figures, and the ridge; chosen.
FEWEST_CLOCKS = 7
# Samples within this fraction of the power limit may have been held down by it.
_NEAR_CAP = 0.02
# Clocks that a level needs, to be told from a curve.
_LEVEL_CLOCKS = 3
# By how much the Bayesian information criterion must prefer a ridge to a line ("very strong", Kass and
# Raftery 1995).
_STRONG_EVIDENCE = 10.0
# Probabilities under which the linear law is rejected for the quadratic one, and the quadratic one for none.
_REJECTED, _MISFIT = 0.05, 0.01
_SEARCHED = 0.1  # section V-D of the paper
_COLUMNS = ("clock_mhz", "power_w")
_VOLTAGE = "voltage_mv"
# Voltages of boards come in steps of 6.25 mV; one that is less above the lowest is the lowest.
_VOLTAGE_STEP_MV = 6.5
# No clock and no power of a GPU is larger.
_HIGHEST = 1e5
# Every GPU has a higher clock than this; clocks in GHz are all below it.
_LEAST_MHZ = 10.0
_LONGEST = 40


@dataclass(frozen=True)
class PowerSample:
    """Mean power of one kernel at one clock.

    Attributes:
        clock_mhz: SM clock, MHz.
        power_w: Power, W.
        voltage_mv: Core voltage as it was read, mV; NaN where it was not.
    """

    clock_mhz: float
    power_w: float
    voltage_mv: float = math.nan


@dataclass(frozen=True)
class PowerCurve:
    """Eqs. 2 and 3 with their parameters.

    Attributes:
        idle_w: P_idle, W.
        alpha_w_per_mhz: alpha, W per MHz at the lowest voltage.
        ridge_mhz: tau, MHz.
        beta_per_mhz: beta, relative voltage per MHz.
        cap_w: P_max, W; infinite where no limit was given.
        kappa_per_mhz2: kappa, relative voltage per MHz^2.
    """

    idle_w: float
    alpha_w_per_mhz: float
    ridge_mhz: float
    beta_per_mhz: float
    cap_w: float = math.inf
    kappa_per_mhz2: float = 0.0

    def voltage(self, clock_mhz: float) -> float:
        """Return the core voltage relative to its lowest: Eq. 3, continuous."""
        above_mhz = max(0.0, clock_mhz - self.ridge_mhz)
        return 1 + above_mhz * (self.beta_per_mhz + above_mhz * self.kappa_per_mhz2)

    def power_w(self, clock_mhz: float) -> float:
        """Return the power at a clock, W: Eq. 2."""
        dynamic_w = self.alpha_w_per_mhz * clock_mhz * self.voltage(clock_mhz) ** 2
        return min(self.cap_w, self.idle_w + dynamic_w)

    def relative_energy(self, clock_mhz: float) -> float:
        """Return power over clock, W per MHz: up to a factor, energy of a kernel bound by the SM clock."""
        return self.power_w(clock_mhz) / clock_mhz

    def best_clock_mhz(self, low_mhz: float, high_mhz: float) -> float:
        """Return the clock of least energy within a range, MHz, under no limit."""
        root = math.sqrt(self.alpha_w_per_mhz * high_mhz)
        rise, bend = root * self.beta_per_mhz * high_mhz, root * self.kappa_per_mhz2 * high_mhz**2
        coefficients = np.array([[self.idle_w, root, rise, bend]])
        best = least_energy(np.array([self.ridge_mhz / high_mhz]), coefficients, low_mhz / high_mhz)
        return float(best[0]) * high_mhz


class Voltage(StrEnum):
    """How the voltage goes with the clock, by the simplest law that the samples do not reject."""

    FLAT = "flat"
    LINEAR = "linear"
    QUADRATIC = "quadratic"


@dataclass(frozen=True)
class Ridge:
    """What power samples over the clock tell.

    Attributes:
        found: Whether there is a ridge within the clocks of the samples.
        verdict: The same in a sentence.
        voltage: The law of the curve.
        curve: The fitted curve; without a ridge, the line (beta 0) or the curve that rises everywhere.
        idle_w: P_idle with its 95% interval, W: the power where the line through the clocks meets 0 MHz.
        alpha_w_per_mhz: alpha with its 95% interval, W per MHz.
        beta_per_mhz: beta with its 95% interval, relative voltage per MHz; 0 without one for a line.
        kappa_per_mhz2: kappa, likewise, per MHz^2.
        ridge_mhz: tau with its 95% interval; NaN where none was found.
        best_clock_mhz: Clock of least energy of a kernel bound by the SM clock, with its 95% interval; NaN
            where the samples fit no curve of the model.
        search_mhz: Clocks that are worth trying: within 10% of the best (section V-D), NaN without one.
        range_mhz: Lowest and highest clock of the samples used.
        residual_w: Standard deviation of the samples about the curve, W.
        near_cap: How many samples were left out because they lie at the power limit.
        voltage_ridge_mhz: Ridge point by the voltages alone; NaN where they were not read, or rise nowhere or
            everywhere.
        linear_probability: How probable as good a fit of the quadratic law is if the linear one is true (F
            test).
        misfit_probability: How probable residuals that follow the clock as much are if the quadratic law is
            true; below 0.01 no ridge and no clock are given.
        likely: Curves at the edge of the 95% region, from which the other intervals are.
    """

    found: bool
    verdict: str
    voltage: Voltage
    curve: PowerCurve
    idle_w: Estimate
    alpha_w_per_mhz: Estimate
    beta_per_mhz: Estimate
    kappa_per_mhz2: Estimate
    ridge_mhz: Estimate
    best_clock_mhz: Estimate
    search_mhz: tuple[float, float]
    range_mhz: tuple[float, float]
    residual_w: float
    near_cap: int
    voltage_ridge_mhz: float
    linear_probability: float
    misfit_probability: float
    likely: tuple[PowerCurve, ...]


def fit_ridge(samples: Sequence[PowerSample], cap_w: float = math.inf) -> Ridge:
    """Fit the power curve to samples of one kernel that loads the GPU, at several clocks.

    Args:
        samples: Clock and power; at least seven clocks below the power limit.
        cap_w: Power limit, W; samples at it are left out.

    Raises:
        InputError: A sample or the limit is no positive number, or there are too few.
    """
    _require_valid(samples, cap_w)
    used = [sample for sample in samples if sample.power_w < (1 - _NEAR_CAP) * cap_w]
    near_cap, count = len(samples) - len(used), len({sample.clock_mhz for sample in used})
    if count < FEWEST_CLOCKS:
        more = f" ({near_cap} more lie at the power limit)" if near_cap else ""
        raise InputError(
            f"{count} clocks below the power limit are too few{more}: measure at {FEWEST_CLOCKS} or more"
        )
    fit = _Fit.of(used)
    low_mhz, high_mhz = (float(end) * fit.samples.top_mhz for end in fit.samples.clocks[[0, -1]])
    outcome, curve, likely = fit.outcome, fit.curve(cap_w), fit.likely(cap_w)
    is_bent, fits = fit.voltage is not Voltage.FLAT, outcome in _FITS
    best_mhz = curve.best_clock_mhz(low_mhz, high_mhz) if fits else math.nan
    best_mhz_of_likely = fit.likely_best_mhz() if fits else [math.nan]
    return Ridge(
        found=outcome is _Outcome.RIDGE,
        verdict=outcome.sentence(low_mhz, high_mhz),
        voltage=fit.voltage,
        curve=curve,
        idle_w=_reaching(curve.idle_w, [one.idle_w for one in likely]),
        alpha_w_per_mhz=_reaching(curve.alpha_w_per_mhz, [one.alpha_w_per_mhz for one in likely]),
        beta_per_mhz=_reaching(
            curve.beta_per_mhz, [one.beta_per_mhz if is_bent else math.nan for one in likely]
        ),
        kappa_per_mhz2=_reaching(
            curve.kappa_per_mhz2, [one.kappa_per_mhz2 if is_bent else math.nan for one in likely]
        ),
        # The last clock of the lowest voltage, which a table of voltages shows, lies up to a step above where
        # a smooth curve leaves it.
        ridge_mhz=(
            _reaching(curve.ridge_mhz, fit.ridge_interval_mhz, CLOCK_STEP_MHZ)
            if outcome is _Outcome.RIDGE
            else Estimate(math.nan, math.nan)
        ),
        best_clock_mhz=_reaching(best_mhz, best_mhz_of_likely, CLOCK_STEP_MHZ),
        search_mhz=searched(best_mhz),
        range_mhz=(low_mhz, high_mhz),
        residual_w=fit.residual_w,
        near_cap=near_cap,
        voltage_ridge_mhz=voltage_ridge_mhz(samples),
        linear_probability=fit.linear_probability,
        misfit_probability=fit.misfit_probability,
        likely=likely,
    )


def voltage_ridge_mhz(samples: Sequence[PowerSample]) -> float:
    """Return the highest clock at which the voltage was read at its lowest, MHz.

    Returns:
        NaN where fewer than seven clocks have a voltage, or where it rises nowhere or everywhere.
    """
    known = sorted((one.clock_mhz, one.voltage_mv) for one in samples if math.isfinite(one.voltage_mv))
    lowest_mv = min((voltage_mv for _, voltage_mv in known), default=math.nan)
    flat = [mhz for mhz, voltage_mv in known if voltage_mv < lowest_mv + _VOLTAGE_STEP_MV]
    return flat[-1] if len(known) >= FEWEST_CLOCKS and 1 < len(flat) < len(known) else math.nan


def _reaching(value: float, others: Sequence[float], more: float = 0.0) -> Estimate:
    """Return a value whose interval reaches to others, and by so much more."""
    return Estimate(value, max(abs(min(others) - value), abs(max(others) - value)) + more)


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
    every = sorted(samples, key=lambda sample: sample.clock_mhz)
    powers = np.array([sample.power_w for sample in every])
    level = _level_count(powers)
    free = every[: len(every) - level]
    if level < _LEVEL_CLOCKS or len({sample.clock_mhz for sample in free}) < FEWEST_CLOCKS:
        return math.inf
    cap_w = float(np.mean(powers[len(free) :]))
    curve = _Fit.of(free).curve(cap_w)
    squares = sum((1 - curve.power_w(sample.clock_mhz) / sample.power_w) ** 2 for sample in every)
    arrays = _arrays(every)
    without = Profile.of(arrays, QUADRATIC).least
    gained = len(every) * math.log(without / max(squares, arrays.exact))
    return cap_w if gained - math.log(len(every)) > _STRONG_EVIDENCE else math.inf


def _level_count(powers: Floats) -> int:
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
        " than its scatter, as every curve of the model does; a limit held it down (say which), or the"
        " samples differ in more than the clock"
    )
    MISFIT = (
        "no ridge can be told within [{low:.0f}, {high:.0f}] MHz: power bends with the clock as no voltage"
        " that is flat and then rises in a line or quadratically makes it; the samples differ in more than"
        " the clock, such as temperature, or are not of one kernel that loads the GPU"
    )
    RISING = (
        "no ridge can be told within [{low:.0f}, {high:.0f}] MHz: the voltage rises, and may rise over the"
        " whole range"
    )

    def sentence(self, low_mhz: float, high_mhz: float) -> str:
        """Return the outcome in words."""
        return self.value.format(low=low_mhz, high=high_mhz)


_FITS = (_Outcome.RIDGE, _Outcome.FLAT, _Outcome.RISING)


@dataclass(frozen=True)
class _Fit:
    """The three laws fitted to samples, and which of them is believed.

    Attributes:
        samples: The samples.
        line: The straight line.
        linear: The linear law.
        quadratic: The quadratic law, of which the others are a part.
        linear_probability: As in `Ridge`.
        misfit_probability: As in `Ridge`.
    """

    samples: Samples
    line: Line
    linear: Profile
    quadratic: Profile
    linear_probability: float
    misfit_probability: float

    @classmethod
    def of(cls, samples: Sequence[PowerSample]) -> _Fit:
        """Fit them."""
        arrays = _arrays(samples)
        linear, quadratic = Profile.of(arrays, LINEAR), Profile.of(arrays, QUADRATIC)
        gained = max(0.0, linear.least / quadratic.least - 1) * quadratic.freedom
        return cls(
            samples=arrays,
            line=Line.of(arrays),
            linear=linear,
            quadratic=quadratic,
            linear_probability=f_tail(1, quadratic.freedom, gained),
            misfit_probability=quadratic.misfit_probability(),
        )

    @property
    def bent(self) -> Profile:
        """The simpler law of a voltage that rises, unless it is rejected."""
        return self.quadratic if self.linear_probability < _REJECTED else self.linear

    @property
    def voltage(self) -> Voltage:
        """The simplest law that is not rejected."""
        count, bent = len(self.samples.clocks), self.bent
        gained = count * math.log(self.line.squares / bent.least)
        if not gained - (count - bent.freedom - 2) * math.log(count) > _STRONG_EVIDENCE:
            return Voltage.FLAT
        return Voltage.LINEAR if bent is self.linear else Voltage.QUADRATIC

    @property
    def outcome(self) -> _Outcome:
        """Where the ridge lies."""
        factor = student_quantile(len(self.samples.clocks) - 2)
        idle_error_w, slope_error_w = self.line.errors
        is_flat = self.voltage is Voltage.FLAT
        if self.line.slope_w <= factor * slope_error_w:
            return _Outcome.LEVEL
        if is_flat and self.line.idle_w + factor * idle_error_w < 0:
            return _Outcome.STEEP
        if self.misfit_probability < _MISFIT:
            return _Outcome.MISFIT
        if is_flat:
            return _Outcome.FLAT
        lowest = self.quadratic.ridge_interval()[0]
        return _Outcome.RISING if lowest <= self.samples.clocks[0] else _Outcome.RIDGE

    @property
    def ridge_interval_mhz(self) -> tuple[float, float]:
        """95% interval of the ridge point, MHz."""
        low, high = self.quadratic.ridge_interval()
        return low * self.samples.top_mhz, high * self.samples.top_mhz

    @property
    def residual_w(self) -> float:
        """Standard deviation of the samples about the law of a voltage that rises, W."""
        bent = self.bent
        modelled = self.samples.model_w(bent.ridges[bent.best], bent.coefficients[bent.best])
        return math.sqrt(float(np.sum((self.samples.powers - modelled) ** 2)) / bent.freedom)

    def curve(self, cap_w: float) -> PowerCurve:
        """Return the curve of the chosen law."""
        if self.voltage is Voltage.FLAT:
            top_mhz = self.samples.top_mhz
            return PowerCurve(self.line.idle_w, self.line.slope_w / top_mhz, top_mhz, 0.0, cap_w)
        return self._curve(self.bent.ridges[self.bent.best], self.bent.coefficients[self.bent.best], cap_w)

    @cached_property
    def _edge(self) -> tuple[Floats, Floats]:
        return self.quadratic.likely()

    def likely(self, cap_w: float) -> tuple[PowerCurve, ...]:
        """Return curves at the edge of the 95% region."""
        pairs = zip(*self._edge, strict=True)
        return tuple(self._curve(ridge, coefficients, cap_w) for ridge, coefficients in pairs)

    def likely_best_mhz(self) -> list[float]:
        """Return the clock of least energy of each of them, MHz."""
        found = least_energy(*self._edge, float(self.samples.clocks[0])) * self.samples.top_mhz
        return [float(mhz) for mhz in found]

    def _curve(self, ridge: float, coefficients: Floats, cap_w: float) -> PowerCurve:
        idle_w, root, rise, bend = coefficients.tolist()
        top_mhz = self.samples.top_mhz
        return PowerCurve(
            idle_w=idle_w,
            alpha_w_per_mhz=root**2 / top_mhz,
            ridge_mhz=float(ridge) * top_mhz,
            beta_per_mhz=rise / root / top_mhz,
            cap_w=cap_w,
            kappa_per_mhz2=bend / root / top_mhz**2,
        )


def _arrays(samples: Sequence[PowerSample]) -> Samples:
    ordered = sorted(samples, key=lambda sample: sample.clock_mhz)
    clocks = np.array([sample.clock_mhz for sample in ordered])
    return Samples(clocks / clocks[-1], np.array([s.power_w for s in ordered]), float(clocks[-1]))


def _require_valid(samples: Sequence[PowerSample], cap_w: float) -> None:
    for number, sample in enumerate(samples, 1):
        for name in ("clock_mhz", "power_w"):
            positive(f"{name} of sample {number}", getattr(sample, name))
    if not cap_w > 0:
        raise InputError(f"the power limit is {cap_w} W; it must be above 0")


def read_power_samples(path: Path) -> tuple[PowerSample, ...]:
    """Read the columns clock_mhz and power_w, and voltage_mv where it is there; others are passed over.

    Raises:
        InputError: The file cannot be read, lacks a column, or a value is no number.
    """
    cure = f"name a CSV file whose first line is {','.join(_COLUMNS)}"
    rows = csv.DictReader(read_text(path, cure).splitlines(), skipinitialspace=True, restval="")
    try:
        names = [name.strip() for name in rows.fieldnames or ()]
        for column in _COLUMNS:
            if names.count(column) != 1:
                found = f"{names.count(column)} columns" if column in names else "no column"
                raise InputError(f"{path} has {found} {column}; {cure}")
        rows.fieldnames = names
        samples = tuple(_sample(path, rows.line_num, row) for row in rows)
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}; {cure}") from error
    if samples and (highest := max(one.clock_mhz for one in samples)) < _LEAST_MHZ:
        raise InputError(f"{path} has no clock_mhz above {highest:g}; give clocks in MHz")
    return samples


def power_samples_csv(samples: Sequence[PowerSample]) -> str:
    """Return samples as `read_power_samples` reads them."""
    rows = [
        f"{one.clock_mhz},{one.power_w},{one.voltage_mv if math.isfinite(one.voltage_mv) else ''}\n"
        for one in samples
    ]
    return ",".join((*_COLUMNS, _VOLTAGE)) + "\n" + "".join(rows)


def _sample(path: Path, line: int, row: dict[str, str]) -> PowerSample:
    columns = (*_COLUMNS, _VOLTAGE) if row.get(_VOLTAGE) else _COLUMNS
    return PowerSample(*(_number(path, line, column, row[column]) for column in columns))


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

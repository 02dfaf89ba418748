"""Energy, time and power of a kernel at another SM clock: under a power limit, and at its best clock.

Switching takes C V^2 (Eq. 1 of Schoonhoven et al. 2022), so that the energy of what the SM clock drives goes
with the voltage squared, and the voltage with the clock f. With the full clock f0:

    E(f) = s(f) E_clocked(f0) + E_dram + P_static t(f),    t(f) = max(t(f0) f0 / f, t_memory)

s(f) is (f / f0)^gamma, fitted to kernels that a power limit slowed down (`PowerLaw`), or (v(f) / v(f0))^2
with the voltage of Eq. 3, fitted to power at several set clocks (`VoltageLaw`). DRAM has its own clock and
voltage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from ptxbench.catalogue.product import clock_exponent
from ptxbench.core.arrays import Floats
from ptxbench.core.errors import InputError
from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.model.clocks.ridge import Ridge, fit_ridge, read_power_samples

# No board has been seen to hold its limit below this share of its clock.
_LOWEST = 0.1
_HALVINGS = 50
# Clocks among which the best one is searched where none are given.
_CLOCKS = 2001


class ClockLaw(Protocol):
    """Energy over that at the full clock; clocks are ratios to the full one."""

    @property
    def lowest_ratio(self) -> float:
        """Lowest clock at which anything was measured."""
        ...

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        ...

    def scale(self, ratio: float) -> float:
        """Return the energy of what the SM clock drives, over that at the full clock."""
        ...

    def error(self, ratio: float) -> float:
        """Return the standard error of the scale."""
        ...


@dataclass(frozen=True)
class PowerLaw:
    """s(f) = (f / f0)^gamma.

    Attributes:
        gamma: Exponent.
        gamma_error: Its standard error.
        lowest_ratio: Lowest clock of the kernels that it was fitted to; 1 where there were none.
    """

    gamma: float
    gamma_error: float
    lowest_ratio: float

    @classmethod
    def fitted(cls, ratios: Sequence[float], scales: Sequence[float]) -> PowerLaw:
        """Fit it by least squares through the origin of log energy against log clock.

        Args:
            ratios: Clocks over the full one, two or more.
            scales: Energy at each over that at the full clock.
        """
        x, y = np.log(ratios), np.log(scales)
        gamma, squares = float(x @ y / (x @ x)), float(x @ x)
        error = math.sqrt(float(np.sum((y - gamma * x) ** 2)) / (len(x) - 1) / squares)
        return cls(gamma, error, float(np.min(ratios)))

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        ci95 = COVERAGE_FACTOR * self.gamma_error
        return f"a power law of the clock, gamma {self.gamma:.2g} ± {ci95:.2g}"

    def scale(self, ratio: float) -> float:
        """Return the energy over that at the full clock."""
        return float(ratio**self.gamma)

    def error(self, ratio: float) -> float:
        """Return the standard error of the scale."""
        return abs(math.log(ratio)) * self.gamma_error * self.scale(ratio)


def law_of_kind(product: str, kind: str) -> PowerLaw | None:
    """Return the law of kernels of a product that do mostly flops of a kind; None where none is known."""
    found = clock_exponent(product, kind)
    return None if found is None else PowerLaw(found.value, found.error, found.lowest_ratio)


@dataclass(frozen=True)
class VoltageLaw:
    """s(f) = (v(f) / v(f0))^2 with the voltage of Eq. 3.

    Attributes:
        ridge: The fit to power at several clocks.
        full_mhz: The full clock.
    """

    ridge: Ridge
    full_mhz: float

    @classmethod
    def read(cls, samples: Path, limit_w: float, full_mhz: float) -> VoltageLaw:
        """Return the law of a CSV file of power at several clocks.

        Args:
            samples: The file (`read_power_samples`).
            limit_w: Power limit, NaN where there is none; samples at it are left out.
            full_mhz: The full clock.

        Raises:
            InputError: The file cannot be read, or its samples tell no voltage up to the full clock.
        """
        cap_w = math.inf if math.isnan(limit_w) else limit_w
        return cls(fit_ridge(read_power_samples(samples), cap_w), full_mhz)

    def __post_init__(self) -> None:
        """Refuse a fit that tells no voltage, or does not reach the full clock: it would be no scale to it.

        Raises:
            InputError: The samples fit no curve of the model, or their highest clock is more than 10% below
                the full clock.
        """
        if math.isnan(self.ridge.best_clock_mhz.value):
            raise InputError(f"the samples tell no voltage: {self.ridge.verdict}")
        highest_mhz = self.ridge.range_mhz[1]
        if highest_mhz < 0.9 * self.full_mhz:
            raise InputError(
                f"the samples end at {highest_mhz:.0f} MHz, too far below the full clock of"
                f" {self.full_mhz:.0f} MHz; measure up to it"
            )

    @property
    def lowest_ratio(self) -> float:
        """Lowest clock of the samples."""
        return self.ridge.range_mhz[0] / self.full_mhz

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        if self.ridge.found:
            return f"the voltage curve with its ridge at {self.ridge.ridge_mhz.value:.0f} MHz"
        return f"the voltage curve ({self.ridge.verdict})"

    def scale(self, ratio: float) -> float:
        """Return the energy over that at the full clock."""
        curve = self.ridge.curve
        return (curve.voltage(ratio * self.full_mhz) / curve.voltage(self.full_mhz)) ** 2

    def error(self, ratio: float) -> float:
        """Return the standard error of the scale, from the curves at the edge of the 95% region."""
        ridge_mhz, beta_per_mhz, kappa_per_mhz2, at_full = self._likely
        above_mhz = np.maximum(0.0, ratio * self.full_mhz - ridge_mhz)
        ends = ((1 + above_mhz * (beta_per_mhz + above_mhz * kappa_per_mhz2)) / at_full) ** 2
        return float(np.ptp(ends)) / 2 / COVERAGE_FACTOR

    @cached_property
    def _likely(self) -> tuple[Floats, ...]:
        """Parameters of the curves at the edge, and their voltage at the full clock: a search asks often."""
        rows = [
            (curve.ridge_mhz, curve.beta_per_mhz, curve.kappa_per_mhz2, curve.voltage(self.full_mhz))
            for curve in self.ridge.likely
        ]
        return tuple(np.array(rows).T)


def unseen(law: ClockLaw, ratio: float) -> float:
    """Return what an interval is widened by where the clock is below all that were measured.

    The voltage follows the clock down to an unknown floor. The energy then lies between the law's and that at
    the lowest clock that was measured.
    """
    lowest = law.lowest_ratio
    return 0.0 if ratio >= lowest else law.scale(lowest) - law.scale(ratio)


@dataclass(frozen=True)
class Demand:
    """What a kernel draws at the full clock.

    Attributes:
        clocked_j: Dynamic energy of what the SM clock drives.
        dram_j: Dynamic energy of DRAM.
        static_w: Static power.
        time_s: Duration: at the full clock where `follows_clock`, else as it is.
        follows_clock: Whether a lower clock stretches the time (a kernel that computes), or the time is what
            it is (measured in steady state, or set by the memory).
        law: How `clocked_j` goes with the clock.
        memory_s: Time that memory takes at least, whatever the SM clock.
    """

    clocked_j: float
    dram_j: float
    static_w: float
    time_s: float
    follows_clock: bool
    law: ClockLaw
    memory_s: float = 0.0

    def time_at(self, ratio: float) -> float:
        """Return the duration at a clock over the full clock."""
        return max(self.time_s / ratio, self.memory_s) if self.follows_clock else self.time_s

    def energy_at(self, ratio: float, errors: float = 0.0) -> float:
        """Return the whole energy at a clock over the full clock.

        Args:
            ratio: The clock.
            errors: By how many standard errors of the law of the clock it is off.
        """
        scale = self.law.scale(ratio) + errors * self.law.error(ratio)
        return self.clocked_j * scale + self.dram_j + self.static_w * self.time_at(ratio)

    def power_at(self, ratio: float) -> float:
        """Return the mean power at a clock over the full clock."""
        return self.energy_at(ratio) / self.time_at(ratio)

    def ratio_under(self, limit_w: float) -> float:
        """Return the clock, over the full clock, at which it meets a power limit; 1 where it is under it.

        Args:
            limit_w: Power limit, NaN where there is none.
        """
        if not self.power_at(1.0) > limit_w:
            return 1.0
        low, high = _LOWEST, 1.0
        # Power rises with the clock, so that halving finds where it meets the limit.
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.power_at(middle) > limit_w else (middle, high)
        return low


@dataclass(frozen=True)
class BestClock:
    """A prediction; nothing of it was measured.

    Attributes:
        clock_mhz: Clock of least energy within those that the law was measured at, with its 95% interval.
        saved: Share of the energy that it saves against the clock that is held, with its 95% interval.
        slower: Share of the time that it costs against that clock.
        at_lowest: Whether that is the lowest clock of the law, so that the best may lie below it.
        held_mhz: The clock that is held.
    """

    clock_mhz: Estimate
    saved: Estimate
    slower: float
    at_lowest: bool
    held_mhz: float


def best_clock(
    demand: Demand, full_mhz: float, clocks_mhz: Sequence[float] = (), held_mhz: float = math.nan
) -> BestClock:
    """Predict the best clock of a kernel.

    The interval is that of the law of the clock; what a prediction of the energy leaves open is common to all
    clocks.

    Args:
        demand: What the kernel draws at the full clock, and how that goes with the clock.
        full_mhz: The full clock.
        clocks_mhz: Clocks to choose from; (): any. Those below the lowest clock that the law was measured at
            are left out.
        held_mhz: Clock to compare with, which the power limit may hold below the full one; NaN: the full one.

    Raises:
        InputError: No clock is left.
    """
    lowest_mhz = demand.law.lowest_ratio * full_mhz
    held_mhz = full_mhz if math.isnan(held_mhz) else max(held_mhz, lowest_mhz)
    some = clocks_mhz or np.linspace(lowest_mhz, held_mhz, _CLOCKS).tolist()
    seen = sorted({mhz for mhz in some if lowest_mhz - 1 <= mhz <= held_mhz})
    if len(seen) < 2:
        raise InputError(
            f"energies are known between {lowest_mhz:.0f} and {full_mhz:.0f} MHz alone, which leaves no clock"
            " to choose; give power at several clocks with `clock_samples`"
        )

    def least(errors: float) -> float:
        return min(seen, key=lambda mhz: demand.energy_at(mhz / full_mhz, errors))

    def saved(errors: float) -> float:
        best_j, held_j = (demand.energy_at(mhz / full_mhz, errors) for mhz in (best, held_mhz))
        return 1 - best_j / held_j

    best = least(0.0)
    ends = -COVERAGE_FACTOR, COVERAGE_FACTOR
    return BestClock(
        clock_mhz=Estimate(best, max(abs(least(end) - best) for end in ends)),
        saved=Estimate(saved(0.0), max(abs(saved(end) - saved(0.0)) for end in ends)),
        slower=demand.time_at(best / full_mhz) / demand.time_at(held_mhz / full_mhz) - 1,
        at_lowest=best == seen[0],
        held_mhz=held_mhz,
    )

"""How the energy of what the SM clock drives goes with that clock.

Switching costs C V^2, so that the energy of a piece of work goes with the voltage squared, and the voltage
with the clock. A power law of the clock is what kernels that a power limit slowed tell. The voltage of Eq. 3
of Schoonhoven et al. (2022), flat up to the ridge point, is what power at several set clocks tells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from ptxbench.core.errors import InputError
from ptxbench.model.ridge import PowerCurve, Ridge


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
    """E(f) = E(f0) (f / f0)^gamma.

    Attributes:
        gamma: Exponent.
        gamma_error: Its standard error.
        lowest_ratio: Lowest clock of the kernels that it was fitted to; 1 where there were none.
    """

    gamma: float
    gamma_error: float
    lowest_ratio: float

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        return f"a power law of the clock, gamma {self.gamma:.2g} ± {self.gamma_error:.2g}"

    def scale(self, ratio: float) -> float:
        """Return the energy over that at the full clock."""
        return float(ratio**self.gamma)

    def error(self, ratio: float) -> float:
        """Return the standard error of the scale."""
        return abs(math.log(ratio)) * self.gamma_error * self.scale(ratio)


@dataclass(frozen=True)
class VoltageLaw:
    """E(f) = E(f0) (v(f) / v(f0))^2 with the voltage of Eq. 3.

    Attributes:
        ridge: The fit to power at several clocks.
        full_mhz: The full clock.
    """

    ridge: Ridge
    full_mhz: float

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
        return self._scale(self.ridge.curve, ratio)

    def error(self, ratio: float) -> float:
        """Return the standard error of the scale: that of the slope, and that of the ridge point."""
        ridge, curve = self.ridge, self.ridge.curve
        ends = []
        for name, estimate in (("ridge_mhz", ridge.ridge_mhz), ("beta_per_mhz", ridge.beta_per_mhz)):
            if math.isfinite(estimate.uncertainty):
                values = [max(0.0, estimate.value + sign * estimate.uncertainty) for sign in (-1, 1)]
                low, high = (self._scale(_with(curve, name, value), ratio) for value in values)
                ends.append(abs(high - low) / 2)
        # Both are 95%. A later ridge goes with a steeper slope, so that together they say less.
        return math.hypot(*ends) / 1.96 if ends else 0.0

    def _scale(self, curve: PowerCurve, ratio: float) -> float:
        return (curve.voltage(ratio * self.full_mhz) / curve.voltage(self.full_mhz)) ** 2


def _with(curve: PowerCurve, name: str, value: float) -> PowerCurve:
    ridge_mhz = value if name == "ridge_mhz" else curve.ridge_mhz
    beta = value if name == "beta_per_mhz" else curve.beta_per_mhz
    return PowerCurve(curve.idle_w, curve.alpha_w_per_mhz, ridge_mhz, beta, curve.cap_w)


def unseen(law: ClockLaw, ratio: float) -> float:
    """Return what an interval is widened by where the clock is below all that were measured.

    The voltage follows the clock down to an unknown floor. The energy then lies between the law's and that at
    the lowest clock that was measured.
    """
    lowest = law.lowest_ratio
    return 0.0 if ratio >= lowest else law.scale(lowest) - law.scale(ratio)

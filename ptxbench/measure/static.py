"""Static power as a function of temperature, from a kernel that fills the chip and sleeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from ptxbench.measure.statistics import Uncertainty
from ptxbench.status import Status
from ptxbench.store.schema import Role, TrialRecord

# NVML gives whole degrees; under this spread a slope would be noise.
_MIN_SPREAD_C = 2.0
# What is left open by a reading in whole degrees: evenly spread over one (JCGM 100:2008, F.2.2.1).
_READING_SD_C = 1 / math.sqrt(12)


@dataclass(frozen=True)
class StaticPower:
    """P_static(T) = power_w + slope_w_per_c (T - temperature_c), by least squares.

    Attributes:
        power_w: Static power at the mean temperature of the sleeping trials, NaN where there is none.
        temperature_c: That mean temperature.
        slope_w_per_c: Change with temperature; 0 where the trials span less than 2 C or none is known.
        error_w: Standard error of `power_w`.
        slope_error_w_per_c: Standard error of the slope.
        degrees: Degrees of freedom that both errors are known with.
    """

    power_w: float
    temperature_c: float
    slope_w_per_c: float
    error_w: float
    slope_error_w_per_c: float
    degrees: float = math.inf

    def at(self, temperature_c: float) -> float:
        """Return the static power at a temperature, W."""
        return self.power_w + self._beside(temperature_c, self.slope_w_per_c)

    def error_at(self, temperature_c: float) -> float:
        """Return the standard error of `at`, W."""
        return math.hypot(self.error_w, self._beside(temperature_c, self.slope_error_w_per_c))

    def reading_error(self, temperature_c: Sequence[float]) -> Uncertainty:
        """Return what whole degrees make of the mean static power of some trials, W, beyond their scatter.

        Trials that all read one degree may all be off by the same part of it, and their scatter does not
        show it. Where they read unlike degrees they are off unlike, and their scatter does.

        Args:
            temperature_c: Temperature of each trial, shape (n,); each a mean of readings in whole degrees.
        """
        alike = len({round(t) for t in temperature_c if math.isfinite(t)}) == 1
        return Uncertainty(abs(self.slope_w_per_c) * _READING_SD_C if alike else 0.0)

    def _beside(self, temperature_c: float, slope_w_per_c: float) -> float:
        """Return what a slope makes of the distance to the mean temperature; a GPU may not tell either."""
        return slope_w_per_c * (temperature_c - self.temperature_c) if slope_w_per_c else 0.0


def fit_static(
    records: Iterable[TrialRecord], power_w: Callable[[TrialRecord], float] = attrgetter("steady_power_w")
) -> StaticPower:
    """Fit static power against temperature over every valid sleeping trial.

    Args:
        records: All trials of a run; others than sleeping ones are passed over.
        power_w: The power of a trial: as measured, or at another level of the supply.
    """
    valid = [r for r in records if r.role is Role.STATIC and r.repeat >= 0 and r.status is Status.OK]
    if not valid:
        return StaticPower(math.nan, math.nan, math.nan, math.nan, math.nan)
    return static_line([power_w(r) for r in valid], [r.temperature_c for r in valid])


def static_line(power_w: Sequence[float], temperature_c: Sequence[float]) -> StaticPower:
    """Fit the power of a sleeping GPU against temperature.

    Args:
        power_w: Power of each trial, shape (n,), n at least 1.
        temperature_c: Temperature of each trial, shape (n,).
    """
    power, temperature = np.array(power_w), np.array(temperature_c)
    centre_c = float(temperature.mean())
    n = len(power)
    if n < 3 or not np.ptp(temperature) >= _MIN_SPREAD_C:
        error_w = float(power.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        return StaticPower(float(power.mean()), centre_c, 0.0, error_w, 0.0, max(n - 1, 1))
    from scipy.stats import linregress

    fit = linregress(temperature - centre_c, power)
    return StaticPower(
        float(fit.intercept),
        centre_c,
        float(fit.slope),
        float(fit.intercept_stderr),
        float(fit.stderr),
        n - 2,
    )

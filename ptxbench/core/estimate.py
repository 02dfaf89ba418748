"""A number with its uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Two-sided 95% of a normal distribution.
COVERAGE_FACTOR = 1.96
# Standard deviation of a normal distribution over its median absolute deviation.
SD_OVER_MAD = 1.4826


@dataclass(frozen=True)
class Estimate:
    """A fitted number.

    Attributes:
        value: Best value.
        uncertainty: Half-width of its 95% confidence interval, NaN where the data cannot tell.
    """

    value: float
    uncertainty: float

    def scaled(self, factor: float) -> Estimate:
        """Return the same in another unit."""
        return Estimate(self.value * factor, self.uncertainty * abs(factor))

    def within(self, limit: float) -> Estimate:
        """Return the same, or no number where its uncertainty is above a limit: the data cannot tell."""
        return self if self.uncertainty <= limit else Estimate(math.nan, math.nan)

    def text(self, form: str = ".4g", error_form: str = ".2g", unknown: str = "-") -> str:
        """Return it for a reader, such as "12.34 ± 0.5".

        Args:
            form: Format of the value.
            error_form: Format of the uncertainty.
            unknown: What stands for no value.
        """
        if math.isnan(self.value):
            return unknown
        error = "?" if math.isnan(self.uncertainty) else format(self.uncertainty, error_form)
        return f"{self.value:{form}} ± {error}"


def finite(value: float) -> float | None:
    """Return `value`, or None where JSON has no number for it."""
    return value if math.isfinite(value) else None

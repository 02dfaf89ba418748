"""Stop when the 95% interval is narrow enough: the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ptxbench.experiment.criterion import StoppingCriterion
from ptxbench.storage.manifest import RunArguments


@dataclass(frozen=True)
class Precision(StoppingCriterion):
    """A row is done when the half-width of its 95% interval is at most a fraction of its energy.

    Attributes:
        fraction: That fraction.
        least: Repeats in any case.
        most: Repeats at most.
    """

    fraction: float
    least: int
    most: int

    @classmethod
    def from_arguments(cls, arguments: RunArguments) -> Self:
        """Return the criterion as a run's arguments set it."""
        return cls(arguments.precision, arguments.min_repeats, arguments.max_repeats)

    def bounds(self) -> tuple[int, int]:
        """Return how many repeats every row gets in any case, and how many it gets at most."""
        return self.least, self.most

    def is_met(self, mean: float, ci95: float) -> bool:
        """Return whether the interval is narrow enough."""
        return ci95 <= self.fraction * abs(mean)


CRITERION = Precision

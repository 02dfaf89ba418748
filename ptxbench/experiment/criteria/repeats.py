"""Stop after a fixed number of repeats, whatever the interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ptxbench.experiment.criterion import StoppingCriterion
from ptxbench.storage.manifest import RunArguments


@dataclass(frozen=True)
class FixedRepeats(StoppingCriterion):
    """Every row gets the same number of repeats: `max_repeats` of the run.

    Attributes:
        repeats: That number.
    """

    repeats: int

    @classmethod
    def from_arguments(cls, arguments: RunArguments) -> Self:
        """Return the criterion as a run's arguments set it."""
        return cls(arguments.max_repeats)

    def bounds(self) -> tuple[int, int]:
        """Return the number twice: every row gets it."""
        return self.repeats, self.repeats

    def is_met(self, mean: float, ci95: float) -> bool:
        """Return True: no row gets more."""
        del mean, ci95
        return True


CRITERION = FixedRepeats

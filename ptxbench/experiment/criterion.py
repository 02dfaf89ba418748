"""What a stopping criterion is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from ptxbench.storage.manifest import RunArguments


class StoppingCriterion(ABC):
    """Decides when a row has been measured often enough.

    Rows are looked at after each repeat, and again when a run is resumed: a criterion keeps no state.
    """

    @classmethod
    @abstractmethod
    def from_arguments(cls, arguments: RunArguments) -> Self:
        """Return the criterion as a run's arguments set it."""

    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """Return how many repeats every row gets in any case, and how many it gets at most."""

    @abstractmethod
    def is_met(self, mean: float, ci95: float) -> bool:
        """Return whether a row needs no more repeats; called only between the bounds.

        Args:
            mean: Its energy so far.
            ci95: Half-width of the 95% interval of the energy, in the same unit, NaN where it is not known.
        """

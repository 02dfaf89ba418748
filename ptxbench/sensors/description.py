"""What a power source is like: refresh, averaging window, lag and quantum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ptxbench.sensors.base import SourceName, Unit
from ptxbench.sensors.sources import source_of

# What may be left of a step of power when a low-pass counts as settled.
_LEFT_OF_STEP = 1e-3
# No source takes longer for anything; of one that does, times in ns would not fit their numbers.
_LONGEST_S = 86_400.0
# Origin of figures that were measured on other boards of the model.
ALIKE = "measured on boards alike"


class Shape(StrEnum):
    """How a sensor weighs the past."""

    BOXCAR = "boxcar"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True)
class SensorDescription:
    """How one source relates to the power that the GPU really draws.

    Attributes:
        source: Which source.
        refresh_s: Time between two new values.
        averaging_s: Length of the running mean that one value is (0: a point); for a low-pass the
            running mean of equal mean age, which is twice its time constant.
        lag_s: Age of the newest instant that a fresh value covers.
        quantum: Step between two neighbouring values, W (J for the counter).
        origin: Where the figures come from: "documented", "measured", "simulated" or `ALIKE`.
        shape: Running mean, or first-order low-pass.
        regulation_s: Time after a launch for which the GPU's own regulation moves the power; steady power is
            read behind it.
        excursion: Rise of the power within a kernel, as a fraction, from which on it is an excursion that
            steady power is read behind (`excursion`); 0: none is looked for.
    """

    source: SourceName
    refresh_s: float
    averaging_s: float
    lag_s: float
    quantum: float
    origin: str
    # Runs that were kept before these were known do not say them.
    shape: Shape = Shape.BOXCAR
    regulation_s: float = 0.0
    excursion: float = 0.0

    def fault(self) -> str:
        """Return what no power source can be, for the reader of a file; "" where all is well."""
        least = {"refresh_s": 0.0, "averaging_s": 0.0, "lag_s": -_LONGEST_S, "regulation_s": 0.0}
        for name, least_s in least.items():
            if not least_s <= getattr(self, name) <= _LONGEST_S:
                return f"has {name} of {getattr(self, name):g}, which no power source has"
        return ""

    @property
    def counts_energy(self) -> bool:
        """Whether the source counts energy up, J, and does not give power."""
        return source_of(self.source).unit is Unit.JOULE

    @property
    def is_of_board(self) -> bool:
        """Whether the source tells of the whole board, not of a part of it."""
        return source_of(self.source).whole_board

    @property
    def memory_s(self) -> float:
        """Time over which a fresh value forgets what was before it, to a thousandth for a low-pass."""
        if self.shape is Shape.BOXCAR:
            return self.averaging_s
        return -math.log(_LEFT_OF_STEP) * self.averaging_s / 2

    @property
    def readings_apart(self) -> int:
        """Fresh readings from one to the first that shares nothing with it."""
        return self._readings_in(self.memory_s)

    @property
    def readings_regulated(self) -> int:
        """Fresh readings in the time for which the GPU's regulation moves the power."""
        return self._readings_in(self.regulation_s)

    def _readings_in(self, time_s: float) -> int:
        return max(1, round(time_s / self.refresh_s)) if self.refresh_s > 0 else 1

    @property
    def settle_s(self) -> float:
        """Time after a step of power until a reading no longer depends on the power before it."""
        return self.memory_s + self.refresh_s + self.lag_s

    @property
    def overlap(self) -> float:
        """How many fresh values average over one and the same moment, at least one."""
        return max(1.0, self.averaging_s / self.refresh_s) if self.refresh_s > 0 else 1.0

    @property
    def unseen_share(self) -> float:
        """Share of its time that the source does not see."""
        return max(1 - self.averaging_s / self.refresh_s, 0.0) if self.refresh_s > 0 else 0.0

    @property
    def delay_s(self) -> float:
        """Mean age of the power that a fresh value measures."""
        return self.lag_s + self.averaging_s / 2

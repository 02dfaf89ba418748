"""What a power source is like: refresh, averaging window, lag and quantum."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.power.source import SourceName


@dataclass(frozen=True)
class SensorDescription:
    """How one source relates to the power that the GPU really draws.

    Attributes:
        source: Which source.
        refresh_s: Time between two new values.
        averaging_s: Length of the running mean that one value is (0: a point).
        lag_s: Age of the newest instant that a fresh value covers.
        quantum: Step between two neighbouring values, W (J for the counter).
        origin: Where the figures come from: "documented", "measured" or "simulated".
    """

    source: SourceName
    refresh_s: float
    averaging_s: float
    lag_s: float
    quantum: float
    origin: str

    @property
    def settle_s(self) -> float:
        """Time after a step of power until a reading holds nothing of what was before it."""
        return self.averaging_s + self.refresh_s + self.lag_s

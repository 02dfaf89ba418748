"""At which level the supply voltage of a simulated board is, and until when."""

from __future__ import annotations

import math
from typing import Protocol

from ptxbench.devices.simulated.chance import hashed_normal, hashed_unit
from ptxbench.devices.simulated.profile import SupplySteps, WarmSteps


class Levels(Protocol):
    """Which of a supply's factors holds along time."""

    @property
    def until_ns(self) -> int:
        """When the level that was asked for last is to be asked for again, at the latest."""

    def level(self, at_ns: int, temperature_c: float) -> int:
        """Return the level of a moment, by its place among the factors.

        Args:
            at_ns: Not before that of the last call.
            temperature_c: Temperature then.
        """


class TimedLevels:
    """Levels that jump by chance along time, whatever runs.

    Args:
        steps: What they are and how long they hold.
        start_ns: When the first begins.
        seed: Sets the levels and when they jump.
    """

    def __init__(self, steps: SupplySteps, start_ns: int, seed: int) -> None:
        self._steps = steps
        self._seed = seed
        self._jumps = 0
        self._level = int(self._unit("first") * len(steps.factors))
        self._until_ns = start_ns + self._hold_ns()

    @property
    def until_ns(self) -> int:
        """When the next jump is."""
        return self._until_ns

    def level(self, at_ns: int, temperature_c: float) -> int:
        """Return the level of a moment; it does not go with the temperature."""
        del temperature_c
        while at_ns >= self._until_ns:
            self._jumps += 1
            others = len(self._steps.factors) - 1
            self._level = (self._level + 1 + int(self._unit("level") * others)) % (others + 1)
            self._until_ns += self._hold_ns()
        return self._level

    def _hold_ns(self) -> int:
        """Return how long the level of the moment holds: exponential, so that its age tells nothing."""
        return max(1, round(-self._steps.hold_s * math.log1p(-self._unit("hold")) * 1e9))

    def _unit(self, word: str) -> float:
        return hashed_unit("supply", word, str(self._seed), str(self._jumps))


class WarmLevels:
    """Two levels that go with the temperature: up where the chip warms, down where it has cooled further.

    Args:
        steps: The levels, and at what temperatures they change.
        start_ns: When the board begins, at the lower one.
        seed: Sets the temperature of each change.
    """

    def __init__(self, steps: WarmSteps, start_ns: int, seed: int) -> None:
        self._steps = steps
        self._seed = seed
        self._jumps = 0
        self._up = False
        self._changes_at_c = self._drawn_c()
        self._until_ns = start_ns

    @property
    def until_ns(self) -> int:
        """When the regulator looks at the temperature again."""
        return self._until_ns

    def level(self, at_ns: int, temperature_c: float) -> int:
        """Return the level of a moment: 0 the lower, 1 the upper."""
        if at_ns >= self._until_ns:
            self._until_ns = at_ns + max(1, round(self._steps.look_s * 1e9))
            warmer = temperature_c > self._changes_at_c
            if warmer is not self._up:
                self._up = warmer
                self._jumps += 1
                self._changes_at_c = self._drawn_c()
        return int(self._up)

    def _drawn_c(self) -> float:
        """Return at what temperature the level of the moment ends."""
        mean_c, deviation_c = self._steps.down_c if self._up else self._steps.up_c
        return mean_c + deviation_c * hashed_normal("warm supply", str(self._seed), str(self._jumps))


def levels_of(steps: SupplySteps | WarmSteps, start_ns: int, seed: int) -> Levels:
    """Return the levels of a profile's supply."""
    if isinstance(steps, WarmSteps):
        return WarmLevels(steps, start_ns, seed)
    return TimedLevels(steps, start_ns, seed)

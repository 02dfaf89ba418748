"""Which voltage the SMs of a simulated board have, and until when."""

from __future__ import annotations

import math

from ptxbench.devices.simulated.profile import ThermalVoltageSteps, TimedVoltageSteps
from ptxbench.devices.simulated.rng import hashed_normal, hashed_unit


class TimedVoltage:
    """A voltage that steps by chance along time, whatever runs.

    Attributes:
        until_ns: When the next jump is.

    Args:
        steps: The factors, and how long each holds.
        start_ns: When the first begins.
        seed: Sets the steps and when they come.
    """

    def __init__(self, steps: TimedVoltageSteps, start_ns: int, seed: int) -> None:
        self._steps = steps
        self._seed = seed
        self._steps_made = 0
        self._index = int(self._unit("first") * len(steps.factors))
        self.until_ns = start_ns + self._hold_ns()

    def factor_index(self, at_ns: int, temperature_c: float) -> int:
        """Return the voltage of a moment, by its place among the factors, whatever the temperature.

        Args:
            at_ns: Not before that of the last call.
            temperature_c: Temperature then.
        """
        del temperature_c
        while at_ns >= self.until_ns:
            self._steps_made += 1
            others = len(self._steps.factors) - 1
            self._index = (self._index + 1 + int(self._unit("level") * others)) % (others + 1)
            self.until_ns += self._hold_ns()
        return self._index

    def _hold_ns(self) -> int:
        """Return how long the present voltage holds: exponential, so that its age tells nothing."""
        return max(1, round(-self._steps.hold_s * math.log1p(-self._unit("hold")) * 1e9))

    def _unit(self, word: str) -> float:
        return hashed_unit("supply", word, str(self._seed), str(self._steps_made))


class ThermalVoltage:
    """A voltage that follows the temperature: up where the chip warms, down where it has cooled further.

    Attributes:
        until_ns: When the regulator looks at the temperature again.

    Args:
        steps: The factors, and at what temperatures the voltage steps.
        start_ns: When the board begins, at the lower voltage.
        seed: Sets the temperature of each change.
    """

    def __init__(self, steps: ThermalVoltageSteps, start_ns: int, seed: int) -> None:
        self._steps = steps
        self._seed = seed
        self._steps_made = 0
        self._up = False
        self._changes_at_c = self._drawn_c()
        self.until_ns = start_ns

    def factor_index(self, at_ns: int, temperature_c: float) -> int:
        """Return the voltage of a moment: 0 the lower, 1 the upper."""
        if at_ns >= self.until_ns:
            self.until_ns = at_ns + max(1, round(self._steps.look_s * 1e9))
            warmer = temperature_c > self._changes_at_c
            if warmer is not self._up:
                self._up = warmer
                self._steps_made += 1
                self._changes_at_c = self._drawn_c()
        return int(self._up)

    def _drawn_c(self) -> float:
        """Return at what temperature the present voltage ends."""
        mean_c, deviation_c = self._steps.down_c if self._up else self._steps.up_c
        return mean_c + deviation_c * hashed_normal("warm supply", str(self._seed), str(self._steps_made))


def voltage_of(
    steps: TimedVoltageSteps | ThermalVoltageSteps, start_ns: int, seed: int
) -> TimedVoltage | ThermalVoltage:
    """Return the voltage of a profile along time."""
    if isinstance(steps, ThermalVoltageSteps):
        return ThermalVoltage(steps, start_ns, seed)
    return TimedVoltage(steps, start_ns, seed)

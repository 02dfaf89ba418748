"""The power cap: which clock keeps total power under it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from ptxbench.core.gpu_settings import CLOCK_STEP_MHZ
from ptxbench.devices.simulated.profile import Profile
from ptxbench.devices.simulated.regulation import Allowance

_CONTROL_PERIOD_S = 0.020


@dataclass(frozen=True)
class ClockStep:
    """A stretch of one clock.

    Attributes:
        clock_mhz: The clock.
        dynamic_w: Dynamic power at that clock.
        cycles: How much work it does.
        duration_s: How long it takes.
        capped: Whether the power cap holds the clock down.
    """

    clock_mhz: float
    dynamic_w: float
    cycles: float
    duration_s: float
    capped: bool


@dataclass(frozen=True)
class Demand:
    """What a stretch of work draws, and how fast it may go.

    Attributes:
        full_w: Dynamic power of what the SM clock drives, at the chip's full clock.
        most_cycles_per_s: As fast as memory lets the work go, in its cycles.
        memory_j_per_cycle: What memory adds, whatever the SM clock.
        saved_w: What a lower memory clock saves of the static power.
    """

    full_w: float
    most_cycles_per_s: float = math.inf
    memory_j_per_cycle: float = 0.0
    saved_w: float = 0.0

    def speed_hz(self, clock_mhz: float) -> float:
        """Return the cycles of the work in a second at an SM clock."""
        return min(clock_mhz * 1e6, self.most_cycles_per_s)

    def power_w(self, clock_mhz: float, factor: float) -> float:
        """Return the dynamic power at an SM clock, whose `dynamic_factor` is given."""
        speed_hz = self.speed_hz(clock_mhz)
        busy = speed_hz / (clock_mhz * 1e6)
        return factor * self.full_w * busy + self.memory_j_per_cycle * speed_hz - self.saved_w


def voltage_factor(clock: float, ridge: float = 0.0) -> float:
    """Voltage over that at the full clock: it falls on a line to half at a clock of zero, down to the ridge.

    Args:
        clock: Clock over the full clock.
        ridge: Ridge point over the full clock.
    """
    return 0.5 + 0.5 * max(clock, ridge)


def dynamic_factor(clock: float, ridge: float = 0.0) -> float:
    """Dynamic power at a fraction of the full clock, over that at the full clock: f V(f)^2.

    Args:
        clock: Clock over the full clock.
        ridge: Ridge point over the full clock.
    """
    return clock * voltage_factor(clock, ridge) ** 2


class Governor:
    """Lowers the clock, in steps of 15 MHz every 20 ms, while total power would pass what is allowed.

    At the floor of the clock the cap no longer holds.
    """

    def __init__(self, profile: Profile, peak_w: Callable[[float, float, float], float]) -> None:
        """Make the governor of one board.

        Args:
            profile: The GPU.
            peak_w: Highest total power, given temperature in C, dynamic power in W and duration in s.
        """
        chip = profile.chip
        self._cap_w = profile.board.power_cap_w
        self._peak_w = peak_w
        steps = int((chip.clock_mhz - chip.clock_floor_mhz) / CLOCK_STEP_MHZ)
        self._clocks_mhz = [chip.clock_mhz - n * CLOCK_STEP_MHZ for n in range(steps, -1, -1)]
        ridge = chip.ridge_mhz / chip.clock_mhz
        self._factors = [dynamic_factor(clock / chip.clock_mhz, ridge) for clock in self._clocks_mhz]
        # What all of it is cut to while a lower clock is set.
        self._every_clock_mhz, self._every_factor = tuple(self._clocks_mhz), tuple(self._factors)

    @property
    def supported_mhz(self) -> tuple[int, ...]:
        """Clocks that can be set, in ascending order."""
        return tuple(round(clock) for clock in self._every_clock_mhz)

    @property
    def cap_w(self) -> float:
        """The power cap."""
        return self._cap_w

    def set_clock(self, clock_mhz: int) -> None:
        """Let no kernel run faster than one of the supported clocks."""
        count = self.supported_mhz.index(clock_mhz) + 1
        self._clocks_mhz = list(self._every_clock_mhz[:count])
        self._factors = list(self._every_factor[:count])

    def set_cap(self, cap_w: float) -> None:
        """Set the power cap."""
        self._cap_w = cap_w

    @property
    def full_mhz(self) -> float:
        """The clock when nothing but its setting slows it."""
        return self._clocks_mhz[-1]

    def step(self, temperature_c: float, demand: Demand, cycles: float, allowed: Allowance) -> ClockStep:
        """Return the next stretch of work of which `cycles` are left.

        Args:
            temperature_c: Temperature now.
            demand: What the work draws.
            cycles: What is left of it.
            allowed: What may be drawn.
        """
        full_mhz = self.full_mhz
        left_s = cycles / demand.speed_hz(full_mhz)
        top_w = demand.power_w(full_mhz, self._factors[-1])
        if allowed.lasting and self._peak_w(temperature_c, top_w, left_s) <= self._cap_w:
            return ClockStep(full_mhz, top_w, cycles, left_s, capped=False)
        # Both the clock and the power it needs rise along the list.
        powers_w = [demand.power_w(*pair) for pair in zip(self._clocks_mhz, self._factors, strict=True)]
        under = bisect_right(
            powers_w,
            allowed.power_w(),
            key=lambda power_w: self._peak_w(temperature_c, power_w, _CONTROL_PERIOD_S),
        )
        chosen = max(0, under - 1)
        clock_mhz = self._clocks_mhz[chosen]
        speed_hz = demand.speed_hz(clock_mhz)
        duration_s = min(_CONTROL_PERIOD_S, cycles / speed_hz)
        done = cycles if duration_s < _CONTROL_PERIOD_S else duration_s * speed_hz
        return ClockStep(clock_mhz, powers_w[chosen], done, duration_s, capped=clock_mhz < full_mhz)

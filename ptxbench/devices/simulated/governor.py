"""The power cap: which clock keeps total power under it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from ptxbench.devices.simulated.profile import Profile

_CLOCK_STEP_MHZ = 15.0
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


def dynamic_factor(clock: float, ridge: float = 0.0) -> float:
    """Dynamic power at a fraction of the full clock, over that at the full clock: f V(f)^2.

    Voltage falls linearly with the clock, on a line to half at a clock of zero, and stays below the ridge.

    Args:
        clock: Clock over the full clock.
        ridge: Ridge point over the full clock.
    """
    voltage = 0.5 + 0.5 * max(clock, ridge)
    return clock * voltage**2


class Governor:
    """Lowers the clock, in steps of 15 MHz every 20 ms, while total power would pass the cap.

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
        steps = int((chip.clock_mhz - chip.clock_floor_mhz) / _CLOCK_STEP_MHZ)
        self._clocks_mhz = [chip.clock_mhz - n * _CLOCK_STEP_MHZ for n in range(steps, -1, -1)]
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

    def step(self, temperature_c: float, full_w: float, cycles: float) -> ClockStep:
        """Return the next stretch of work of which `cycles` are left.

        Args:
            temperature_c: Temperature now.
            full_w: Dynamic power of the work at the chip's full clock.
            cycles: What is left of it.
        """
        full_mhz = self.full_mhz
        left_s = cycles / (full_mhz * 1e6)
        top_w = self._factors[-1] * full_w
        if self._peak_w(temperature_c, top_w, left_s) <= self._cap_w:
            return ClockStep(full_mhz, top_w, cycles, left_s, capped=False)
        # Both the clock and the power it needs rise along the list.
        under = bisect_right(
            self._factors,
            self._cap_w,
            key=lambda factor: self._peak_w(temperature_c, factor * full_w, _CONTROL_PERIOD_S),
        )
        chosen = max(0, under - 1)
        clock_hz = self._clocks_mhz[chosen] * 1e6
        duration_s = min(_CONTROL_PERIOD_S, cycles / clock_hz)
        done = cycles if duration_s < _CONTROL_PERIOD_S else duration_s * clock_hz
        power_w = self._factors[chosen] * full_w
        clock_mhz = self._clocks_mhz[chosen]
        return ClockStep(clock_mhz, power_w, done, duration_s, capped=clock_mhz < full_mhz)

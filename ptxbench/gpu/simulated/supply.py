"""The supply voltage of the SMs: at which of its levels a stretch of work runs."""

from __future__ import annotations

import math
from dataclasses import replace

from ptxbench.gpu.simulated.chance import hashed_unit
from ptxbench.gpu.simulated.governor import ClockStep, Governor
from ptxbench.gpu.simulated.profile import SupplySteps


class Supply:
    """Cuts work where the level of the supply voltage jumps, under the power cap.

    The levels are drawn by chance along time, whatever runs. Where one changes within a kernel the clock
    dips; between two kernels nothing shows.
    """

    def __init__(
        self, steps: SupplySteps, governor: Governor, fed_static_w: float, start_ns: int, seed: int
    ) -> None:
        """Make the supply of a board.

        Args:
            steps: Its levels.
            governor: Keeps the power cap.
            fed_static_w: Static power that it feeds at factor 1.
            start_ns: When the first level begins.
            seed: Sets the levels and when they jump.
        """
        self._steps = steps
        self._governor = governor
        self._fed_static_w = fed_static_w
        self._seed = seed
        self._jumps = 0
        self._level = int(self._unit("first") * len(steps.factors))
        self._until_ns = start_ns + self._hold_ns()
        self._resting = True

    def rest(self) -> None:
        """End a kernel: jumps are not seen until the next one."""
        self._resting = True

    def step(self, at_ns: int, temperature_c: float, full_w: float, cycles: float) -> ClockStep:
        """Return the next stretch of work of which `cycles` are left.

        Args:
            at_ns: Now; not before that of the last call.
            temperature_c: Temperature now.
            full_w: Dynamic power of the work at the full clock and factor 1.
            cycles: What is left of it.
        """
        dips = self._jump_until(at_ns) and not self._resting
        self._resting = False
        # What jumps during a dip does so after it.
        stretch_s = self._steps.change_s if dips else (self._until_ns - at_ns) * 1e-9
        factor = self._steps.factors[self._level]
        supplied_w = factor * full_w + (factor - 1) * self._fed_static_w
        stretch_cycles = stretch_s * self._governor.full_mhz * 1e6
        step = self._governor.step(temperature_c, supplied_w, min(cycles, stretch_cycles))
        return _slowed(step, self._steps.change_mhz) if dips else step

    def _jump_until(self, at_ns: int) -> bool:
        """Go on to the level of a moment; tell whether that is another one."""
        before = self._level
        while at_ns >= self._until_ns:
            self._jumps += 1
            others = len(self._steps.factors) - 1
            self._level = (self._level + 1 + int(self._unit("level") * others)) % (others + 1)
            self._until_ns += self._hold_ns()
        return self._level != before

    def _hold_ns(self) -> int:
        """Return how long the level of the moment holds: exponential, so that its age tells nothing."""
        return max(1, round(-self._steps.hold_s * math.log1p(-self._unit("hold")) * 1e9))

    def _unit(self, word: str) -> float:
        return hashed_unit("supply", word, str(self._seed), str(self._jumps))


def _slowed(step: ClockStep, by_mhz: float) -> ClockStep:
    """Return the same work at the same voltage and a clock that is `by_mhz` lower."""
    clock_mhz = step.clock_mhz - by_mhz
    slower = step.clock_mhz / clock_mhz
    return replace(
        step, clock_mhz=clock_mhz, dynamic_w=step.dynamic_w / slower, duration_s=step.duration_s * slower
    )

"""The supply voltage of the SMs: in which of its states a stretch of work runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from ptxbench.gpu.simulated.chance import hashed_unit
from ptxbench.gpu.simulated.governor import ClockStep, Governor
from ptxbench.gpu.simulated.profile import SupplySteps


class Supply:
    """Cuts work into short stretches, each in one state of the supply voltage, under the power cap.

    Cold silicon has a lower voltage, and so does warm silicon now and then at high power: work then needs
    less energy. While the voltage changes within a kernel the clock dips; between two kernels there is none.
    """

    def __init__(
        self,
        steps: SupplySteps,
        governor: Governor,
        clock_mhz: float,
        static_w: Callable[[float], float],
        seed: int,
    ) -> None:
        """Make the supply of a board that is cold.

        Args:
            steps: Its states.
            governor: Keeps the power cap.
            clock_mhz: SM clock when nothing slows it.
            static_w: Static power in W, given the temperature in C.
            seed: Sets when the supply changes by itself.
        """
        self._steps = steps
        self._governor = governor
        self._stretch_cycles = steps.change_s * clock_mhz * 1e6
        self._static_w = static_w
        self._dither = _Dither(steps, seed)
        # States count down from the top one.
        self._warm_state = len(steps.thresholds_c)
        self._state = self._warm_state
        self._resting = True

    def rest(self) -> None:
        """End a kernel: the state that the next one begins in is taken before it begins."""
        self._resting = True

    def step(self, temperature_c: float, full_w: float, cycles: float) -> ClockStep:
        """Return the next stretch of work of which `cycles` are left.

        Args:
            temperature_c: Temperature now.
            full_w: Dynamic power of the work at the full clock in the top state.
            cycles: What is left of it.
        """
        if full_w == 0:
            # No dynamic power shows a state.
            return self._governor.step(temperature_c, full_w, cycles)
        steps = self._steps
        power_w = full_w + self._static_w(temperature_c)
        hot = power_w > steps.dither_w
        changed = self._enter(temperature_c - steps.slope_c_per_w * power_w, hot)
        supplied_w = steps.factors[self._state] * full_w
        step = self._governor.step(temperature_c, supplied_w, min(cycles, self._stretch_cycles))
        if changed:
            step = _slowed(step, steps.change_mhz)
        elif hot and self._state > 0:
            step = _slowed(step, steps.dither_mhz)
        if hot:
            self._dither.spend(step.duration_s)
        return step

    def _enter(self, warmth_c: float, hot: bool) -> bool:
        """Take the state of the moment; tell whether that is a change within a kernel."""
        before, within = self._state, not self._resting
        self._warm_state = self._warm_state_at(warmth_c)
        self._state = max(self._warm_state, 1 if hot and self._dither.low else 0)
        self._resting = False
        return within and self._state != before

    def _warm_state_at(self, warmth_c: float) -> int:
        """Return the state that the warmth holds, nearest to the one of before."""
        thresholds_c, half_c = self._steps.thresholds_c, self._steps.hysteresis_c / 2
        state = self._warm_state
        while state > 0 and warmth_c > thresholds_c[state - 1] + half_c:
            state -= 1
        while state < len(thresholds_c) and warmth_c < thresholds_c[state] - half_c:
            state += 1
        return state


class _Dither:
    """Turns low and back after times of work at high power that are drawn by chance, exponentially."""

    def __init__(self, steps: SupplySteps, seed: int) -> None:
        self._steps = steps
        self._seed = seed
        self._turns = 0
        self.low = False
        self._left_s = self._draw_s()

    def spend(self, duration_s: float) -> None:
        """Let so much work at high power pass."""
        self._left_s -= duration_s
        while self._left_s <= 0:
            self.low = not self.low
            self._turns += 1
            self._left_s += self._draw_s()

    def _draw_s(self) -> float:
        mean_s = self._steps.dither_low_s if self.low else self._steps.dither_top_s
        return -mean_s * math.log1p(-hashed_unit("dither", str(self._seed), str(self._turns)))


def _slowed(step: ClockStep, by_mhz: float) -> ClockStep:
    """Return the same work at the same voltage and a clock that is `by_mhz` lower."""
    clock_mhz = step.clock_mhz - by_mhz
    slower = step.clock_mhz / clock_mhz
    return replace(
        step, clock_mhz=clock_mhz, dynamic_w=step.dynamic_w / slower, duration_s=step.duration_s * slower
    )

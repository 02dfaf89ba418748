"""The supply voltage of the SMs, which moves in steps: at which one a stretch of work runs."""

from __future__ import annotations

from dataclasses import replace

from ptxbench.devices.simulated.governor import ClockStep, Demand, Governor
from ptxbench.devices.simulated.profile import ThermalVoltageSteps, TimedVoltageSteps
from ptxbench.devices.simulated.regulation import Allowance
from ptxbench.devices.simulated.voltage_in_time import voltage_of


class SteppedVoltage:
    """Cuts work where the supply voltage steps, under the power cap.

    `voltage_in_time` says when it steps. Where it does so within a kernel the clock dips; between two kernels
    nothing shows.
    """

    def __init__(
        self,
        steps: TimedVoltageSteps | ThermalVoltageSteps,
        governor: Governor,
        fed_static_w: float,
        start_ns: int,
        seed: int,
    ) -> None:
        """Make the voltage of a board.

        Args:
            steps: Its steps.
            governor: Keeps the power cap.
            fed_static_w: Static power that the voltage feeds at factor 1.
            start_ns: When the first voltage begins.
            seed: Sets the steps and when they come.
        """
        self._steps = steps
        self._voltage = voltage_of(steps, start_ns, seed)
        self._governor = governor
        self._fed_static_w = fed_static_w
        self._index = 0
        self._resting = True

    def rest(self) -> None:
        """End a kernel: steps are not seen until the next one."""
        self._resting = True

    def step(
        self, at_ns: int, temperature_c: float, demand: Demand, cycles: float, allowed: Allowance
    ) -> ClockStep:
        """Return the next stretch of work of which `cycles` are left.

        Args:
            at_ns: Now; not before that of the last call.
            temperature_c: Temperature now.
            demand: What the work draws at factor 1.
            cycles: What is left of it.
            allowed: What may be drawn.
        """
        before, self._index = self._index, self._voltage.factor_index(at_ns, temperature_c)
        dips = self._index != before and not self._resting
        self._resting = False
        # A step during a dip comes after it.
        stretch_s = self._steps.change_s if dips else (self._voltage.until_ns - at_ns) * 1e-9
        factor = self._steps.factors[self._index]
        supplied_w = factor * demand.full_w + (factor - 1) * self._fed_static_w
        stretch_cycles = stretch_s * demand.speed_hz(self._governor.full_mhz)
        supplied = replace(demand, full_w=supplied_w)
        step = self._governor.step(temperature_c, supplied, min(cycles, stretch_cycles), allowed)
        return _slowed(step, self._steps.change_mhz) if dips else step


def _slowed(step: ClockStep, by_mhz: float) -> ClockStep:
    """Return the same work at the same voltage and a clock that is `by_mhz` lower."""
    clock_mhz = step.clock_mhz - by_mhz
    slower = step.clock_mhz / clock_mhz
    return replace(
        step, clock_mhz=clock_mhz, dynamic_w=step.dynamic_w / slower, duration_s=step.duration_s * slower
    )

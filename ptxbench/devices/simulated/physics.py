"""Power, temperature and energy of a simulated board along virtual time, solved in closed form.

Static power grows linearly with temperature, temperature follows total power with one time constant,
and dynamic power is constant within a segment. So within a segment temperature and power relax
exponentially, and energy is their integral without any step of time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.devices.simulated.governor import ClockStep, Demand, Governor
from ptxbench.devices.simulated.profile import Board, Profile
from ptxbench.devices.simulated.regulation import Allowance, allowance
from ptxbench.devices.simulated.voltage import SteppedVoltage

# How much of the static power the supply of the SMs feeds.
_FED_STATIC = 0.5


@dataclass(frozen=True)
class Phase:
    """Work at one intensity.

    Attributes:
        cycles: SM clock cycles that it takes.
        energy_j: Dynamic energy of the whole chip at the full clock, at voltage factor 1.
        memory_s: Time that its bytes take at least, at the full memory clock.
        memory_j: Energy of its bytes from DRAM, whatever the SM clock.
        from_dram: Whether the memory clock changes `memory_s`.
    """

    cycles: float
    energy_j: float
    memory_s: float = 0.0
    memory_j: float = 0.0
    from_dram: bool = True

    def times(self, count: int) -> Phase:
        """Return the same work so often."""
        return Phase(
            count * self.cycles,
            count * self.energy_j,
            count * self.memory_s,
            count * self.memory_j,
            self.from_dram,
        )


@dataclass(frozen=True)
class PhaseEnd:
    """How a phase ended.

    Attributes:
        at_ns: When.
        cycles: SM clock cycles that it took, waits for memory included.
    """

    at_ns: int
    cycles: float


class Thermal:
    """The board's first-order thermal model, leakage feedback included.

    With static power k T, resistance R and time constant tau, power that rises with temperature heats the
    board further: it settles 1 / (1 - k R) times higher, and takes that much longer to do so.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self.slope_w_per_k = board.static_slope_w_per_k
        self._feedback = 1 / (1 - board.static_slope_w_per_k * board.thermal_resistance_k_per_w)
        self.time_constant_s = board.time_constant_s * self._feedback

    def static_w(self, temperature_c: float) -> float:
        """Static power at a temperature."""
        return self._board.static_w + self.slope_w_per_k * (temperature_c - self._board.static_at_c)

    def settled_c(self, dynamic_w: float) -> float:
        """Temperature after a long time at constant dynamic power."""
        coolant_c = self._board.coolant_c
        rise_k = self._board.thermal_resistance_k_per_w * (self.static_w(coolant_c) + dynamic_w)
        return coolant_c + self._feedback * rise_k

    def after_c(self, temperature_c: float, dynamic_w: float, duration_s: float) -> float:
        """Temperature after `duration_s` at constant dynamic power."""
        settled_c = self.settled_c(dynamic_w)
        return settled_c + (temperature_c - settled_c) * math.exp(-duration_s / self.time_constant_s)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A stretch of constant dynamic power that lasts until the next one.

    Where the voltage has steps, it holds what they add to or take from the static power as well.
    """

    start_ns: int
    temperature_c: float
    energy_j: float
    dynamic_w: float
    clock_mhz: float
    capped: bool


class Physics:
    """The board's past, and its future while nothing more is launched."""

    def __init__(self, profile: Profile, start_ns: int, seed: int = 0) -> None:
        """Start settled and waiting at `start_ns`, as if it had been so for ever.

        Args:
            profile: The GPU.
            start_ns: Now.
            seed: Sets the steps of the voltage, where the profile has any.
        """
        self._thermal = Thermal(profile.board)
        self._regulators, self._over_until_ns = profile.board.regulators, -math.inf
        self._clock_mhz = profile.chip.clock_mhz
        self._governor = Governor(profile, self._peak_w)
        steps, fed_w = profile.voltage_steps, _FED_STATIC * profile.board.static_w
        self._voltage = SteppedVoltage(steps, self._governor, fed_w, start_ns, seed) if steps else None
        self._memory_ratio, self._memory_clock_w = 1.0, profile.memory.clock_w if profile.memory else 0.0
        idle = _Segment(start_ns, self._thermal.settled_c(0.0), 0.0, 0.0, self._clock_mhz, capped=False)
        self._segments = [idle]
        self._starts_ns = [start_ns]

    @property
    def governor(self) -> Governor:
        """What keeps clock and power cap."""
        return self._governor

    def set_memory_clock(self, ratio: float) -> None:
        """Set the memory clock for what is laid from now on, over the full one."""
        self._memory_ratio = ratio

    @property
    def memory_clock_ratio(self) -> float:
        """Memory clock over the full one."""
        return self._memory_ratio

    def run(self, start_ns: int, phases: Sequence[Phase]) -> tuple[int, ...]:
        """Lay phases on the time line as `lay` does, and return when each ends, ns."""
        return tuple(end.at_ns for end in self.lay(start_ns, phases))

    def lay(self, start_ns: int, phases: Sequence[Phase]) -> tuple[PhaseEnd, ...]:
        """Lay phases on the time line, one after the other, and wait after them.

        Args:
            start_ns: When the first begins; not before the end of the last run.
            phases: The work.

        Returns:
            How each phase ends.
        """
        ends = []
        at_ns = start_ns
        for phase in phases:
            ends.append(self._lay_phase(at_ns, phase))
            at_ns = ends[-1].at_ns
        self._begin(at_ns, -self._saved_w, self._governor.full_mhz, capped=False)
        if self._voltage:
            self._voltage.rest()
        return tuple(ends)

    @property
    def _saved_w(self) -> float:
        """What a lower memory clock saves of the static power."""
        return (1 - self._memory_ratio) * self._memory_clock_w

    def _demand(self, phase: Phase) -> Demand:
        memory_s = phase.memory_s / (self._memory_ratio if phase.from_dram else 1.0)
        return Demand(
            full_w=phase.energy_j / (phase.cycles / (self._clock_mhz * 1e6)),
            most_cycles_per_s=phase.cycles / memory_s if memory_s else math.inf,
            memory_j_per_cycle=phase.memory_j / phase.cycles,
            saved_w=self._saved_w,
        )

    def _lay_phase(self, start_ns: int, phase: Phase) -> PhaseEnd:
        """Lay one phase as segments of constant power and clock; return its end."""
        demand = self._demand(phase)
        left, at_ns, taken = phase.cycles, start_ns, 0.0
        while left > 0:
            step = self._next_step(at_ns, demand, left)
            self._begin(at_ns, step.dynamic_w, step.clock_mhz, step.capped)
            at_ns += max(1, round(step.duration_s * 1e9))
            if self.power_w(at_ns) > self._governor.cap_w:
                self._over_until_ns = at_ns
            left -= step.cycles
            taken += step.duration_s * step.clock_mhz * 1e6
        return PhaseEnd(at_ns, taken if phase.memory_s else phase.cycles)

    def _next_step(self, at_ns: int, demand: Demand, cycles: float) -> ClockStep:
        temperature_c, allowed = self.temperature_c(at_ns), self._allowed(at_ns)
        if self._voltage is None:
            return self._governor.step(temperature_c, demand, cycles, allowed)
        return self._voltage.step(at_ns, temperature_c, demand, cycles, allowed)

    def _allowed(self, at_ns: int) -> Allowance:
        """Return what the power cap allows at a moment, by what was drawn until then."""
        return allowance(
            self._regulators,
            self._governor.cap_w,
            lambda mean_s: self.mean_power_w(at_ns - round(mean_s * 1e9), at_ns),
            (at_ns - self._over_until_ns) * 1e-9,
        )

    def _begin(self, start_ns: int, dynamic_w: float, clock_mhz: float, capped: bool) -> None:
        temperature_c, energy_j = self.temperature_c(start_ns), self.energy_j(start_ns)
        self._segments.append(_Segment(start_ns, temperature_c, energy_j, dynamic_w, clock_mhz, capped))
        self._starts_ns.append(start_ns)

    def _peak_w(self, temperature_c: float, dynamic_w: float, duration_s: float) -> float:
        """Highest total power within a stretch of constant dynamic power."""
        # Temperature moves one way within a segment, so that the peak is at one of its ends.
        end_c = self._thermal.after_c(temperature_c, dynamic_w, duration_s)
        return dynamic_w + self._thermal.static_w(max(temperature_c, end_c))

    def _segment(self, at_ns: int) -> _Segment:
        if at_ns >= self._starts_ns[-1]:
            return self._segments[-1]
        # Before the first segment the board was waiting, settled, like in it.
        return self._segments[max(0, bisect_right(self._starts_ns, at_ns) - 1)]

    def temperature_c(self, at_ns: int) -> float:
        """Temperature at a moment."""
        segment = self._segment(at_ns)
        elapsed_s = (at_ns - segment.start_ns) * 1e-9
        return self._thermal.after_c(segment.temperature_c, segment.dynamic_w, elapsed_s)

    def power_w(self, at_ns: int) -> float:
        """Total power at a moment."""
        return self._segment(at_ns).dynamic_w + self._thermal.static_w(self.temperature_c(at_ns))

    def energy_j(self, at_ns: int) -> float:
        """Energy drawn since the start."""
        segment = self._segment(at_ns)
        thermal = self._thermal
        elapsed_s = (at_ns - segment.start_ns) * 1e-9
        settled_c = thermal.settled_c(segment.dynamic_w)
        settled_w = segment.dynamic_w + thermal.static_w(settled_c)
        # The integral of the exponential that is left until all has settled.
        tail_s = -thermal.time_constant_s * math.expm1(-elapsed_s / thermal.time_constant_s)
        unsettled_w = thermal.slope_w_per_k * (segment.temperature_c - settled_c)
        return segment.energy_j + settled_w * elapsed_s + unsettled_w * tail_s

    def mean_power_w(self, begin_ns: int, end_ns: int) -> float:
        """Mean power from `begin_ns` to `end_ns`; the power at `end_ns` where they are the same."""
        if begin_ns == end_ns:
            return self.power_w(end_ns)
        return (self.energy_j(end_ns) - self.energy_j(begin_ns)) / ((end_ns - begin_ns) * 1e-9)

    def clock_mhz(self, at_ns: int) -> float:
        """SM clock at a moment."""
        return self._segment(at_ns).clock_mhz

    def throttled(self, at_ns: int) -> bool:
        """Whether the power cap holds the clock down at a moment."""
        return self._segment(at_ns).capped

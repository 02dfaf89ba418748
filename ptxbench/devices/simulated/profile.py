"""What one simulated GPU is like: chip, cooling, power cap and sensors.

The names of the fields are the keys of a profile's file (`load.py`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ptxbench.core.target import TARGETS
from ptxbench.sensors.base import POWER_SOURCES, SourceName

# Threads of the largest block that ptxbench launches; an SM must hold one.
_LARGEST_BLOCK = 1024


# Least and most of a number by how its key ends; what lies beyond no GPU has, and no simulation can hold.
_RANGES = (
    ("bytes_per_s", 1.0, 1e15),
    ("_s", 1e-4, 1e3),
    ("bytes", 1.0, 1e12),
    ("offset", 0.0, 1e9),
    ("", 1e-6, 1e6),
)


def _out_of_range(one: Any, zeros: Container[str] = (), signed: Container[str] = ()) -> str:
    """Return which number of a dataclass no GPU has, "" where there is none."""
    for key in (f.name for f in fields(one)):
        value = getattr(one, key)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float):
                fault = _number_fault(key, number, key in zeros, key in signed)
                if fault:
                    return fault
    return ""


def _number_fault(key: str, number: float, may_be_zero: bool = False, is_signed: bool = False) -> str:
    least, most = next((low, high) for end, low, high in _RANGES if key.endswith(end))
    least = -most if is_signed else 1 if isinstance(number, int) else least
    if least <= number <= most or (number == 0 and may_be_zero):
        return ""
    return f"has {key} = {number:g}: give {'0 or ' if may_be_zero else ''}a number from {least:g} to {most:g}"


@dataclass(frozen=True)
class SensorSpec:
    """How one power source distorts the true power.

    A fresh value at a refresh tick is the mean of the true power over `averaging_s`, up to `lag_s`
    before the tick, times `gain`, plus `offset` and noise, rounded to `quantum`. The counter is the
    integral of the true power, with the same figures in joules.

    Attributes:
        source: Which source.
        refresh_s: Time between two new values.
        averaging_s: Length of the running mean (0: a point); not used by the counter.
        lag_s: Age of the newest instant that a fresh value covers.
        gain: Factor on the truth.
        offset: Added to the value, W (J for the counter).
        quantum: Step between two neighbouring values, W (J for the counter).
        noise_w: Standard deviation of each value; not used by the counter.
    """

    source: SourceName
    refresh_s: float
    averaging_s: float = 0.0
    lag_s: float = 0.0
    gain: float = 1.0
    offset: float = 0.0
    quantum: float = 0.001
    noise_w: float = 0.0

    def fault(self) -> str:
        """Return what no sensor can be, for the reader of a file that contains it; "" where all is well."""
        if self.source not in POWER_SOURCES:
            return f"has source = {self.source}: give one of {', '.join(POWER_SOURCES)}"
        return _out_of_range(self, ("averaging_s", "lag_s", "noise_w"), ("offset",))


@dataclass(frozen=True)
class Chip:
    """The SMs and what they can hold and issue.

    Attributes:
        target: SASS target, such as "sm_90a".
        sm_count: Streaming multiprocessors.
        max_threads_per_sm: Resident threads of one SM.
        max_blocks_per_sm: Resident blocks of one SM.
        registers_per_sm: 32-bit registers of one SM.
        shared_per_sm_bytes: Shared memory of one SM.
        schedulers_per_sm: Sub-partitions of one SM; each issues one warp instruction a cycle.
        fp32_cycles: Cycles in which a sub-partition's FP32 pipe takes one warp instruction.
        fp64_cycles: The same of its FP64 pipe.
        clock_mhz: SM clock when nothing slows it.
        clock_floor_mhz: Lowest clock that the power cap can ask for.
        memory_clock_mhz: Memory clock.
        l2_bytes: Size of L2; an array that is larger comes from DRAM.
        dram_bytes_per_s: Peak bandwidth of DRAM by the data sheet.
        ridge_mhz: Clock below which the voltage stays as it is; 0: it falls with the clock everywhere.
        energy_scale: Factor on every hidden energy of an instruction.
    """

    target: str
    sm_count: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    fp32_cycles: float
    fp64_cycles: float
    clock_mhz: float
    clock_floor_mhz: float
    memory_clock_mhz: float
    l2_bytes: int
    dram_bytes_per_s: float
    energy_scale: float = 1.0
    ridge_mhz: float = 0.0
    registers_per_sm: int = 65536
    shared_per_sm_bytes: int = 100 * 1024
    schedulers_per_sm: int = 4

    def fault(self) -> str:
        """Return what no chip can be, for the reader of a file that contains it; "" where all is well."""
        known = [target.name for target in TARGETS]
        if self.target not in known:
            return f"has target = {self.target}: give one of {', '.join(known)}"
        if self.max_threads_per_sm < _LARGEST_BLOCK:
            return f"has max_threads_per_sm = {self.max_threads_per_sm}: give at least {_LARGEST_BLOCK}"
        if self.clock_floor_mhz > self.clock_mhz:
            return f"has clock_floor_mhz = {self.clock_floor_mhz:g}: give at most clock_mhz"
        return _out_of_range(self, ("ridge_mhz",))


@dataclass(frozen=True)
class Regulator:
    """A loop of the power cap: it allows more than its limit for as long as a running mean lies below it.

    With P the limit and m the mean, P + gain (P - m) is allowed. After a step of the load power overshoots
    and rings, as a step response does.

    Attributes:
        limit_ratio: The limit that the mean is held at, over the power cap.
        mean_s: Length of the running mean.
        gain: W allowed for each W that the mean lies below the limit.
    """

    limit_ratio: float
    mean_s: float
    gain: float

    def fault(self) -> str:
        """Return what no loop can be, for the reader of a file that contains it; "" where all is well."""
        return _out_of_range(self)


@dataclass(frozen=True)
class Board:
    """Static power, cooling and the power cap.

    Attributes:
        power_cap_w: Power at which the clock is lowered.
        static_w: Power of a chip that only waits, at `static_at_c`.
        static_at_c: Temperature that `static_w` was taken at.
        static_slope_w_per_k: How static power grows with temperature.
        coolant_c: Temperature of what cools the board.
        thermal_resistance_k_per_w: Rise over the coolant, per watt, once settled.
        time_constant_s: Thermal resistance times heat capacity.
        regulators: How the cap acts in time; the least that any allows holds. (): it holds at every moment.
    """

    power_cap_w: float
    static_w: float
    static_at_c: float
    static_slope_w_per_k: float
    coolant_c: float
    thermal_resistance_k_per_w: float
    time_constant_s: float
    regulators: tuple[Regulator, ...] = ()

    def fault(self) -> str:
        """Return what no board can be, for the reader of a file that contains it; "" where all is well."""
        if self.static_w >= self.power_cap_w:
            return f"has static_w = {self.static_w:g}: give less than power_cap_w, {self.power_cap_w:g}"
        return _out_of_range(self, ("static_slope_w_per_k",), ("static_at_c", "coolant_c"))


@dataclass(frozen=True)
class TimedVoltageSteps:
    """How the supply voltage of the SMs moves in steps, and the power that it feeds with it.

    One voltage holds for all kernels, whatever runs, and then steps to another, each as likely. It
    multiplies the dynamic power and half of the static power of running kernels, the latter as of the
    temperature that it is given at; an idle board draws what it does at factor 1. The energies that are
    hidden in the profile are those at factor 1, so that the factors' mean should be 1.

    Attributes:
        factors: What each voltage multiplies the fed power by.
        hold_s: Mean of the time that a voltage holds, s, which is exponential.
        change_s: How long the clock dips where the voltage steps within a kernel, s.
        change_mhz: By how much it does, MHz.
    """

    factors: tuple[float, ...]
    hold_s: float
    change_s: float
    change_mhz: float

    def fault(self) -> str:
        """Return what no supply can be, for the reader of a file that contains it; "" where all is well."""
        if not self.factors:
            return "has factors = []: give one at least"
        return _out_of_range(self, ("change_s", "change_mhz"))


@dataclass(frozen=True)
class ThermalVoltageSteps:
    """Steps of the supply voltage that go with the temperature, with some degrees between up and down.

    As `TimedVoltageSteps`, but between two voltages: the upper one where the chip warms, the lower one where
    it has cooled further. The temperature of the next step is drawn after each, from a normal
    distribution.

    Attributes:
        factors: What the lower and the upper voltage multiply the fed power by.
        up_c: Mean and standard deviation of the temperatures of steps to the upper voltage, degrees C.
        down_c: The same of changes to the lower one.
        look_s: How often the regulator looks at the temperature, s.
        change_s: How long the clock dips where the voltage steps within a kernel, s.
        change_mhz: By how much it does, MHz.
    """

    factors: tuple[float, float]
    up_c: tuple[float, float]
    down_c: tuple[float, float]
    look_s: float
    change_s: float
    change_mhz: float

    def fault(self) -> str:
        """Return what no supply can be, for the reader of a file that contains it; "" where all is well."""
        for key in ("factors", "up_c", "down_c"):
            if len(getattr(self, key)) != 2:
                return f"has {len(getattr(self, key))} numbers in {key}: give two"
        return _out_of_range(self, ("up_c", "down_c", "change_s", "change_mhz"))


@dataclass(frozen=True)
class Memory:
    """How fast L2 and DRAM are, and what a byte from them costs, the load that brings it included.

    Attributes:
        dram_bytes_per_s: Bandwidth of DRAM at the full clock that a kernel reaches.
        l2_bytes_per_s: Bandwidth of L2 at the full clock.
        sm_bytes_per_cycle: What one SM takes in a cycle at most.
        dram_pj_per_byte: Energy of a byte from DRAM, whatever the SM clock.
        l2_pj_per_byte: Energy of a byte from L2, at the full SM clock.
        l1_bytes: Size of the L1 of an SM; an array that fits those of the SMs at work comes from there.
        l1_bytes_per_cycle: What one SM takes from its L1 in a cycle.
        l1_pj_per_byte: Energy of a byte from L1.
        clocks_mhz: Memory clocks that can be set besides the full one; bandwidth of DRAM goes with them.
        clock_w: Power that goes with the memory clock, at the full one; it is part of the static power.
    """

    dram_bytes_per_s: float
    l2_bytes_per_s: float
    sm_bytes_per_cycle: float
    dram_pj_per_byte: float
    l2_pj_per_byte: float
    l1_bytes: int
    l1_bytes_per_cycle: float
    l1_pj_per_byte: float
    clocks_mhz: tuple[float, ...] = ()
    clock_w: float = 0.0

    def fault(self) -> str:
        """Return what no memory can be, for the reader of a file that contains it; "" where all is well."""
        return _out_of_range(self, ("clock_w",))


@dataclass(frozen=True)
class Profile:
    """One simulated GPU.

    Attributes:
        name: What the user types after "simulated:".
        title: Marketing name of the GPU that it is modelled on.
        chip: SMs and clocks.
        board: Power and cooling.
        sensors: Power sources, best for steady power first.
        voltage_steps: Steps of the supply voltage; without them it is always at factor 1.
        memory: Bandwidth and energy of its memory; without it loads cost what their opcode costs, and no
            bandwidth limits them.
        fails_after: Launches after which it stops answering, as a GPU that is lost; 0: never.
        energy_pj: Hidden energy of one thread's instruction on random operands by its opcode, pJ, before the
            chip's scale; "LDG.STRONG" is a load that passes by L1. An opcode that it does not name costs a
            little less than the opcode without its modifiers, or else something from 5 to 25 pJ.
    """

    name: str
    title: str
    chip: Chip
    board: Board
    sensors: tuple[SensorSpec, ...]
    voltage_steps: TimedVoltageSteps | ThermalVoltageSteps | None = None
    memory: Memory | None = None
    fails_after: int = 0
    energy_pj: Mapping[str, float] = field(default_factory=dict)

    def fault(self) -> str:
        """Return what no GPU can be, for the reader of a file that contains it; "" where all is well."""
        sources = [sensor.source for sensor in self.sensors]
        if not sources:
            return "has sensors = []: give one at least"
        if len(set(sources)) < len(sources):
            return f"has sensors of {', '.join(sources)}: give each source once"
        for opcode, energy_pj in self.energy_pj.items():
            fault = _number_fault(f"energy_pj.{opcode}", energy_pj)
            if fault:
                return fault
        return _out_of_range(self, ("fails_after",))

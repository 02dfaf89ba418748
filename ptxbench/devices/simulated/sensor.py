"""Power sources that distort the true power the way that a profile says."""

from __future__ import annotations

from ptxbench.core.clock import Clock
from ptxbench.devices.simulated.physics import Physics
from ptxbench.devices.simulated.profile import SensorSpec
from ptxbench.devices.simulated.rng import hashed_integer, hashed_unit, tick_normal
from ptxbench.sensors.base import Reader, Reading, Unit
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.query_reader import QueryReader
from ptxbench.sensors.sources import source_of

_BUFFERED_READINGS = 119


def describe(spec: SensorSpec) -> SensorDescription:
    """Return what the pipeline may know of a sensor: all but gain, offset and noise."""
    return SensorDescription(
        spec.source, spec.refresh_s, spec.averaging_s, spec.lag_s, spec.quantum, origin="simulated"
    )


def open_source(spec: SensorSpec, physics: Physics, clock: Clock, seed: int) -> Reader:
    """Return the source that a spec describes.

    Args:
        spec: The sensor.
        physics: The true power.
        clock: What the readings' time stamps are taken from.
        seed: Sets the noise, and where between two readings the clock stands at its start.
    """
    kind = BufferedSource if source_of(spec.source).is_stamped else TickedSource
    return kind(spec, physics, clock, seed)


def temperature_source(physics: Physics, clock: Clock) -> Reader:
    """Return the chip's temperature in whole degrees, as NVML gives it."""
    return QueryReader("temperature", lambda: float(round(physics.temperature_c(clock.now_ns()))))


def clock_source(physics: Physics, clock: Clock) -> Reader:
    """Return the chip's SM clock in whole MHz, as NVML gives it."""
    return QueryReader("clock", lambda: float(round(physics.clock_mhz(clock.now_ns()))))


class TickedSource:
    """A source that shows the value of its last refresh tick."""

    def __init__(self, spec: SensorSpec, physics: Physics, clock: Clock, seed: int) -> None:
        self._spec, self.name = spec, spec.source
        self._physics = physics
        self._clock = clock
        self._seed = hashed_integer("noise", str(seed), spec.source)
        self._refresh_ns = round(spec.refresh_s * 1e9)
        self._averaging_ns = round(spec.averaging_s * 1e9)
        self._lag_ns = round(spec.lag_s * 1e9)
        self._phase_ns = int(hashed_unit("phase", str(seed), spec.source) * self._refresh_ns)
        self._fresh_until_ns = -1
        self._latest: tuple[Reading, ...] = ()

    def read(self) -> tuple[Reading, ...]:
        """Return the value of the last tick; asking again before the next one changes nothing."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._fresh_until_ns:
            tick = self._tick_at(now_ns)
            self._fresh_until_ns = self._time_ns(tick + 1)
            self._latest = self._refresh(tick)
        return self._latest

    def _refresh(self, tick: int) -> tuple[Reading, ...]:
        return (Reading(self._value(tick)),)

    def _tick_at(self, at_ns: int) -> int:
        return (at_ns - self._phase_ns) // self._refresh_ns

    def _time_ns(self, tick: int) -> int:
        return self._phase_ns + tick * self._refresh_ns

    def _value(self, tick: int) -> float:
        spec = self._spec
        newest_ns = self._time_ns(tick) - self._lag_ns
        if source_of(spec.source).unit is Unit.JOULE:
            true, noise = self._physics.energy_j(newest_ns), 0.0
        else:
            true = self._physics.mean_power_w(newest_ns - self._averaging_ns, newest_ns)
            noise = spec.noise_w * tick_normal(self._seed, tick)
        return round((true * spec.gain + spec.offset + noise) / spec.quantum) * spec.quantum


class BufferedSource(TickedSource):
    """A source that keeps its last readings with their time stamps, and gives each of them once."""

    def __init__(self, spec: SensorSpec, physics: Physics, clock: Clock, seed: int) -> None:
        super().__init__(spec, physics, clock, seed)
        self._given = self._tick_at(clock.now_ns())
        self._epoch_offset_ns = clock.epoch_ns() - clock.now_ns()

    def read(self) -> tuple[Reading, ...]:
        """Return every buffered reading since the last call."""
        fresh = super().read()
        self._latest = ()
        return fresh

    def _refresh(self, tick: int) -> tuple[Reading, ...]:
        first = max(self._given + 1, tick - _BUFFERED_READINGS + 1)
        self._given = tick
        return tuple(
            Reading(self._value(k), self._time_ns(k) + self._epoch_offset_ns) for k in range(first, tick + 1)
        )

"""A board whose power is written down beforehand, with what real H100s and H200s do beside the load.

The simulated GPU's power is even within a kernel, and its sensors are ideal. This board is harder, by what
kept recordings show (results/nvidia-h100/methods, results/nvidia-h200/methods, studies/h200/power.md):

- power climbs while the chip warms, with 0.2 s and with many seconds, and falls in the same way afterwards;
- for a moment after a load begins the power is lower, one percent of it until a tick of a clock of 100 ms;
  above 400 W it may make an excursion of 1.5%;
- `samples` are a low-pass, made every 20.0 ms, but their stamps come 0 to 16 ms late, and some are missing;
- steps of the energy counter come some ms before or after what its energy says; its gain differs a little;
- `instant` sees 25 ms of each 100 ms, `usage` is a running mean of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.signal import lfilter

from ptxbench.api.board import Board
from ptxbench.core.clock import VirtualClock
from ptxbench.sensors.base import Reader, Reading, SourceName
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.sensors.trace import Float64s, Int64s

STEP_S = 5e-4
_START_NS = 1_000_000_000_000
_EPOCH_OFFSET_NS = 1_767_225_600_000_000_000
_SETTLED_S = 5.0


@dataclass(frozen=True)
class Nature:
    """What differs from board to board.

    Attributes:
        idle_w: Power that it draws cold and idle.
        leakage_w_per_k: How power grows with temperature.
        chip_k_per_w: Temperature rise of the chip over what is around it, which takes `chip_s`.
        chip_s: Its time constant.
        sink_k_per_w: Rise of what is around it, which takes `sink_s`.
        sink_s: Its time constant.
        low_pass_s: Time constant of `samples`.
        lag_s: Age of the newest moment in one.
        noise_w: Scatter of a sample.
        counter_gain: Gain of the energy counter over that of the power sources.
    """

    idle_w: float
    leakage_w_per_k: float
    chip_k_per_w: float
    chip_s: float
    sink_k_per_w: float
    sink_s: float
    low_pass_s: float
    lag_s: float
    noise_w: float
    counter_gain: float

    @classmethod
    def by_chance(cls, rng: np.random.Generator) -> Nature:
        """Draw one, within what boards were seen to be."""
        return cls(
            idle_w=rng.uniform(65, 125),
            leakage_w_per_k=rng.uniform(0.33, 0.61),
            chip_k_per_w=rng.uniform(0.035, 0.05),
            chip_s=rng.uniform(0.15, 0.3),
            sink_k_per_w=rng.uniform(0.02, 0.04),
            sink_s=rng.uniform(10, 30),
            low_pass_s=rng.uniform(0.0132, 0.0140),
            lag_s=rng.uniform(0.0030, 0.0038),
            noise_w=rng.uniform(0.3, 0.6),
            counter_gain=1 + 0.002 * rng.standard_normal(),
        )


@dataclass
class _Published:
    """A source whose readings were made beforehand: a new one each `published_ns`."""

    name: SourceName
    clock: VirtualClock
    published_ns: Int64s
    value: Float64s
    stamp_ns: Int64s | None = None
    given: int = 0

    def read(self) -> tuple[Reading, ...]:
        """Return what is new of a source with stamps, else the newest value."""
        end = int(np.searchsorted(self.published_ns, self.clock.now_ns(), side="right"))
        if self.stamp_ns is None:
            return (Reading(float(self.value[max(end - 1, 0)])),)
        fresh, self.given = range(self.given, end), end
        return tuple(Reading(float(self.value[k]), int(self.stamp_ns[k]) + _EPOCH_OFFSET_NS) for k in fresh)


@dataclass
class ModelledBoard:
    """A board that draws a load given as (duration s, power over idle W), from `now_s` = 0 on.

    Args:
        load: What is run, one after the other.
        sources: Its power sources, best first.
        seed: Sets its nature, noise and phases.
        nature: What it is like; None: by chance.
    """

    load: Sequence[tuple[float, float]]
    sources: Sequence[SourceName]
    seed: int
    nature: Nature | None = None
    clock: VirtualClock = field(init=False)
    power_w: Float64s = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.nature = self.nature or Nature.by_chance(rng)
        self.clock = VirtualClock(_START_NS, _EPOCH_OFFSET_NS)
        self.power_w = self._drawn(rng)
        # The integral of the power until each step of the grid.
        self._drawn_j = np.concatenate([[0.0], np.cumsum(self.power_w) * STEP_S])
        self._readers = tuple(self._reader(source, rng) for source in self.sources)

    @property
    def now_s(self) -> float:
        """Time since the load began."""
        return (self.clock.now_ns() - _START_NS) / 1e9

    def at_ns(self, at_s: float) -> int:
        """Return the host time of a moment."""
        return _START_NS + round(at_s * 1e9)

    def sleep_until(self, at_s: float) -> None:
        """Let the clock go on."""
        self.clock.sleep_s(max(at_s - self.now_s, 0.0))

    def energy_j(self, start_s: float, end_s: float) -> float:
        """Return the energy between two moments."""
        return float(np.diff(self._until_j(np.array([start_s, end_s])))[0])

    def board(self) -> Board:
        """Return it as `EnergyMonitor` takes it, with sensors as documented for a Hopper."""
        sensors = tuple(sensor_for(source, "sm_90") for source in self.sources)
        return Board("modelled", self.clock, self._readers, sensors, 700.0, lambda: None, is_device=False)

    def _until_j(self, at_s: Float64s) -> Float64s:
        grid_s = np.arange(len(self._drawn_j)) * STEP_S - _SETTLED_S
        return np.asarray(np.interp(at_s, grid_s, self._drawn_j), dtype=np.float64)

    def _drawn(self, rng: np.random.Generator) -> Float64s:
        nature = self.nature
        assert nature is not None  # noqa: S101
        parts = [np.zeros(round(_SETTLED_S / STEP_S))]
        tick_s, at_s, before_w = rng.uniform(0, 0.1), 0.0, 0.0
        for length_s, over_w in self.load:
            part = np.full(round(length_s / STEP_S), float(over_w))
            if over_w > before_w + 30 and len(part):
                part *= self._regulated(len(part), over_w, (tick_s - at_s) % 0.1, rng)
            parts.append(part)
            at_s, before_w = at_s + length_s, over_w
        dynamic_w = np.concatenate([*parts, np.zeros(round(_SETTLED_S / STEP_S))])
        power_w = nature.idle_w + dynamic_w
        for _ in range(3):
            warmer_k = sum(
                per_w * _low_passed(power_w - nature.idle_w, time_s)
                for per_w, time_s in (
                    (nature.chip_k_per_w, nature.chip_s),
                    (nature.sink_k_per_w, nature.sink_s),
                )
            )
            power_w = nature.idle_w + dynamic_w + nature.leakage_w_per_k * warmer_k
        return np.asarray(power_w, dtype=np.float64)

    def _regulated(self, length: int, over_w: float, tick_s: float, rng: np.random.Generator) -> Float64s:
        """Return what the regulation makes of an even load, as a factor."""
        at_s = np.arange(length) * STEP_S
        factor = 1 - rng.uniform(0.0, 0.04) * np.exp(-at_s / rng.uniform(0.005, 0.02))
        tick_s += 0.1 * rng.integers(0, 2)
        factor -= rng.choice([0.0, 0.01]) * (at_s < tick_s)
        if over_w > 280 and rng.random() < 0.25:
            factor += 0.015 * ((at_s > tick_s) & (at_s < tick_s + rng.choice([0.1, 10.0])))
        return factor

    def _reader(self, source: SourceName, rng: np.random.Generator) -> Reader:
        make = {
            SourceName.SAMPLES: self._samples,
            SourceName.COUNTER: self._counter,
            SourceName.INSTANT: lambda c: self._held(source, 0.025, 1.0, c),
            SourceName.USAGE: lambda c: self._held(source, 1.0, 0.5, c),
            SourceName.AVERAGE: lambda c: self._held(source, 1.0, 0.5, c),
        }
        return make[source](rng)

    def _ticks_s(self, refresh_s: float, rng: np.random.Generator) -> Float64s:
        end_s = len(self.power_w) * STEP_S - 2 * _SETTLED_S + 2.0
        return np.arange(-1.5 + rng.uniform(0, refresh_s), end_s, refresh_s, dtype=np.float64)

    def _samples(self, rng: np.random.Generator) -> _Published:
        nature = self.nature
        assert nature is not None  # noqa: S101
        made_s = self._ticks_s(0.02, rng)
        made_s = made_s[rng.random(len(made_s)) > 0.006]
        n = len(made_s)
        # As 5,000 stamps of two boards: three in four on the grid, most others one tick of 10 ms late.
        late_s = np.abs(rng.normal(0, 0.0010, n))
        kind = rng.random(n)
        late_s = np.where(kind < 0.17, rng.normal(0.009, 0.0006, n), late_s)
        late_s = np.where((kind > 0.17) & (kind < 0.20), rng.uniform(0.001, 0.007, n), late_s)
        late_s = np.where((kind > 0.20) & (kind < 0.22), rng.uniform(0.012, 0.016, n), late_s)
        stamp_s = np.maximum.accumulate(made_s + late_s)
        # Those between, and the very late ones, were made late.
        really_late = (kind > 0.17) & (kind < 0.22)
        seen_s = made_s + np.where(really_late, late_s, 0.0) + rng.normal(0, 0.0007, n) - nature.lag_s
        response_w = _low_passed(self.power_w, nature.low_pass_s)
        grid_s = (np.arange(len(response_w)) + 0.5) * STEP_S - _SETTLED_S
        value_w = np.interp(seen_s, grid_s, response_w) + nature.noise_w * rng.standard_normal(n)
        published_s = np.maximum.accumulate(stamp_s + rng.uniform(0.0002, 0.006, n))
        return _Published(
            SourceName.SAMPLES, self.clock, _ns(published_s), np.round(value_w, 2), _ns(stamp_s)
        )

    def _counter(self, rng: np.random.Generator) -> _Published:
        nature = self.nature
        assert nature is not None  # noqa: S101
        made_s = self._ticks_s(0.1, rng)
        value_j = np.round(7e6 + nature.counter_gain * self._until_j(made_s - 0.004), 3)
        late_s = np.clip(rng.normal(0, 0.004, len(made_s)), -0.012, 0.012)
        return _Published(SourceName.COUNTER, self.clock, _ns(made_s + late_s), value_j)

    def _held(
        self, source: SourceName, averaging_s: float, noise_w: float, rng: np.random.Generator
    ) -> _Published:
        made_s = self._ticks_s(0.1, rng)
        made_s = made_s[rng.random(len(made_s)) > 0.02]
        newest_s = made_s - 0.004
        mean_w = (self._until_j(newest_s) - self._until_j(newest_s - averaging_s)) / averaging_s
        value_w = mean_w + noise_w * rng.standard_normal(len(made_s))
        late_s = rng.uniform(0, 0.003, len(made_s))
        return _Published(source, self.clock, _ns(made_s + late_s), np.round(value_w, 3))


def _low_passed(value: Float64s, time_s: float) -> Float64s:
    """Return a value on the grid behind a low-pass that has settled at its first one."""
    decay = np.exp(-STEP_S / time_s)
    out, _ = lfilter([1 - decay], [1, -decay], value, zi=[value[0] * decay])
    return np.asarray(out, dtype=np.float64)


def _ns(at_s: Float64s) -> Int64s:
    return _START_NS + np.round(at_s * 1e9).astype(np.int64)

"""Square loads on the simulated GPU, and NVML GPUs in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from fakes.nvml import FakeDevice, FakeNvml

from ptxbench.api.board import Board
from ptxbench.api.gpu import Gpu
from ptxbench.core.clock import VirtualClock
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.physics import Phase
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.sensors.nvml import NvmlDevice

_HZ = 1e6 * H200.chip.clock_mhz


class LoadedGpu:
    """A simulated GPU on which a test lays square loads, and whose true energy it knows."""

    def __init__(self, *sources: SourceName, seed: int = 0) -> None:
        kept = tuple(s for name in sources for s in H200.sensors if s.source is name)
        self._device = SimulatedGpu(replace(H200, sensors=kept or H200.sensors), seed=seed)
        self._chance = np.random.default_rng(seed)
        self.gpu = Gpu(self._device)

    def load(self, length_s: float, power_w: float | None = None) -> None:
        """Draw so much more than idle, by chance 50 to 450 W, and return when it is over."""
        drawn_w = self._chance.uniform(50, 450) if power_w is None else power_w
        clock = self._device.clock
        ends_ns = self._device._physics.run(clock.now_ns(), [Phase(length_s * _HZ, drawn_w * length_s)])
        clock.sleep_s((ends_ns[-1] - clock.now_ns()) * 1e-9)

    def about(self, length_s: float) -> float:
        """Return a length by chance."""
        return float(length_s * self._chance.uniform(0.7, 1.3))

    def slow_down(self, clock_mhz: int) -> None:
        """Let all that follows run at a lower SM clock."""
        self._device._physics.governor.set_clock(clock_mhz)

    def energy_j(self) -> float:
        """Return the true energy since the beginning."""
        return self._device._physics.energy_j(self._device.clock.now_ns())


class TimedDevice(FakeDevice):
    """An NVML GPU that draws an even power; `lost_at_s` is when it stops answering."""

    def __init__(self, clock: VirtualClock, power_w: float = 300.0, **words: object) -> None:
        super().__init__(**words)
        self.clock, self.power_w, self.lost_at_s = clock, power_w, float("inf")
        self.field_errors = dict.fromkeys(self.fields_mw, 3)
        self.errors.setdefault("nvmlDeviceGetSamples", 3)

    @property
    def now_s(self) -> float:
        return self.clock.now_ns() / 1e9

    @property
    def energy_mj(self) -> int:
        # The counter steps every 100 ms.
        return round(1e3 * self.power_w * (self.clock.now_ns() // 100_000_000) * 0.1)

    @energy_mj.setter
    def energy_mj(self, value: int) -> None:
        pass

    @property
    def power_mw(self) -> int:
        return round(1e3 * self.power_w)

    @power_mw.setter
    def power_mw(self, value: int) -> None:
        pass

    @property
    def lost(self) -> bool:
        return self.now_s >= self.lost_at_s

    @lost.setter
    def lost(self, value: bool) -> None:
        pass


def board(device: FakeDevice, library: FakeNvml, source: SourceName = SourceName.COUNTER) -> Board:
    """Return a board by the fake NVML, read in virtual time."""
    opened = NvmlDevice(device.uuid, library)
    name = f"GPU {opened.index} ({opened.name})"
    sensor = replace(sensor_for(source, "sm_90"), averaging_s=0.0)
    return Board(
        name, device.clock, (opened.source(source),), (sensor,), 700.0, opened.close, is_device=False
    )

"""A simulated GPU whose sensors, clock or link break in the middle of a measurement, as a test wants it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from fakes.measuring import WatchedGpu

from ptxbench.core.errors import GpuError
from ptxbench.devices.base import Launch
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.devices.simulated.profile import Profile
from ptxbench.sensors.base import Reader, Reading, SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import KernelRun

LOST = 15


class Moment(NamedTuple):
    """When a source is read.

    Attributes:
        source: Which source.
        trial_id: The launch in progress.
        since_s: Time since its recording began.
        at_s: Time since the GPU was opened.
    """

    source: SourceName
    trial_id: str
    since_s: float
    at_s: float


Fault = Callable[[Moment, tuple[Reading, ...]], tuple[Reading, ...]]


class _Faulty:
    """A source with a fault between it and its reader."""

    def __init__(self, source: Reader, gpu: FaultyGpu) -> None:
        self._source = source
        self._gpu = gpu
        self.name = source.name

    def read(self) -> tuple[Reading, ...]:
        return self._gpu.broken(self.name, self._source.read())


class FaultyGpu(WatchedGpu):
    """The simulated GPU with a fault in its power sources; none until `fault` is set."""

    def __init__(
        self,
        profile: Profile = H200,
        fault: Fault = lambda _, readings: readings,
        poll_s: float = 0.02,
    ) -> None:
        super().__init__(profile, poll_s)
        self.fault = fault
        self._began_ns = self._opened_ns = self.clock.now_ns()
        self._sources = [_Faulty(source, self) for source in self._sources]

    def run(self, launch: Launch) -> KernelRun:
        self._began_ns = self.clock.now_ns()
        return super().run(launch)

    def broken(self, source: SourceName, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        now_ns = self.clock.now_ns()
        since_s, at_s = (now_ns - self._began_ns) / 1e9, (now_ns - self._opened_ns) / 1e9
        return self.fault(Moment(source, self.launched[-1].trial_id, since_s, at_s), readings)


class LateGpu(WatchedGpu):
    """A GPU whose power sources come later than it says; their stamps agree with each other."""

    def __init__(self, late_s: float, profile: Profile = H200, poll_s: float = 0.02) -> None:
        late = (
            s if s.source is SourceName.COUNTER else replace(s, lag_s=s.lag_s + late_s)
            for s in profile.sensors
        )
        super().__init__(replace(profile, sensors=tuple(late)), poll_s)
        self._described = SimulatedGpu(profile).sensors

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        return self._described


class LostGpu(WatchedGpu):
    """A GPU that falls off the bus at a trial, and is back for the next process."""

    def __init__(self, at: str, profile: Profile = H200) -> None:
        super().__init__(profile)
        self._at = at

    def run(self, launch: Launch) -> KernelRun:
        if launch.trial_id == self._at:
            raise GpuError("GPU 0 (NVIDIA H200) stopped answering: NVML says 'GPU is lost' (code 15)")
        return super().run(launch)


class DroppingGpu(WatchedGpu):
    """A GPU whose SM clock is lower in some trials, without a reason that NVML tells."""

    def __init__(self, drops: Callable[[str], bool], profile: Profile = H200, share: float = 0.8) -> None:
        super().__init__(profile)
        self._drops = drops
        self._share = share

    def run(self, launch: Launch) -> KernelRun:
        run = super().run(launch)
        if not self._drops(launch.trial_id):
            return run
        window = replace(run.window, globaltimer_ns=round(run.window.globaltimer_ns / self._share))
        return replace(run, window=window)


class ThrottlingGpu(WatchedGpu):
    """A GPU that says in some trials that it slowed down, whatever it did."""

    def __init__(self, says: Callable[[str], int], profile: Profile = H200) -> None:
        super().__init__(profile)
        self._says = says

    def run(self, launch: Launch) -> KernelRun:
        run = super().run(launch)
        return replace(run, throttle_reasons=run.throttle_reasons | self._says(launch.trial_id))


def failed(code: int = 999) -> tuple[Reading, ...]:
    """What a source gives where its read failed."""
    return (Reading(float("nan"), code=code),)


class SlowClockGpu(WatchedGpu):
    """A GPU that really runs some launches at another SM clock, without a reason that NVML tells."""

    def __init__(self, slow: Callable[[str], bool], clock_mhz: int, profile: Profile = H200) -> None:
        super().__init__(profile)
        self._slow = slow
        self._slow_mhz = clock_mhz

    def run(self, launch: Launch) -> KernelRun:
        governor = self._physics.governor
        full_mhz = max(governor.supported_mhz)
        governor.set_clock(self._slow_mhz if self._slow(launch.trial_id) else full_mhz)
        try:
            return super().run(launch)
        finally:
            governor.set_clock(full_mhz)

"""A simulated GPU with a fault of its sensors, or in trouble of another kind, for kernels run in any way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from fakes.faults import Fault, FaultyGpu

from ptxbench.core.cubin import Cubin
from ptxbench.devices.base import Launch
from ptxbench.devices.simulated.profile import Profile
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import SequenceRun, Telemetry


@dataclass(frozen=True)
class Trouble:
    """One fault in one strength.

    Attributes:
        strength: Its strength.
        fault: Makes what the sources give; a fault has a memory, so that each case has its own.
        late_s: By how much their values come late.
        others: Other programs on the GPU.
        reasons: NVML's bits of why the clock is lowered, besides what the board does itself.
        slow_mhz: SM clock from `slow_from_s` on, 0: as it is.
        slow_from_s: From when on clock and bits are so, after the GPU was opened.
        boards: Names of the boards on which it can show; (): all.
    """

    strength: str
    fault: Callable[[], Fault] = lambda: lambda _, readings: readings
    late_s: float = 0.0
    others: int = 0
    reasons: int = 0
    slow_mhz: int = 0
    slow_from_s: float = 0.0
    boards: tuple[str, ...] = ()


NO_TROUBLE = Trouble("")


class TroubledGpu(FaultyGpu):
    """A simulated GPU in trouble, which assembles each module once for all of them."""

    def __init__(self, profile: Profile, trouble: Trouble) -> None:
        late = (
            s if s.source is SourceName.COUNTER else replace(s, lag_s=s.lag_s + trouble.late_s)
            for s in profile.sensors
        )
        super().__init__(replace(profile, sensors=tuple(late)), trouble.fault(), poll_s=0.005)
        self._described = tuple(
            replace(one, lag_s=spec.lag_s) for one, spec in zip(super().sensors, profile.sensors, strict=True)
        )
        self._trouble, self._chance = trouble, Random(1)

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        return self._described

    def assemble(self, ptx: str, opt_level: object) -> Cubin:
        return _assembled(super().assemble, self.info.target, ptx, opt_level)

    def run_sequence(self, launches: tuple[Launch, ...], *rest: object) -> SequenceRun:
        # What a host does between two windows; on virtual time nothing takes any.
        self.clock.sleep_s(0.05 + 0.15 * self._chance.random())
        self.launched += launches
        if self._trouble.slow_mhz and self._is_in_trouble:
            self._physics.governor.set_clock(self._trouble.slow_mhz)
        return super().run_sequence(launches, *rest)

    def telemetry(self) -> Telemetry:
        return replace(super().telemetry(), other_processes=self._trouble.others)

    @property
    def _is_in_trouble(self) -> bool:
        return self.clock.now_ns() - self._opened_ns >= 1e9 * self._trouble.slow_from_s

    def _throttle_reasons(self) -> int:
        return super()._throttle_reasons() | (self._trouble.reasons if self._is_in_trouble else 0)


_MODULES: dict[tuple[str, str, str], Cubin] = {}


def _assembled(make: Callable[..., Cubin], target: str, ptx: str, opt_level: object) -> Cubin:
    key = target, ptx, str(opt_level)
    if key not in _MODULES:
        _MODULES[key] = make(ptx, opt_level)
    return _MODULES[key]

"""A simulated GPU with a fault of its sensors, or in trouble of another kind, for kernels run in any way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from fakes.faults import Fault, FaultyGpu, Moment

from ptxbench.core.cubin import Cubin
from ptxbench.devices.base import Launch
from ptxbench.devices.simulated.profile import Profile
from ptxbench.sensors.base import Reading, SourceName
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
        boards: Names of the boards on which it can show; (): all.
    """

    strength: str
    fault: Callable[[], Fault] = lambda: lambda _, readings: readings
    late_s: float = 0.0
    others: int = 0
    reasons: int = 0
    boards: tuple[str, ...] = ()


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
        return super().run_sequence(launches, *rest)

    def telemetry(self) -> Telemetry:
        return replace(super().telemetry(), other_processes=self._trouble.others)

    def _throttle_reasons(self) -> int:
        return super()._throttle_reasons() | self._trouble.reasons


_MODULES: dict[tuple[str, str, str], Cubin] = {}


def _assembled(make: Callable[..., Cubin], target: str, ptx: str, opt_level: object) -> Cubin:
    key = target, ptx, str(opt_level)
    if key not in _MODULES:
        _MODULES[key] = make(ptx, opt_level)
    return _MODULES[key]


def every(n: int, change: Callable[[float], float]) -> Callable[[], Fault]:
    """Change one of so many values, as often as a source gives one anew."""

    def made() -> Fault:
        count: Counter[SourceName] = Counter()
        last: dict[SourceName, float] = {}

        def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
            if moment.source in (SourceName.TEMPERATURE, SourceName.COUNTER):
                return readings
            given = []
            for one in readings:
                count[moment.source] += one.value != last.get(moment.source)
                last[moment.source] = one.value
                given.append(replace(one, value=change(one.value)) if count[moment.source] % n == 0 else one)
            return tuple(given)

        return fault

    return made


def frozen_from(from_s: float, of: SourceName | None = None) -> Callable[[], Fault]:
    def made() -> Fault:
        last: dict[SourceName, float] = {}

        def fault(moment: Moment, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
            is_it = moment.source is of if of else moment.source not in (
                SourceName.TEMPERATURE, SourceName.COUNTER,
            )  # fmt: skip
            if not is_it:
                return readings
            if moment.at_s < from_s:
                last.update((moment.source, one.value) for one in readings[-1:])
                return readings
            return tuple(replace(r, value=last.setdefault(moment.source, r.value)) for r in readings)

        return fault

    return made

"""Tries kernels at once: are they right, how long does a round of them take, and at how much power?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.devices.base import Gpu
from ptxbench.energy.gate.source import Comparison, joined
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import BoardLimits, launches_in, run_until_settled
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.tune.blocks.search import BlockVariant
from ptxbench.tune.check import Correct
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.repeats import Measured, together
from ptxbench.tune.trial import Settled, TrialStatus, at_limit
from ptxbench.tune.user_kernel import UserKernel

_NAN = math.nan


@dataclass(frozen=True)
class ConcurrentTrial:
    """One variant of each kernel, run at once; NaN where nothing was measured.

    Attributes:
        variants: One for each kernel.
        clock_mhz: SM clock that was set; 0: none was.
        status: How it ended.
        reason: One sentence where `status` is not OK.
        time_s: Time of a round, in which every kernel runs once, while power was read.
        kernel_s: When each kernel ended after the beginning of a round.
        power_w: Power of rounds back to back.
        power_error_w: Standard error of it.
        energy_j: Energy of a round: power_w x time_s.
        capped: Whether the power cap or heat held the clock down.
        wall_s: Host time of all of it.
        settled: Whether clock and power had settled.
        note: What must be said of the power; "" for nothing.
        compared: Its power source beside the energy counter.
        energies_j: Energy of each measurement where there were several; `energy_j` is their median.
    """

    variants: tuple[Configuration, ...]
    clock_mhz: int
    status: TrialStatus
    reason: str = ""
    time_s: float = _NAN
    kernel_s: tuple[float, ...] = ()
    power_w: float = _NAN
    power_error_w: float = _NAN
    energy_j: float = _NAN
    capped: bool = False
    wall_s: float = _NAN
    settled: Settled = Settled.UNTESTED
    note: str = ""
    compared: Comparison | None = None
    energies_j: tuple[float, ...] = ()

    @property
    def measured(self) -> Measured:
        """Its energy and time as they were measured."""
        return Measured(self.energy_j, self.time_s, self.power_error_w)

    def repeated(self, before: Sequence[ConcurrentTrial]) -> ConcurrentTrial:
        """Return this run together with those of the same variants before it."""
        every = (*before, self)
        one = together([trial.measured for trial in every])
        return replace(
            self,
            time_s=one.time_s,
            power_w=one.power_w,
            power_error_w=one.power_error_w,
            energy_j=one.energy_j,
            energies_j=tuple(trial.energy_j for trial in every),
            compared=joined([trial.compared for trial in every if trial.compared]),
            wall_s=sum(trial.wall_s for trial in every),
        )

    def without_power(self, reason: str) -> ConcurrentTrial:
        """Return the run without the power that was read, which is not believed."""
        return replace(
            self,
            status=TrialStatus.NO_POWER,
            reason=reason,
            power_w=_NAN,
            power_error_w=_NAN,
            energy_j=_NAN,
        )

    @property
    def at_limit(self) -> str:
        """What tables say of it at the power limit."""
        return at_limit(self.capped, self.settled)

    @property
    def ok(self) -> bool:
        """Whether its figures count."""
        return self.status is TrialStatus.OK

    @property
    def name(self) -> str:
        """Its variants and its clock in short."""
        return run_name(self.variants, self.clock_mhz)


def run_name(variants: Sequence[Configuration], clock_mhz: int) -> str:
    """Return the name of a run of variants at once."""
    named = " | ".join(one.name for one in variants)
    return f"{named} @ {clock_mhz} MHz" if clock_mhz else named


class ConcurrentBench:
    """Tries kernels at once on one GPU.

    Attributes:
        source: Judges the power source by all that were measured.

    Args:
        gpu: Where they run.
        kernels: What runs, in the order of the launches.
        window_s: Length of the rounds back to back over which power is read.
        wall_s: Host time in s.
        checked: What other benches of this GPU found wrong with variants, "" for nothing, by the digest of
            their kernel and their name; it grows.
        before: Runs of the same search that were made before.
    """

    def __init__(
        self,
        gpu: Gpu,
        kernels: Sequence[UserKernel],
        window_s: float = 0.4,
        wall_s: Callable[[], float] = time.perf_counter,
        checked: dict[tuple[str, str], str] | None = None,
        before: Iterable[ConcurrentTrial] = (),
    ) -> None:
        self._gpu = gpu
        self._kernels = tuple(kernels)
        self._window_s = window_s
        self._wall_s = wall_s
        self.source = SourceCheck(
            board_sensor(gpu.sensors), gpu.sensors, [trial.compared for trial in before]
        )
        self._checked = {} if checked is None else checked

    def measure(self, variants: Sequence[BlockVariant], clock_mhz: int = 0) -> ConcurrentTrial:
        """Check each variant alone, once, then run all of them at once.

        Args:
            variants: One for each kernel.
            clock_mhz: SM clock that the caller has set, for the record.

        Raises:
            GpuError: The GPU stopped answering.
        """
        began_s = self._wall_s()
        trial = ConcurrentTrial(tuple(one.variant for one in variants), clock_mhz, TrialStatus.OK)
        try:
            for number, one in enumerate(variants):
                if why := self._fault(number, one):
                    name = self._kernels[number].spec.name
                    return replace(trial, status=TrialStatus.WRONG, reason=f"{name}: {why}")
            trial = self._run(trial, variants)
        except LaunchError as error:
            return replace(trial, status=TrialStatus.LAUNCH_FAILED, reason=str(error))
        return replace(trial, wall_s=self._wall_s() - began_s)

    def _run(self, trial: ConcurrentTrial, variants: Sequence[BlockVariant]) -> ConcurrentTrial:
        gpu = self._gpu
        launches = [k.launch(v.kernel) for k, v in zip(self._kernels, variants, strict=True)]
        gpu.run_concurrently(launches)  # the first makes streams and fills caches
        once = gpu.run_concurrently(launches)
        round_s, kernel_s = once.run.window.elapsed_s, once.kernel_s

        def attempt(length_s: float) -> tuple[KernelRun, int]:
            nonlocal kernel_s
            rounds = launches_in(length_s, round_s)
            gpu.clock.sleep_s(self.source.pause_s)
            many = gpu.run_concurrently(launches, rounds)
            kernel_s = many.kernel_s
            return many.run, rounds

        _, result = run_until_settled(attempt, self._window_s, self.source, BoardLimits.of(gpu.info))
        power = result.power
        trial = replace(
            trial,
            time_s=result.launch_s,
            kernel_s=kernel_s,
            capped=result.slowed,
            settled=Settled.NO if result.unsettled else Settled.YES,
            note=result.note,
            compared=result.found.compared,
        )
        if result.unsettled:
            return replace(trial, status=TrialStatus.NOT_SETTLED, reason=result.unsettled)
        if power.status is not Status.OK:
            return replace(trial, status=TrialStatus.NO_POWER, reason=power.reason)
        return replace(
            trial,
            power_w=power.power_w,
            power_error_w=power.standard_error_w,
            energy_j=power.power_w * result.launch_s,
        )

    def _fault(self, number: int, one: BlockVariant) -> str:
        """Return why a variant's results are wrong, or ""; it is run alone once."""
        key = self._kernels[number].spec.digest, one.variant.name
        if key not in self._checked:
            correct, why = self._kernels[number].check(self._gpu, one.kernel)
            self._checked[key] = why if correct is Correct.NO else ""
        return self._checked[key]

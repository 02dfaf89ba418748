"""Tries kernels at once: are they right, how long does a round of them take, and at how much power?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ptxbench.core.errors import LaunchError
from ptxbench.core.status import Status
from ptxbench.devices.base import Gpu
from ptxbench.tune.bench import board_sensor, settled_power, slowed
from ptxbench.tune.blocks.search import BlockVariant
from ptxbench.tune.check import Correct
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.trial import TrialStatus
from ptxbench.tune.user_kernel import UserKernel

_MAX_ROUNDS = 100_000
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

    Args:
        gpu: Where they run.
        kernels: What runs, in the order of the launches.
        window_s: Length of the rounds back to back over which power is read.
        wall_s: Host time in s.
        checked: What other benches of this GPU found wrong with variants, "" for nothing, by the digest of
            their kernel and their name; it grows.
    """

    def __init__(
        self,
        gpu: Gpu,
        kernels: Sequence[UserKernel],
        window_s: float = 0.4,
        wall_s: Callable[[], float] = time.perf_counter,
        checked: dict[tuple[str, str], str] | None = None,
    ) -> None:
        self._gpu = gpu
        self._kernels = tuple(kernels)
        self._window_s = window_s
        self._wall_s = wall_s
        self._sensor = board_sensor(gpu)
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
        rounds = min(_MAX_ROUNDS, max(1, math.ceil(self._window_s / once.run.window.elapsed_s)))
        many = gpu.run_concurrently(launches, rounds)
        time_s = many.run.window.elapsed_s / rounds
        power = settled_power(many.run, self._sensor)
        trial = replace(trial, time_s=time_s, kernel_s=many.kernel_s, capped=slowed(many.run))
        if power.status is not Status.OK:
            return replace(trial, status=TrialStatus.NO_POWER, reason=power.reason)
        return replace(
            trial,
            power_w=power.power_w,
            power_error_w=power.standard_error_w,
            energy_j=power.power_w * time_s,
        )

    def _fault(self, number: int, one: BlockVariant) -> str:
        """Return why a variant's results are wrong, or ""; it is run alone once."""
        key = self._kernels[number].spec.digest, one.variant.name
        if key not in self._checked:
            correct, why = self._kernels[number].check(self._gpu, one.kernel)
            self._checked[key] = why if correct is Correct.NO else ""
        return self._checked[key]

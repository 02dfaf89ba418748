"""Tries kernels at once: are they right, how long does a round of them take, and at how much power?"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ptxbench.core.errors import LaunchError
from ptxbench.core.shared_options import TRIAL_WINDOW_S
from ptxbench.devices.base import Gpu, Launch
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import BoardLimits, launches_in, run_until_settled
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.tune.blocks.search import BlockVariant
from ptxbench.tune.check import Correct
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.outcome import PowerOutcome, TrialStatus
from ptxbench.tune.user_kernel import UserKernel

_NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class ConcurrentTrial(PowerOutcome):
    """One variant of each kernel, run at once; NaN where nothing was measured.

    Attributes:
        variants: One for each kernel.
        clock_mhz: SM clock that was set; 0: none was.
        time_s: Time of a round, in which every kernel runs once, while power was read.
        kernel_s: When each kernel ended after the beginning of a round.
        wall_s: Host time of all of it.
        alone: Number of the kernel that ran alone, from 1 on; 0: all ran at once.
    """

    _TIME: ClassVar[str] = "time_s"
    _WALL: ClassVar[str] = "wall_s"

    variants: tuple[Configuration, ...]
    clock_mhz: int
    time_s: float = _NAN
    kernel_s: tuple[float, ...] = ()
    wall_s: float = _NAN
    alone: int = 0

    @property
    def name(self) -> str:
        """Its variants and its clock in short."""
        return run_name(self.variants, self.clock_mhz, self.alone)


def run_name(variants: Sequence[Configuration], clock_mhz: int, alone: int = 0) -> str:
    """Return the name of a run of variants at once, or of one alone (its kernel's number, from 1 on)."""
    named = " | ".join(one.name for one in variants)
    named = f"{named} @ {clock_mhz} MHz" if clock_mhz else named
    return f"kernel {alone} alone: {named}" if alone else named


class ConcurrentRunner:
    """Tries kernels at once on one GPU.

    Attributes:
        source: Judges the power source by all that were measured.

    Args:
        gpu: Where they run.
        kernels: What runs, in the order of the launches.
        window_s: Length of the rounds back to back over which power is read.
        checked: What other benches of this GPU found wrong with variants, "" for nothing, by the digest of
            their kernel and their name; it grows.
        before: Runs of the same search that were made before.
    """

    def __init__(
        self,
        gpu: Gpu,
        kernels: Sequence[UserKernel],
        window_s: float = TRIAL_WINDOW_S,
        checked: dict[tuple[str, str], str] | None = None,
        before: Iterable[ConcurrentTrial] = (),
    ) -> None:
        self._gpu = gpu
        self._kernels = tuple(kernels)
        self._window_s = window_s
        self.source = SourceCheck(
            board_sensor(gpu.sensors), gpu.sensors, [trial.compared for trial in before]
        )
        self._checked = {} if checked is None else checked

    def measure(
        self, variants: Sequence[BlockVariant], clock_mhz: int = 0, alone: int = 0
    ) -> ConcurrentTrial:
        """Check each variant alone, once, then run all of them at once.

        Args:
            variants: One for each kernel that runs.
            clock_mhz: SM clock that the caller has set, for the record.
            alone: Number of the only kernel that runs, from 1 on; 0: all run.

        Raises:
            GpuError: The GPU stopped answering.
        """
        began_s = time.perf_counter()
        trial = ConcurrentTrial(
            variants=tuple(one.variant for one in variants),
            clock_mhz=clock_mhz,
            status=TrialStatus.OK,
            alone=alone,
        )
        kernels = self._kernels[alone - 1 : alone] if alone else self._kernels
        try:
            for kernel, one in zip(kernels, variants, strict=True):
                if why := self._fault(kernel, one):
                    name = kernel.spec.name
                    return replace(trial, status=TrialStatus.WRONG, reason=f"{name}: {why}")
            launches = [k.launch(v.kernel) for k, v in zip(kernels, variants, strict=True)]
            trial = self._run(trial, launches)
        except LaunchError as error:
            return replace(trial, status=TrialStatus.LAUNCH_FAILED, reason=str(error))
        return replace(trial, wall_s=time.perf_counter() - began_s)

    def _run(self, trial: ConcurrentTrial, launches: Sequence[Launch]) -> ConcurrentTrial:
        gpu = self._gpu
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
        return replace(trial, kernel_s=kernel_s).with_power(result)

    def _fault(self, kernel: UserKernel, one: BlockVariant) -> str:
        """Return why a variant's results are wrong, or ""; it is run alone once."""
        key = kernel.spec.digest, one.variant.name
        if key not in self._checked:
            correct, why = kernel.check(self._gpu, one.kernel)
            self._checked[key] = why if correct is Correct.NO else ""
        return self._checked[key]

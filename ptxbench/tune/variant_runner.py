"""Tries one variant: is it right, how long does it take, and how much power does it draw?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ptxbench.catalogue.architecture import sm_facts
from ptxbench.catalogue.occupancy import occupancy
from ptxbench.core.errors import ArgumentError, LaunchError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.core.shared_options import FLUSHED, TRIAL_WINDOW_S, WARM
from ptxbench.devices.base import Gpu
from ptxbench.devices.calling import Call, CallingGpu, Flush, FlushingGpu
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import (
    BoardLimits,
    KernelPower,
    launches_in,
    low_clock_note,
    run_until_settled,
)
from ptxbench.model.throughput import dram_time_s
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.tune.called_function import Calling
from ptxbench.tune.candidate import DEFAULT_SETTINGS
from ptxbench.tune.check import Correct
from ptxbench.tune.estimate import COOL_C, Work
from ptxbench.tune.kernel import Refused
from ptxbench.tune.observer import Observer, checked
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.trial import Trial
from ptxbench.tune.tunable_kernel import Built, TunableKernel

if TYPE_CHECKING:
    from ptxbench.tune.model_energy import ModelEnergy

# A short timing lasts so long, or one launch where that lasts longer.
_TIMING_S = 0.004
# Temperature moves slowly, and reading the state of a GPU takes as long as a launch.
_TEMPERATURE_AGE_S = 1.0
# Launches of a short timing, at most.
_MAX_TIMED = 64
# Refreshes of the sensor behind its settling that give a power.
_LEAST_REFRESHES = 2


@dataclass(frozen=True)
class TrialOptions:
    """How variants are tried.

    Attributes:
        power: Whether power is measured, or only time.
        window_s: Length of the launches back to back over which power is read.
        pattern: Operand pattern of A and B.
        seed: Of the operands.
        measurements: How often the power of each is measured; the median energy counts.
        heat_up_s: How long each runs before its power is read.
        l2: What L2 holds when a launch begins: "warm", or "flushed".
    """

    power: bool = True
    window_s: float = TRIAL_WINDOW_S
    pattern: str = "random"
    seed: int = 0
    measurements: int = 1
    heat_up_s: float = 0.0
    l2: str = WARM

    @property
    def remarks(self) -> tuple[str, ...]:
        """What of this differs from the usual, each in a few words for who reads the numbers."""
        said = {
            "L2 was emptied before each launch": self.l2 != WARM,
            f"power was measured {self.measurements} times each": self.measurements > 1,
            f"each ran for {self.heat_up_s:g} s before its power was read": self.heat_up_s > 0,
        }
        return tuple(text for text, differs in said.items() if differs)


@dataclass(frozen=True)
class _Beside:
    """What is done before each launch: its time in s, its energy in J, and the standard error of that."""

    time_s: float = 0.0
    energy_j: float = 0.0
    error_j: float = 0.0


@dataclass(frozen=True)
class _Work:
    """What is timed and measured of a variant.

    Attributes:
        time_s: Does it so often, and returns how long that took, s.
        run: Idles for so many s, then does it so often while power is recorded.
        beside: What both do besides, each time.
    """

    time_s: Callable[[int], float]
    run: Callable[[int, float], KernelRun]
    beside: _Beside = _Beside()

    def alone_s(self, time_s: float) -> float:
        """Return a time without what is done beside.

        Raises:
            LaunchError: Nothing is left of it.
        """
        if time_s <= self.beside.time_s:
            raise LaunchError("it takes no time beside emptying L2")
        return time_s - self.beside.time_s


class VariantRunner:
    """Tries variants of one kernel on one GPU.

    Attributes:
        gpu: Where they run.
        tunable: What has the variants.
        source: Judges the power source by all that were measured.

    Args:
        gpu: Where they run.
        tunable: What has the variants.
        options: What is measured.
        model: What estimates their energy; None: nothing does.
        full_memory_mhz: Highest memory clock that can be set, NaN where it is not known.
        before: Trials of the same search that were made before.
        observers: Look on while power is measured.
        metrics: Returns the user's own metrics of a trial by name.
    """

    def __init__(
        self,
        gpu: Gpu,
        tunable: TunableKernel,
        options: TrialOptions,
        model: ModelEnergy | None,
        full_memory_mhz: float = math.nan,
        before: Iterable[Trial] = (),
        observers: Sequence[Observer] = (),
        metrics: Callable[[Trial], Mapping[str, float]] = lambda _: {},
    ) -> None:
        self.gpu = gpu
        self.tunable = tunable
        self._options = options
        self._model = model
        self._full_memory_mhz = full_memory_mhz
        self._observers = observers
        self._metrics = metrics
        self._temperature = (-math.inf, math.nan)
        self._verdicts: dict[str, tuple[Correct, str]] = {}
        self._flush: Flush | None = None
        self._flushes: dict[GpuSettings, _Beside] = {}
        self.source = SourceCheck(
            board_sensor(gpu.sensors), gpu.sensors, [trial.compared for trial in before]
        )

    def close(self) -> None:
        """Release what emptying L2 takes."""
        if self._flush is not None:
            self._flush.close()

    def predict(
        self,
        built: Built | Calling | Refused,
        build_wall_s: float = math.nan,
        settings: GpuSettings = DEFAULT_SETTINGS,
    ) -> Trial:
        """Return what is known of a variant that has not run: its work, modelled time and energy.

        Of a function nothing is.
        """
        trial = Trial(
            variant=built.variant,
            status=TrialStatus.OK,
            build_wall_s=build_wall_s,
            settings=settings,
        )
        if isinstance(built, Refused):
            return replace(trial, status=TrialStatus.REFUSED, reason=built.reason)
        if isinstance(built, Calling):
            return trial
        info = self.gpu.info
        seen = self.tunable.predict(built, _clocked(info, settings))
        work = seen.work
        trial = replace(
            trial,
            cubin_sha256=built.cubin.sha256,
            registers=built.resources.registers,
            occupancy=occupancy(built.needs, sm_facts(info.target)),
            executed=work.executed if work else (),
            l2_bytes=work.l2_bytes if work else math.nan,
            dram_bytes=work.dram_bytes if work else math.nan,
            modelled_s=max(seen.modelled_s, self._memory_s(work, settings)),
            flops=seen.flops,
        )
        estimated = self._estimated(trial, trial.modelled_s, COOL_C)
        return replace(estimated, foreseen_j=estimated.estimated_j)

    def _memory_s(self, work: Work | None, settings: GpuSettings) -> float:
        """Return the time that the bytes from memory take at least where a clock is set, else 0.

        Without it a kernel that waits for memory would look slower at each lower SM clock.
        """
        if work is None or settings == DEFAULT_SETTINGS or not math.isfinite(work.dram_bytes):
            return 0.0
        memory_ratio = 1.0
        if settings.memory_clock_mhz is not None and math.isfinite(self._full_memory_mhz):
            memory_ratio = settings.memory_clock_mhz / self._full_memory_mhz
        return dram_time_s(work.dram_bytes, self.gpu.info, memory_ratio)

    def measure(
        self,
        built: Built | Calling | Refused,
        build_wall_s: float = math.nan,
        objection: Callable[[Trial], str] = lambda _: "",
        settings: GpuSettings = DEFAULT_SETTINGS,
    ) -> Trial:
        """Check a variant, time it, and measure its power where that is requested.

        A kernel that does not run, or gives wrong results, ends its trial with that status.

        Args:
            built: The variant, built.
            build_wall_s: Host time that it took.
            objection: Called once the variant is timed and its energy estimated; returns why its power is
                not worth measuring, or "".
            settings: What is set on the GPU for this trial.

        Raises:
            GpuError: The GPU stopped answering.
        """
        trial = self.predict(built, build_wall_s, settings)
        if isinstance(built, Refused):
            return trial
        try:
            return self.with_metrics(self._measured(trial, built, objection))
        except LaunchError as error:
            return replace(trial, status=TrialStatus.LAUNCH_FAILED, reason=str(error))

    def with_metrics(self, trial: Trial) -> Trial:
        """Return a trial with the user's own metrics as they follow from it now."""
        own = self._metrics(trial)
        seen = [(name, value) for name, value in trial.figures if name not in own]
        return replace(trial, figures=(*seen, *own.items()))

    def _measured(self, trial: Trial, kernel: Any, objection: Callable[[Trial], str]) -> Trial:
        began_s = time.perf_counter()
        correct, why = self._checked(kernel)
        trial = replace(trial, correct=correct, check_wall_s=time.perf_counter() - began_s)
        if correct is Correct.NO:
            return replace(trial, status=TrialStatus.WRONG, reason=why)
        work = self._work(kernel, trial.settings)
        began_s = time.perf_counter()
        whole_s = short_timing_s(work.time_s)
        time_s = work.alone_s(whole_s)
        temperature_c = self._temperature_c()
        trial = replace(trial, time_s=time_s, temperature_c=temperature_c)
        trial = replace(
            self._estimated(trial, time_s, temperature_c), timing_wall_s=time.perf_counter() - began_s
        )
        if not self._options.power:
            return trial
        if why := objection(trial):
            return replace(trial, status=TrialStatus.PRUNED, reason=why)
        if heat_up_s := self._options.heat_up_s:
            work.time_s(launches_in(heat_up_s, whole_s))
        tries = [self._with_power(trial, work)]
        while tries[-1].ok and len(tries) < self._options.measurements:
            tries.append(self._with_power(trial, work))
        # One that failed says why, and takes nothing from those before it.
        counted = [one for one in tries if one.ok] or tries
        return counted[-1].repeated(counted[:-1]) if len(counted) > 1 else counted[0]

    def _checked(self, kernel: Any) -> tuple[Correct, str]:
        """Check a variant once: no setting changes what it computes."""
        name = kernel.variant.name
        if name not in self._verdicts:
            self._verdicts[name] = self.tunable.check(self.gpu, kernel)
        return self._verdicts[name]

    def _temperature_c(self) -> float:
        """Return the temperature, which was read within the last second."""
        now_s = time.perf_counter()
        if now_s - self._temperature[0] > _TEMPERATURE_AGE_S:
            self._temperature = (now_s, self.gpu.telemetry().temperature_c)
        return self._temperature[1]

    def _work(self, kernel: Any, settings: GpuSettings) -> _Work:
        gpu = self.gpu
        if self._options.l2 == FLUSHED:
            assert isinstance(gpu, FlushingGpu)  # noqa: S101 - `require_flush` sees to that
            flush = self._flush = self._flush or gpu.l2_flush()
            if settings not in self._flushes:
                self._flushes[settings] = self._beside(_calling(gpu, flush), settings)
            is_call = isinstance(kernel, Calling)
            launch_once = kernel.call if is_call else gpu.launching(self.tunable.launch(kernel))

            def flushed() -> None:
                flush()
                launch_once()

            return replace(_calling(gpu, flushed), beside=self._flushes[settings])
        if not isinstance(kernel, Calling):
            launch = self.tunable.launch(kernel)
            return _Work(
                lambda times: gpu.time_s(replace(launch, times=times)),
                lambda times, pause_s: gpu.run(replace(launch, times=times, before_s=pause_s)),
            )
        assert isinstance(gpu, CallingGpu)  # noqa: S101 - `tune_function` wants one
        return _calling(gpu, kernel.call)

    def _beside(self, work: _Work, settings: GpuSettings) -> _Beside:
        """Return what emptying L2 takes by itself.

        Raises:
            LaunchError: Its power is not known.
        """
        time_s = short_timing_s(work.time_s)
        if not self._options.power:
            return _Beside(time_s)
        _, found = self._settled(work, time_s, settings)
        why = found.unsettled or found.power.reason
        if why:
            raise LaunchError(f"what emptying L2 takes is not known: {why}")
        energy_j, error_j = (
            one * found.launch_s for one in (found.power.power_w, found.power.standard_error_w)
        )
        return _Beside(found.launch_s, energy_j, error_j)

    def _settled(self, work: _Work, time_s: float, settings: GpuSettings) -> tuple[KernelRun, KernelPower]:
        def attempt(window_s: float) -> tuple[KernelRun, int]:
            times = launches_in(window_s, time_s)
            return work.run(times, self.source.pause_s), times

        limits = BoardLimits.of(self.gpu.info, settings)
        return run_until_settled(attempt, self._options.window_s, self.source, limits)

    def _with_power(self, trial: Trial, work: _Work) -> Trial:
        began_s = time.perf_counter()
        for observer in self._observers:
            observer.before()
        run, result = self._settled(work, trial.time_s + work.beside.time_s, trial.settings)
        seen = [one for observer in self._observers for one in checked(observer.after())]
        low_clock = "" if result.slowed else self._clock_note(trial, run)
        work.alone_s(result.launch_s)  # refuses a launch of which no time is left
        trial = trial.with_power(result)
        if self._options.l2 == FLUSHED:
            trial = trial.without(work.beside.time_s, work.beside.energy_j, work.beside.error_j)
        trial = replace(
            trial,
            clock_mhz=_held_mhz(run),
            temperature_c=run.after.temperature_c,
            power_wall_s=time.perf_counter() - began_s,
            figures=tuple(seen),
        )
        return replace(trial, note="; ".join(filter(None, (trial.note, low_clock))))

    def _clock_note(self, trial: Trial, run: KernelRun) -> str:
        full_mhz = _clocked(self.gpu.info, trial.settings).max_sm_clock_mhz
        return low_clock_note(_held_mhz(run), full_mhz)

    def _estimated(self, trial: Trial, time_s: float, temperature_c: float) -> Trial:
        if self._model is None:
            return trial
        return trial.estimated_by(self._model, self.tunable.problem, time_s, temperature_c)


def _calling(gpu: CallingGpu, call: Call) -> _Work:
    """Return a call of the default stream as what is timed and measured."""

    def run(times: int, pause_s: float) -> KernelRun:
        gpu.clock.sleep_s(pause_s)
        return gpu.run_calls(call, times)

    return _Work(lambda times: gpu.time_calls_s(call, times), run)


def require_flush(gpu: Gpu, l2: str, beside: str) -> None:
    """Refuse to empty L2 where that cannot be done, or a library is measured beside that finds it warm.

    Raises:
        ArgumentError: It is so.
    """
    if l2 == FLUSHED and not isinstance(gpu, FlushingGpu):
        raise ArgumentError("l2", f"must be warm on {gpu.info.name}, whose L2 cannot be emptied")
    if l2 == FLUSHED and beside:
        raise ArgumentError(
            "l2", "flushed does not go with `beside`, whose calls find L2 warm; leave one out"
        )


def require_window(gpu: Gpu, window_s: float) -> None:
    """Refuse a window that is too short for the power sensor to settle in, before anything runs.

    Raises:
        ArgumentError: It is.
    """
    sensor = board_sensor(gpu.sensors)
    least_s = sensor.settle_s + _LEAST_REFRESHES * sensor.refresh_s
    if window_s < least_s:
        raise ArgumentError(
            "window_s",
            f"must be {least_s:.2g} or more, not {window_s:g}: the power sensor of {gpu.info.name} settles no"
            " sooner",
        )


def _held_mhz(run: KernelRun) -> float:
    """Return the mean SM clock of a run where blocks were stamped, else the clock right after it."""
    held_mhz = run.window.clock_mhz
    return held_mhz if math.isfinite(held_mhz) else run.after.sm_clock_mhz


def _clocked(info: GpuInfo, settings: GpuSettings) -> GpuInfo:
    """Return a GPU as it is at a set SM clock."""
    if settings.sm_clock_mhz is None:
        return info
    return replace(info, max_sm_clock_mhz=float(settings.sm_clock_mhz))


def short_timing_s(time_s: Callable[[int], float]) -> float:
    """Return the time of one launch: of the first where it is long enough, or else of some more.

    The check has warmed the kernel up before.

    Args:
        time_s: Launches so often, and returns how long that took.

    Raises:
        LaunchError: The kernel did not run.
        GpuError: The GPU stopped answering.
    """
    first_s = time_s(1)
    if first_s >= _TIMING_S:
        return first_s
    times = min(_MAX_TIMED, math.ceil(_TIMING_S / first_s))
    return min(time_s(times) / times, first_s)

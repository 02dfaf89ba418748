"""The boards that a monitor reads: which they are, what they draw, and a recording of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptxbench.api.gpu import Gpu, open_gpu
from ptxbench.api.window_energy import GpuEnergy
from ptxbench.core.clock import Clock, HostClock, VirtualClock
from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.energy.reading import EnergyReading
from ptxbench.energy.window import blur_s, context_s, counted, noise_w_of, window_energy
from ptxbench.sensors.base import Reader, Reading, SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.sensors.sampler import Sampler, SamplerThread
from ptxbench.sensors.sources import source_of
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow, Series

_POLL_S = 0.005
_POLLS_A_SWEEP = 256
# Temperature and clock move slowly, and their queries cost time.
_BESIDE_NS = 50_000_000
# Windows that follow each other this closely share a moment.
_SAME_NS = 1_000_000
_NS_PER_S = 1e9
# nvmlReturn_t of a GPU that is gone: GPU_IS_LOST and RESET_REQUIRED.
_LOST_CODES = (15, 16)

Spec = Gpu | int | str


class _RollingSampler(Sampler):
    """A sampler that goes on for hours: it forgets what no window needs."""

    def __init__(self, sources: Sequence[Reader], clock: Clock) -> None:
        super().__init__(sources, clock, _POLL_S, is_compact=True)
        self.needed_from_ns: Callable[[], int] = int
        self._polls = 0

    def poll(self) -> None:
        """Read each source once, and now and then forget."""
        super().poll()
        self._polls += 1
        if self._polls % _POLLS_A_SWEEP == 0:
            self.forget(self.needed_from_ns())


@dataclass(frozen=True)
class Board:
    """One GPU that is read while a program runs.

    Attributes:
        name: Name and index.
        clock: The clock of its readings.
        sources: Its readers, best for power first.
        sensors: What they are like.
        limit_w: Power limit, NaN where it is not known.
        close: Releases it.
        is_device: Whether work on it must be waited for.
        uuid: Its UUID, "" of a simulated one.
        cuda_major: Major version of CUDA that its driver implements, 0 where it is not known.
        other_processes: Processes that computed on it when it was opened, -1 where NVML does not tell.
        beside: Readers of temperature and clock.
    """

    name: str
    clock: Clock
    sources: tuple[Reader, ...]
    sensors: tuple[SensorDescription, ...]
    limit_w: float
    close: Callable[[], None]
    is_device: bool
    uuid: str = ""
    cuda_major: int = 0
    other_processes: int = 0
    beside: tuple[Reader, ...] = ()


class _Seldom:
    """A reader that reads at most every 50 ms."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._next_ns = 0

    @property
    def name(self) -> SourceName:
        """Which source this is."""
        return self._reader.name

    def read(self) -> tuple[Reading, ...]:
        """Read, or return nothing where the last time was not long ago."""
        now_ns = self._clock.now_ns()
        if now_ns < self._next_ns:
            return ()
        self._next_ns = now_ns + _BESIDE_NS
        return self._reader.read()


class BoardReadings:
    """What a board drew, from its readings.

    Args:
        name: Name and index of the board.
        sensors: Its power sources, best first; readings of the first and of the energy counter serve.
        limit_w: Its power limit, NaN where it is not known.
    """

    def __init__(self, name: str, sensors: Sequence[SensorDescription], limit_w: float) -> None:
        self._name = name
        self._limit_w = limit_w
        self._sensor = sensors[0]
        counters = [s for s in sensors[1:] if s.source is SourceName.COUNTER]
        self._counter = counters[0] if counters else None
        self._noise_w = math.inf

    def series(self) -> tuple[Series, ...]:
        """Return all readings so far, of each source."""
        raise NotImplementedError

    @property
    def sensor(self) -> SensorDescription:
        """What the recorded source is like."""
        return self._sensor

    def power(self, window: KernelWindow) -> tuple[Int64s, Float64s]:
        """Return the power around a window: host time of each value, ns, and the values, W.

        Of an energy counter each value is the mean power from one of its steps to the next.
        """
        series = self._around(self._sensor.source, window).good()
        if self._sensor.source is not SourceName.COUNTER:
            return series.time_ns, series.value
        steps = np.flatnonzero(np.diff(series.value)) + 1
        at_ns, energy_j = series.time_ns[steps], series.value[steps]
        return at_ns[1:], np.diff(energy_j) / (np.diff(at_ns) / _NS_PER_S)

    @property
    def context_s(self) -> float:
        """How much before and after a window its energy is worked out from."""
        beside_s = self._counter.refresh_s + self._counter.lag_s if self._counter else 0.0
        return context_s(self._sensor) + beside_s + 2 * _POLL_S

    @property
    def method(self) -> str:
        """How energy is found."""
        beside = ", checked against the energy counter" if self._counter else ""
        return f"corrected MTSM on {self._sensor.source}{beside}"

    def energy(self, window: KernelWindow, changes_ns: Sequence[int]) -> GpuEnergy:
        """Return what the board drew in a window that is over for `context_s`.

        Args:
            window: The window.
            changes_ns: When other windows began or ended, where the load may have changed.
        """
        series = self._around(self._sensor.source, window)
        if self._sensor.source is not SourceName.COUNTER:
            self._noise_w = min(self._noise_w, noise_w_of(series, self._sensor))
        sides = self._sides(window, changes_ns)
        found = window_energy(series, window, self._sensor, sides, self._noise_w)
        if found.status is Status.OK:
            return self._checked(found, series, window)
        lost = self._lost(series, window)
        if found.status is Status.WINDOW_TOO_SHORT and len(series.good()) and not lost:
            return self._bounded(found, series, window)
        unknown = self._of(math.nan, (math.nan, math.nan), Status.SENSOR_STALE, lost or found.reason)
        return replace(unknown, is_lost=bool(lost))

    def _sides(self, window: KernelWindow, changes_ns: Sequence[int]) -> int:
        """Return on how many sides of a window the load changes too near for the sensor."""
        far_ns = round(blur_s(self._sensor) * _NS_PER_S)
        before = any(_SAME_NS < window.start_ns - at_ns < far_ns for at_ns in changes_ns)
        after = any(_SAME_NS < at_ns - window.end_ns < far_ns for at_ns in changes_ns)
        return before + after

    def _checked(self, found: EnergyReading, series: Series, window: KernelWindow) -> GpuEnergy:
        """Return an energy with its interval, widened where the energy counter disagrees."""
        energy_j, half_j = found.energy_j, COVERAGE_FACTOR * found.error_j
        notes: tuple[str, ...] = ()
        if self._counter is not None:
            beside = counted(self._around(SourceName.COUNTER, window), series, window, self._sensor)
            if beside is not None and beside.disagrees:
                half_j = math.hypot(half_j, beside.difference_w * window.elapsed_s)
                notes = (
                    f"{self._sensor.source} and the energy counter differ by {beside.difference_w:+.3g} W"
                    " around the window: the interval holds both",
                )
        interval_j = max(energy_j - half_j, 0.0), energy_j + half_j
        return self._of(energy_j, interval_j, Status.OK, "", notes)

    def _bounded(self, found: EnergyReading, series: Series, window: KernelWindow) -> GpuEnergy:
        """Return the power around a window times its length, with all that the board can have drawn."""
        good = series.good()
        near_w = float(good.value.mean())
        if self._sensor.source is SourceName.COUNTER:
            near_w = float(np.ptp(good.value)) / (float(np.ptp(good.end_ns)) / _NS_PER_S)
        highest_w = self._limit_w if math.isfinite(self._limit_w) else math.inf
        interval_j = 0.0, highest_w * window.elapsed_s
        reason = f"{found.reason}: the interval is all that the GPU can have drawn"
        return self._of(near_w * window.elapsed_s, interval_j, Status.WINDOW_TOO_SHORT, reason)

    def _of(
        self,
        energy_j: float,
        interval_j: tuple[float, float],
        status: Status,
        reason: str,
        notes: tuple[str, ...] = (),
    ) -> GpuEnergy:
        return GpuEnergy(self._name, energy_j, interval_j, str(self._sensor.source), status, reason, notes)

    def _around(self, source: SourceName, window: KernelWindow) -> Series:
        (series,) = (one for one in self.series() if one.source is source)
        reach_ns = round(self.context_s * _NS_PER_S)
        at_ns = series.time_ns
        return series.select((at_ns >= window.start_ns - reach_ns) & (at_ns <= window.end_ns + reach_ns))

    def _lost(self, series: Series, window: KernelWindow) -> str:
        """Return the message for a GPU that was lost, "" for one that answers."""
        if not len(series) or int(series.code[-1]) not in _LOST_CODES:
            return ""
        good = series.good()
        last = (int(good.end_ns[-1]) - window.start_ns) / _NS_PER_S if len(good) else 0.0
        when = f"{max(last, 0.0):.3g} s after the window began"
        return f"it stopped answering {when} (NVML code {int(series.code[-1])}); see `nvidia-smi`"


class Recording(BoardReadings):
    """What a board draws, from when the recording is started until it is stopped.

    Args:
        board: The board; its first source is recorded, and the energy counter.
        beside: Whether its temperature and its clock are recorded as well.
    """

    def __init__(self, board: Board, *, beside: bool = False) -> None:
        super().__init__(board.name, board.sensors, board.limit_w)
        self.board = board
        wanted = {self._sensor.source, SourceName.COUNTER}
        sources: list[Reader] = [s for s in board.sources if s.name in wanted]
        if beside:
            sources += [_Seldom(reader, board.clock) for reader in board.beside]
        self._sampler = _RollingSampler(sources, board.clock)
        self._thread: SamplerThread | None = None

    def series(self) -> tuple[Series, ...]:
        """Return all readings so far, of each source."""
        return self._sampler.finish().series

    def start(self, needed_from_ns: Callable[[], int]) -> None:
        """Begin to record.

        Args:
            needed_from_ns: Returns from when on readings are needed; it is called by the recording's thread.

        Raises:
            SensorError: The first reading failed or did not return.
        """
        self._sampler.needed_from_ns = needed_from_ns
        clock = self.board.clock
        if isinstance(clock, VirtualClock):
            clock.start_ticker(self._sampler.poll, self._sampler.wait_s)
        else:
            self._thread = SamplerThread(self._sampler)
            self._thread.start()

    def stop(self) -> None:
        """End the recording and release the board; what was read stays."""
        clock = self.board.clock
        if isinstance(clock, VirtualClock):
            clock.stop_ticker(self._sampler.poll)
        try:
            if self._thread is not None:
                self._thread.stop()
        except GpuError:
            # A board that is gone must not hide why a program ended; its windows reported that.
            pass
        finally:
            self.board.close()


def open_boards(
    gpus: Spec | Board | Sequence[Spec | Board] | None,
    library: Any = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Board, ...]:
    """Return the boards that a user names.

    Args:
        gpus: As `EnergyMonitor` takes them.
        library: pynvml (None), or what stands in for it.
        environment: The environment (None: the process's).

    Raises:
        GpuError: There is no such GPU, no driver, or one that cannot be read.
        InputError: `gpus` names nothing, one GPU twice, or a GPU that no program can run on beside.
    """
    specs = _specs(gpus, library, environment)
    if not specs:
        raise InputError("gpus names no GPU")
    with ExitStack() as opened:
        boards, refused = [], []
        for spec in specs:
            try:
                boards.append(_board(spec, library))
            except GpuError as error:
                if gpus is not None:
                    raise
                refused.append(str(error))
            else:
                opened.callback(boards[-1].close)
        if not boards:
            raise GpuError("; ".join(refused))
        if refused:
            from ptxbench.devices.visible import warn_left_out

            warn_left_out(f"left out: {'; '.join(refused)}")
        names = [board.name for board in boards]
        if len(set(names)) < len(names):
            raise InputError(f"gpus names a GPU twice: {', '.join(names)}")
        opened.pop_all()
    return tuple(boards)


def _specs(
    gpus: Spec | Board | Sequence[Spec | Board] | None,
    library: Any,
    environment: Mapping[str, str] | None,
) -> list[Spec | Board]:
    """Return what to open: in the place of CUDA's numbers UUIDs, or NVML's numbers where a board has none."""
    specs: list[Spec | Board] = []
    if gpus is not None:
        specs += [gpus] if isinstance(gpus, str) or not isinstance(gpus, Sequence) else gpus
        if not any(type(spec) is int for spec in specs):
            return specs
    from ptxbench.devices.visible import Machine

    machine = Machine(library, environment)
    if gpus is None:
        specs += [board.uuid for board in machine.usable()]
    else:
        specs = [machine.counted(spec).spec if type(spec) is int else spec for spec in specs]
    machine.say_left_out(specs)
    return specs


def _board(spec: Spec | Board, library: Any) -> Board:
    if isinstance(spec, Board):
        return spec
    if isinstance(spec, str) and spec.startswith(("simulated", "replay:")):
        spec = open_gpu(spec)
    if isinstance(spec, Gpu):
        return _simulated(spec) if not spec.is_real else _by_nvml(spec.info.index, library)
    if isinstance(spec, bool) or not isinstance(spec, int | str):
        raise InputError(f"gpus must hold indices, UUIDs or open GPUs, not {spec!r}")
    return _by_nvml(spec, library)


def _simulated(gpu: Gpu) -> Board:
    from ptxbench.devices.simulated.gpu import SimulatedGpu

    device = gpu._device
    if not isinstance(device, SimulatedGpu):
        raise InputError(f"{gpu.info.title} cannot be monitored: only a real or a simulated GPU draws power")
    return Board(
        gpu.info.title,
        device.clock,
        device.open_sources(),
        device.sensors,
        gpu.info.power_limit_w,
        lambda: None,
        is_device=False,
        beside=device.open_beside(),
    )


def _given(library: Any) -> tuple[Any, ...]:
    """Return the library where one is given; pynvml is the default everywhere."""
    return () if library is None else (library,)


def _by_nvml(which: int | str, library: Any) -> Board:
    from ptxbench.sensors import nvml

    device = nvml.NvmlDevice(which, *_given(library))
    try:
        device.require_whole()
        # Memory power is not the board's.
        found = [s for s in nvml.available_sources(device) if s.name is not SourceName.MEMORY]
        ordered = tuple(sorted(found, key=lambda source: source_of(source.name).rank))
        if not ordered:
            raise nvml.no_source_error(device)
        sensors = tuple(sensor_for(source.name, device.target) for source in ordered)
        major = device.cuda.partition(".")[0]
        return Board(
            device.title,
            HostClock(),
            ordered,
            sensors,
            device.power_limit_w,
            device.close,
            is_device=True,
            uuid=device.uuid,
            cuda_major=int(major) if major.isdecimal() else 0,
            other_processes=device.other_processes(),
            beside=tuple(device.source(name) for name in (SourceName.TEMPERATURE, SourceName.CLOCK)),
        )
    except GpuError:
        device.close()
        raise

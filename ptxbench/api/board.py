"""The boards that a monitor reads: which they are, what they draw, and a recording of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

from ptxbench.api.board_readings import HISTORY_S, POLL_S, BoardReadings, compare_gated, gated
from ptxbench.api.gpu import Gpu, open_gpu
from ptxbench.api.window_energy import GpuEnergy
from ptxbench.core.clock import Clock, HostClock, VirtualClock
from ptxbench.core.errors import GpuError, InputError
from ptxbench.energy.gate.comparison import Comparison, joined
from ptxbench.sensors.base import Reader, SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.sensors.rate_limited import RateLimitedReader
from ptxbench.sensors.sampler import Sampler, SamplerThread
from ptxbench.sensors.sources import source_of
from ptxbench.sensors.trace import NS_PER_S, KernelWindow, Series

# What is too old is forgotten so often, not at each poll.
_POLLS_A_SWEEP = 256
# Comparisons of the two sources, one a second or so, that are kept one by one.
_MOST_COMPARISONS = 2000

Spec = Gpu | int | str


class _RollingSampler(Sampler):
    """A sampler that goes on for hours: it forgets what no window needs."""

    def __init__(self, sources: Sequence[Reader], clock: Clock, forget_some: Callable[[], None]) -> None:
        super().__init__(sources, clock, POLL_S, is_compact=True)
        self._forget_some = forget_some
        self._polls = 0

    def poll(self) -> None:
        """Read each source once, and now and then forget."""
        super().poll()
        self._polls += 1
        if self._polls % _POLLS_A_SWEEP == 0:
            self._forget_some()


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
        max_power_w: Highest power limit that can be set, NaN where it is not known.
        throttle_reasons: Returns NVML's bit mask of what slows the GPU down now; None where nothing tells.
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
    max_power_w: float = math.nan
    throttle_reasons: Callable[[], int] | None = None


def with_others(energy: GpuEnergy, board: Board) -> GpuEnergy:
    """Return the energy of a board with a note where other programs were on it."""
    if board.other_processes <= 0:
        return energy
    return replace(energy, notes=(*energy.notes, "another process was on it, whose energy is included"))


class Recording(BoardReadings):
    """What a board draws, from when the recording is started until it is stopped.

    Args:
        board: The board; its best source is recorded, and one beside it.
        beside: Whether its temperature and its clock are recorded as well.
        keep: Is given new readings every second or so, by the recording's thread.
    """

    def __init__(
        self,
        board: Board,
        *,
        beside: bool = False,
        keep: Callable[[tuple[Series, ...]], None] | None = None,
    ) -> None:
        super().__init__(board.name, board.sensors, board.limit_w, board.max_power_w)
        self.board = board
        sources: list[Reader] = [s for s in board.sources if s.name in self.recorded]
        if beside:
            sources += [RateLimitedReader(reader, board.clock) for reader in board.beside]
        self._sampler = _RollingSampler(sources, board.clock, self._sweep)
        self._keep, self._kept_ns = keep, 0
        self._thread: SamplerThread | None = None
        self._needed_from_ns: Callable[[], int] = int
        self._lock = RLock()
        self._compared: list[Comparison] = []
        self._compared_ns = board.clock.now_ns()

    def series(self) -> tuple[Series, ...]:
        """Return the readings that are kept so far, of each source."""
        return self._sampler.finish().series

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the power source beside the energy counter, since the recording began."""
        with self._lock:
            return (*self._compared, *self._not_yet_compared())

    def start(self, needed_from_ns: Callable[[], int]) -> None:
        """Begin to record.

        Args:
            needed_from_ns: Returns from when on readings are needed; it is called by the recording's thread.

        Raises:
            SensorError: The first reading failed or did not return.
        """
        self._needed_from_ns = needed_from_ns
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

    def _sweep(self) -> None:
        """Give new readings away, and forget what no window needs."""
        if self._keep is not None:
            series = self._sampler.finish(self._kept_ns).series
            self._kept_ns = max(
                (int(one.end_ns[-1]) + 1 for one in series if len(one)), default=self._kept_ns
            )
            self._keep(series)
        self._forget()

    def _forget(self) -> None:
        """Forget what no window needs, once the sources were compared there."""
        needed_ns = self._needed_from_ns() - round(HISTORY_S * NS_PER_S)
        if needed_ns <= self._sampler.begin_ns:
            return
        with self._lock:
            new = self._not_yet_compared()
            self._compared = _thinned([*self._compared, *new])
            # Where there is nothing to compare for long, nothing is waited for.
            waited_ns = self.board.clock.now_ns() - round(HISTORY_S * NS_PER_S)
            self._compared_ns = max(new[-1].end_ns if new else self._compared_ns, waited_ns)
            needed_ns = min(needed_ns, self._compared_ns - round(self.context_s * NS_PER_S))
        self._sampler.forget(needed_ns)

    def _not_yet_compared(self) -> tuple[Comparison, ...]:
        since_ns = self._compared_ns - round(self.context_s * NS_PER_S)
        series = self._sampler.finish(since_ns).series
        sources = gated(series, self._sensors, self._max_power_w)
        window = KernelWindow(self._compared_ns, self.board.clock.now_ns(), 0.0)
        return compare_gated(sources, self._max_power_w, window)


def _thinned(comparisons: list[Comparison]) -> list[Comparison]:
    """Return comparisons, of hours each two that follow each other as one."""
    if len(comparisons) <= _MOST_COMPARISONS:
        return comparisons
    pairs = (joined(comparisons[i : i + 2]) for i in range(0, len(comparisons), 2))
    return [one for one in pairs if one is not None]


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
        max_power_w=gpu.info.max_power_w,
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
            max_power_w=device.max_power_limit_w,
            throttle_reasons=device.throttle_reasons,
        )
    except GpuError:
        device.close()
        raise

"""For Kernel Tuner: an observer that gives each configuration its energy, with an interval.

    from kernel_tuner import tune_kernel
    from ptxbench.kernel_tuner import EnergyObserver

    tune_kernel("saxpy", code, n, arguments, {"block_size_x": [64, 128, 256]}, lang="cupy",
        observers=[EnergyObserver()], objective="energy_j", objective_higher_is_better=False)

It needs Kernel Tuner, and sets nothing on the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ptxbench.api.board import Board, Spec, open_boards
from ptxbench.api.board_readings import POLL_S
from ptxbench.core.bounds import within
from ptxbench.core.clock import VirtualClock
from ptxbench.core.errors import InputError
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.calls.window import CallWindow, mean_of
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import BoardLimits, kernel_power, mean_clock_mhz
from ptxbench.sensors.rate_limited import RateLimitedReader
from ptxbench.sensors.sampler import Sampler, SamplerThread
from ptxbench.sensors.trace import KernelWindow, Trace

try:
    from kernel_tuner.observers import BenchmarkObserver
except ImportError as missing:
    raise ImportError("ptxbench.kernel_tuner needs Kernel Tuner; run 'pip install kernel_tuner'") from missing

# What a configuration gets where nothing is known of its power: never the best.
_UNKNOWN = math.inf


class _Readings:
    """Power, clock and throttle reasons of a board while something runs."""

    def __init__(self, board: Board) -> None:
        self._board = board
        beside = [RateLimitedReader(reader, board.clock) for reader in board.beside]
        self._sampler = Sampler([*board.sources, *beside], board.clock, POLL_S, board.throttle_reasons)
        self._thread: SamplerThread | None = None
        if isinstance(board.clock, VirtualClock):
            board.clock.start_ticker(self._sampler.poll, self._sampler.wait_s)
        else:
            self._thread = SamplerThread(self._sampler)
            self._thread.start()

    def stop(self, window: KernelWindow) -> tuple[Trace, int]:
        """End the recording, and return it with what slowed the GPU down within a window; -1: not known."""
        if self._thread is not None:
            self._thread.stop()
        elif isinstance(self._board.clock, VirtualClock):
            self._board.clock.stop_ticker(self._sampler.poll)
        known = self._board.throttle_reasons is not None
        return self._sampler.finish(), self._sampler.throttle_reasons(window) if known else -1


class _Settled(BenchmarkObserver):  # type: ignore[misc] # Kernel Tuner has no types
    """Measures what Kernel Tuner calls back to back for some time."""

    def __init__(self, observer: EnergyObserver, continuous_duration: float) -> None:
        self.continuous_duration = continuous_duration
        # Kernel Tuner puts the results of its short timing here.
        self.results: dict[str, Any] | None = None
        self._observer = observer
        self._launches = 0
        self._begin_ns = 0
        self._readings: _Readings | None = None
        self._restore: Callable[[], None] = lambda: None
        self._found: dict[str, Any] = {}

    def before_start(self) -> None:
        """Begin to read, and to count launches."""
        self._launches = 0
        self._count_launches()
        self._readings = _Readings(self._observer.board)
        self._begin_ns = self._observer.board.clock.now_ns()

    def after_finish(self) -> None:
        """End the recording, and work out what one launch took."""
        end_ns = self._observer.board.clock.now_ns()
        self._restore()
        window = KernelWindow.spanning(self._begin_ns, end_ns)
        assert self._readings is not None  # noqa: S101 - Kernel Tuner calls before_start first
        trace, reasons = self._readings.stop(window)
        self._found = self._observer.results_of(trace, window, self._launches, reasons)

    def get_results(self) -> dict[str, Any]:
        """Return what is added to the results of a configuration."""
        return self._found

    def _count_launches(self) -> None:
        """Count what Kernel Tuner launches: how often it does so depends on all observers."""
        device = self._observer.dev
        launch = device.run_kernel

        def counted(*arguments: Any, **words: Any) -> Any:
            self._launches += 1
            return launch(*arguments, **words)

        device.run_kernel = counted

        def restore() -> None:
            del device.run_kernel

        self._restore = restore


class EnergyObserver(BenchmarkObserver):  # type: ignore[misc] # Kernel Tuner has no types
    """Adds to each configuration: `energy_j` of a launch, `energy_ci95_j`, `power_w`, `clock_mhz`, and how.

    Kernel Tuner calls each configuration for `duration_s` after its short timing. The energy is that of the
    settled part. `settled` is whether clock and power had settled, `at_limit` whether the power limit or heat
    held the clock down, `energy_note` what must be said of it. At the limit power takes seconds to settle:
    give 4 s. Where nothing is known, `energy_j` is infinite.

    Args:
        gpu: Number of the GPU, as CUDA counts, or its UUID.
        duration_s: How long each configuration runs while its power is read; Kernel Tuner takes 1 s at least.

    Raises:
        ArgumentError: `duration_s` is out of its range.
        GpuError: There is no such GPU, or it does not tell its power.
    """

    def __init__(self, gpu: Spec | Board = 0, duration_s: float = 1.0) -> None:
        (self.board,) = open_boards(gpu)
        self.dev: Any = None
        self.continuous_observer = _Settled(self, within("duration_s", duration_s, 0.1, 600))
        self._check = SourceCheck(board_sensor(self.board.sensors), self.board.sensors)

    def get_results(self) -> dict[str, Any]:
        """Return nothing: the short timing is too short for a sensor."""
        return {}

    def close(self) -> None:
        """Release the GPU."""
        self.board.close()

    def results_of(self, trace: Trace, window: KernelWindow, launches: int, reasons: int) -> dict[str, Any]:
        """Return what is known of a configuration.

        Args:
            trace: The recording.
            window: When its launches ran.
            launches: How many there were.
            reasons: NVML's bit mask of what slowed the GPU down; -1 where it is not known.

        Raises:
            InputError: Nothing was launched.
        """
        if launches < 1:
            raise InputError("Kernel Tuner launched nothing while power was read")
        limits = BoardLimits(self.board.limit_w, self.board.max_power_w)
        found = kernel_power(trace, window, launches, self._check, reasons, limits)
        power = found.power
        one = CallWindow(0, found.launch_s, power.power_w, power.standard_error_w)
        energy = mean_of([one.energy_j], [one.error_j])
        is_known = math.isfinite(energy.mean) and not self._check.objection
        note = self._check.objection or power.reason or found.unsettled or found.note
        return {
            "energy_j": energy.mean if is_known else _UNKNOWN,
            "energy_ci95_j": energy.ci95 if is_known else _UNKNOWN,
            "power_w": power.power_w,
            "clock_mhz": mean_clock_mhz(trace, found.counted),
            "settled": is_known and not found.unsettled,
            "at_limit": found.slowed,
            "energy_note": note,
        }

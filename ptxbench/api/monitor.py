"""The energy of any part of a program that runs on GPUs."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from types import TracebackType
from typing import Any, Self

from ptxbench.api.board import Board, Recording, Spec, open_boards, with_others
from ptxbench.api.board_readings import HISTORY_S
from ptxbench.api.counting import COUNTS
from ptxbench.api.window_energy import GpuLostError, WindowEnergy
from ptxbench.api.window_log import log_window
from ptxbench.api.window_metrics import observe, window_samples
from ptxbench.core.errors import GpuError, InputError
from ptxbench.report.metrics import Sample, prometheus_text
from ptxbench.sensors.trace import NS_PER_S, KernelWindow

# Windows that tell when the GPUs worked.
_RECENT = 12
_IDLE = "idle"


class Window:
    """A part of a program between two moments.

    Attributes:
        name: Its name.
    """

    def __init__(self, name: str, start_ns: int, monitor: EnergyMonitor) -> None:
        self.name = name
        self._start_ns = start_ns
        self._end_ns: int | None = None
        self._counted_before = COUNTS.totals
        self._counted: dict[str, float] = {}
        self._monitor = monitor
        self._found: WindowEnergy | None = None

    def result(self) -> WindowEnergy:
        """Return what the GPUs drew, once the window is over.

        The first call waits until the sensors have seen the end of the window, which takes a quarter of a
        second on most GPUs; a call that comes later than that waits for nothing.

        Raises:
            GpuLostError: A GPU stopped answering; what is known is in `measured`.
            InputError: The window is still open.
        """
        return self._monitor._result(self)


class EnergyMonitor:
    """Measures the energy of windows of a program: of PyTorch, CuPy or anything else that runs on GPUs.

        import torch, ptxbench

        x = torch.randn(8192, 8192, device="cuda")
        with ptxbench.EnergyMonitor() as monitor:
            for _ in range(10):
                with monitor.window("step") as step:
                    for _ in range(20):
                        x @ x
            monitor.begin_window("last")
            x @ x
            print(monitor.end_window("last"))
        for found in monitor.measured:
            print(found.name, found.energy_j, found.interval_j)

    A thread reads each GPU's power sensor every 5 ms, and a second source that checks it. The energy is that
    of the whole board from the begin of the window to its end, idle power included, with the sensor's
    averaging, lag and refresh taken out (`ptxbench.energy.window`). Windows may overlap, lie within each
    other, and be called alike.

    Args:
        gpus: GPUs to measure: indices as PyTorch and CuPy count them (CUDA_VISIBLE_DEVICES is honoured),
            UUIDs, or a GPU from `open_gpu`; one or several. None: every GPU that this process may use and
            that works; a warning names the others.
        sync: Called at the begin and the end of each window to wait for the GPU's work. None: the CUDA
            contexts of this process are waited for, as torch.cuda.synchronize() does; none is made.

    Raises:
        GpuError: There is no such GPU, no driver, a GPU in MIG mode, or one that does not tell its power.
        InputError: `gpus` is empty, names a GPU twice, or is no GPU.
    """

    def __init__(
        self, gpus: Spec | Sequence[Spec | Board] | None = None, *, sync: Callable[[], object] | None = None
    ) -> None:
        boards = open_boards(gpus)
        self._clock = boards[0].clock
        if any(type(board.clock) is not type(self._clock) for board in boards) or (
            len({id(board.clock) for board in boards}) > 1 and not boards[0].is_device
        ):
            raise InputError("a simulated GPU can only be monitored alone: it has a clock of its own")
        self._sync = sync if sync is not None else _own_sync(boards)
        self._lock = RLock()
        self._idle_w = self._idle_half_w = math.nan
        self._open: dict[str, Window] = {}
        self._ended: list[Window] = []
        self._over: list[Window] = []
        self._marks_ns: list[int] = []
        self._recent: list[KernelWindow] = []
        self._is_simulated = not all(board.is_device for board in boards)
        self._recordings = [Recording(board) for board in boards]
        self._context_s = max(recording.context_s for recording in self._recordings)
        self._close = weakref.finalize(self, _stop, self._recordings)
        needed = weakref.WeakMethod(self._sweep)
        try:
            for recording in self._recordings:
                recording.start(lambda: method() if (method := needed()) is not None else 0)
            # What was drawn before the first window must have been seen.
            self._clock.sleep_s(self._context_s)
        except BaseException:
            self.close()
            raise

    @property
    def measured(self) -> tuple[WindowEnergy, ...]:
        """Every window that is over, in the order in which they ended; a GPU that was lost is NaN."""
        for window in tuple(self._ended):
            with suppress(GpuLostError):
                self._result(window)
        return tuple(window._found for window in tuple(self._over) if window._found is not None)

    def measure_idle(self, seconds: float = 2.0) -> float:
        """Wait, with nothing running on the GPUs, and keep what they draw: windows have energy above it.

            with ptxbench.EnergyMonitor() as monitor:
                monitor.measure_idle()
                with monitor.window("step") as step:
                    train()
                print(step.result().energy_above_idle_j)

        A GPU that a process has just used stays at a high clock for some seconds, and draws more than one at
        rest. Windows that are worked out from now on count by it.

        Args:
            seconds: How long, at least as long as the sensor needs.

        Returns:
            The power of all GPUs together, W.

        Raises:
            GpuLostError: A GPU stopped answering.
            InputError: The monitor is closed, or `seconds` is not above 0.
        """
        if not seconds > 0:
            raise InputError(f"seconds must be above 0, not {seconds!r}")
        with self.window(_IDLE) as window:
            self._clock.sleep_s(seconds)
        found = window.result()
        low_j, high_j = found.interval_j
        with self._lock:
            self._over.remove(window)
            self._idle_w = found.mean_power_w
            self._idle_half_w = (high_j - low_j) / 2 / found.time_s
        return self._idle_w

    def metrics(self) -> str:
        """Return the windows that are over as metrics, in the text format of Prometheus.

            http_response = monitor.metrics()   # of the path that Prometheus scrapes

        For each GPU and name of windows: `hw_energy_joules_total`, the ends of its 95% interval, mean power,
        time, how many windows there were, and of how many the energy is not known. It waits for nothing: a
        window is in it once it was worked out, which its `result` does, or a few seconds.
        """
        return prometheus_text(self._samples())

    def observe(self, provider: Any = None) -> None:
        """Give the same to OpenTelemetry, as `hw.energy` in J and so on, whenever its reader collects.

        Args:
            provider: A MeterProvider, with what exports it (such as OTLP); None: the one that is set.

        Raises:
            ToolError: OpenTelemetry is not installed.
        """
        observe(self._samples, provider)

    def _samples(self) -> tuple[Sample, ...]:
        known = (window._found for window in tuple(self._over))
        found = [window for window in known if window is not None]
        return tuple(window_samples(found, is_simulated=self._is_simulated))

    def begin_window(self, name: str) -> None:
        """Begin a window.

        Raises:
            InputError: A window of this name is open, or the monitor is closed.
        """
        self._begin(name)

    def end_window(self, name: str) -> WindowEnergy:
        """End a window and return what it took; `Window.result` says how long that waits.

        Raises:
            GpuLostError: A GPU stopped answering; what is known is in `measured`.
            InputError: No window of this name is open.
        """
        return self._end(name).result()

    @contextmanager
    def window(self, name: str) -> Iterator[Window]:
        """Open a window for a `with` block; it ends with the block, and waits for nothing.

        with monitor.window("step") as step:
            train()
        print(step.result().energy_j)
        """
        window = self._begin(name)
        try:
            yield window
        finally:
            if self._open.get(name) is window:
                self._end(name)

    def close(self) -> None:
        """End the recording; windows that are over still give results."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._close.alive:
            # So that the windows that are over give results when the recording has ended.
            _ = self.measured
        self.close()

    def _begin(self, name: str) -> Window:
        if not self._close.alive:
            raise InputError("the monitor is closed; make a new one")
        self._sync()
        with self._lock:
            if name in self._open:
                raise InputError(f"window {name!r} is open already; end it first, or choose another name")
            self._open[name] = Window(name, self._mark(), self)
            self._settle()
            return self._open[name]

    def _end(self, name: str) -> Window:
        if name not in self._open:
            raise InputError(f"no window {name!r} is open; begin it first")
        try:
            self._sync()
        finally:
            with self._lock:
                window = self._open.pop(name)
                window._end_ns = self._mark()
                window._counted = _since(window._counted_before)
                self._recent = _apart(
                    [*self._recent, KernelWindow.spanning(window._start_ns, window._end_ns)]
                )
                self._ended.append(window)
                self._over.append(window)
                log_window(name, window._start_ns, window._end_ns)
        return window

    def _mark(self) -> int:
        """Return the time, and note that the load may change now."""
        now_ns = self._clock.now_ns()
        self._marks_ns.append(now_ns)
        return now_ns

    def _settle(self) -> None:
        """Work out the windows that are long enough past, so that their readings can be forgotten.

        The longer that is waited for, the better the energy counter tells whether the source is right.
        """
        now_ns = self._clock.now_ns()
        for window in tuple(self._ended):
            if window._end_ns is not None and now_ns >= window._end_ns + HISTORY_S * NS_PER_S:
                with suppress(GpuLostError):
                    self._result(window)
        needed_ns = self._needed_from_ns()
        self._marks_ns = [at_ns for at_ns in self._marks_ns if at_ns >= needed_ns]

    def _result(self, window: Window) -> WindowEnergy:
        if window._end_ns is None:
            raise InputError(f"window {window.name!r} is still open; end it first")
        if window._found is None and self._close.alive:
            ready_ns = window._end_ns + round(self._context_s * NS_PER_S)
            self._clock.sleep_s(max(ready_ns - self._clock.now_ns(), 0) / NS_PER_S)
        with self._lock:
            if window._found is None:
                window._found = self._work_out(window, window._end_ns)
                self._ended.remove(window)
        lost = [gpu for gpu in window._found.gpus if gpu.is_lost]
        if lost:
            raise GpuLostError(f"window {window.name!r}: {lost[0].gpu}: {lost[0].reason}", window._found)
        return window._found

    def _work_out(self, window: Window, end_ns: int) -> WindowEnergy:
        span = KernelWindow.spanning(window._start_ns, end_ns)
        gpus = tuple(
            with_others(recording.energy(span, self._marks_ns, self._recent), recording.board)
            for recording in self._recordings
        )
        found = zip(self._recordings, gpus, strict=True)
        method = "; ".join(dict.fromkeys(recording.method(energy) for recording, energy in found))
        return WindowEnergy(
            window.name, span.elapsed_s, gpus, method, window._counted, self._idle_w, self._idle_half_w
        )

    def _sweep(self) -> int:
        """Work out what is long enough past, and return from when on readings are needed."""
        # The recording must not wait for a thread that works out another window.
        if self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()
        return self._needed_from_ns()

    def _needed_from_ns(self) -> int:
        windows = [*self._open.copy().values(), *self._ended.copy()]
        first_ns = min([self._clock.now_ns(), *(window._start_ns for window in windows)])
        return first_ns - round(2 * self._context_s * NS_PER_S)


def _since(before: Mapping[str, float]) -> dict[str, float]:
    """Return what was counted since some totals."""
    return {unit: n - before.get(unit, 0) for unit, n in COUNTS.totals.items() if n > before.get(unit, 0)}


def _apart(spans: Sequence[KernelWindow]) -> list[KernelWindow]:
    """Return the last windows that do not overlap, in order of time; of two that do the shorter one."""
    kept: list[KernelWindow] = []
    for span in sorted(spans, key=lambda one: one.elapsed_s):
        if all(span.end_ns <= one.start_ns or span.start_ns >= one.end_ns for one in kept):
            kept.append(span)
    return sorted(kept, key=lambda one: one.start_ns)[-_RECENT:]


def _stop(recordings: Sequence[Recording]) -> None:
    for recording in recordings:
        recording.stop()


def _own_sync(boards: Sequence[Board]) -> Callable[[], object]:
    """Return what waits for the work of this process, where it has CUDA at all."""
    if not any(board.is_device for board in boards):
        return lambda: None
    try:
        from ptxbench.devices.cuda import synchronize_contexts
    except GpuError as error:
        raise GpuError(
            f"{error}; or give EnergyMonitor a function to wait for the GPU by, as sync="
        ) from error
    return synchronize_contexts

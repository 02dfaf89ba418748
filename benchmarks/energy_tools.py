"""The tools that compare_tools.py compares: each measures the energy of one kernel, in its own way."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Protocol

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.devices.base import Gpu, Launch
from ptxbench.energy.predicted_error import methods_for
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow

_QUIET_REFRESHES = 3
# So rarely do we poll while another tool reads, so as not to disturb it.
_HANDS_OFF_S = 60.0


@dataclass(frozen=True)
class Kernel:
    """One kernel to measure: a launch that lasts about `duration_s`, after `before_s` of idle time."""

    launch: Launch
    duration_s: float
    before_s: float


@dataclass(frozen=True)
class Answer:
    """What a tool says: the energy of one launch, its duration, and the time spent on measuring it."""

    energy_j: float
    elapsed_s: float
    measuring_s: float


class Tool(Protocol):
    """One way of measuring."""

    name: str

    def measure(self, gpu: Gpu, kernel: Kernel) -> Answer:
        """Measure a kernel once; NaN for an energy that the tool does not give."""
        ...


class Ptxbench:
    """A method of ptxbench on one of its sources, on one launch or on as many as fill `fill_s`."""

    def __init__(
        self, method: str, sensor: SensorDescription, *, is_quiet: bool, fill_s: float = 0.0
    ) -> None:
        self.name = f"ptxbench {method} {sensor.source}" + (f", {fill_s:g} s" if fill_s else "")
        self._fill_s = fill_s
        self._method, self._sensor = methods_for(sensor.source)[method], sensor
        self._quiet_s = sensor.settle_s + _QUIET_REFRESHES * sensor.refresh_s if is_quiet else 0.0

    def measure(self, gpu: Gpu, kernel: Kernel) -> Answer:
        """Record the launches and idle time around them."""
        gpu.clock.sleep_s(kernel.before_s)
        count = max(1, math.ceil(self._fill_s / kernel.duration_s))
        launches = [kernel.launch] * count
        launches[0] = replace(launches[0], before_s=self._quiet_s)
        launches[-1] = replace(launches[-1], after_s=self._quiet_s)
        run = gpu.run_sequence(launches, [0.0] * (count - 1))
        series = run.trace.of(self._sensor.source)
        if series is None:
            raise InputError(f"this GPU does not answer {self._sensor.source}")
        start_ns, end_ns = run.windows[0].start_ns, run.windows[-1].end_ns
        whole = KernelWindow(start_ns, end_ns, (end_ns - start_ns) * 1e-9)
        energy_j = self._method(series, whole, self._sensor).energy_j / count
        elapsed_s = float(np.mean([window.elapsed_s for window in run.windows]))
        return Answer(energy_j, elapsed_s, (run.trace.end_ns - run.trace.begin_ns) * 1e-9)


class Zeus:
    """ZeusMonitor around one launch."""

    def __init__(self, gpu: Gpu, *, approximates: bool) -> None:
        from zeus.monitor import ZeusMonitor  # type: ignore[import-not-found]

        self.name = f"Zeus {version('zeus')}" + (", approx_instant_energy" if approximates else "")
        self._index = gpu.info.index
        self._monitor = ZeusMonitor([self._index], cpu_indices=[], approx_instant_energy=approximates)

    def measure(self, gpu: Gpu, kernel: Kernel) -> Answer:
        """Open the window right before the launch and close it right after; a launch returns at its end."""
        energy_j: list[float] = []
        stamps_ns: list[int] = []

        def begin() -> None:
            stamps_ns.append(gpu.clock.now_ns())
            self._monitor.begin_window("kernel", sync_execution=False)

        def end() -> None:
            with warnings.catch_warnings():
                # Zeus warns of every window in which its counter stood still; that is counted here.
                warnings.simplefilter("ignore")
                found = self._monitor.end_window("kernel", sync_execution=False)
            energy_j.append(found.gpu_energy[self._index])
            stamps_ns.append(gpu.clock.now_ns())

        (window,) = run_marked(gpu, kernel, 1, begin, end)
        return Answer(energy_j[0], window.elapsed_s, (stamps_ns[1] - stamps_ns[0]) * 1e-9)


class KernelTuner:
    """Kernel Tuner's NVMLObserver, driven as its `benchmark_continuous` does."""

    def __init__(self, gpu: Gpu) -> None:
        from kernel_tuner.observers.nvml import NVMLObserver  # type: ignore[import-not-found]

        self.name = f"Kernel Tuner {version('kernel_tuner')}"
        nvml = NVMLObserver(["nvml_energy"], device=gpu.info.index)
        nvml.register_device(None)
        self._observer = nvml.continuous_observer

    def measure(self, gpu: Gpu, kernel: Kernel) -> Answer:
        """Repeat the launch for a second while the observer polls."""
        launches = math.ceil(self._observer.continuous_duration / kernel.duration_s)
        left = launches
        finished = threading.Event()
        thread = threading.Thread(target=self._poll, args=(finished,), daemon=True)
        stamps_ns: list[int] = []

        def begin() -> None:
            if not stamps_ns:
                stamps_ns.append(gpu.clock.now_ns())
                self._observer.before_start()
                self._observer.after_start()
                thread.start()

        def end() -> None:
            nonlocal left
            left -= 1
            if not left:
                finished.set()
                thread.join()
                stamps_ns.append(gpu.clock.now_ns())

        try:
            windows = run_marked(gpu, kernel, launches, begin, end)
        finally:
            finished.set()
        elapsed_s = float(np.mean([window.elapsed_s for window in windows]))
        self._observer.results = {"time": 1e3 * elapsed_s}
        self._observer.after_finish()
        energy_j = float(self._observer.get_results()["nvml_energy"])
        return Answer(energy_j, elapsed_s, (stamps_ns[1] - stamps_ns[0]) * 1e-9)

    def _poll(self, finished: threading.Event) -> None:
        while not finished.is_set():
            self._observer.during()
            time.sleep(1e-6)


def run_marked(
    gpu: Gpu, kernel: Kernel, launches: int, begin: Callable[[], None], end: Callable[[], None]
) -> tuple[KernelWindow, ...]:
    """Launch back to back, with `begin` right before each launch and `end` right after."""
    first = replace(kernel.launch, before_s=kernel.before_s)
    with _marked(gpu, begin, end):
        many = [first, *[kernel.launch] * (launches - 1)]
        return gpu.run_sequence(many, [0.0] * (launches - 1), _HANDS_OFF_S).windows


@contextmanager
def _marked(gpu: Gpu, begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Put calls around the innermost launch: outside of it lie uploads and NVML calls of our own."""
    launch = gpu._launch  # type: ignore[attr-defined]

    def marked(*arguments: object) -> object:
        begin()
        try:
            return launch(*arguments)
        finally:
            end()

    gpu._launch = marked  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del gpu._launch  # type: ignore[attr-defined]

"""Measure the same kernel with ptxbench, Zeus and Kernel Tuner in one sitting, on a real GPU.

    python benchmarks/compare_tools.py --gpu 0 --sensor FOLDER_OF_PTXBENCH_SENSOR --out DIR

For kernels of 30 ms to 3 s: bias against the power that the same kernel has when it lasts, spread over the
repeats, and how many seconds of measuring it takes until the mean's 95% half-width is 1% of it. A tool that
cannot be imported is said so and left out. What each tool is asked to do, and what counts as measuring:

- ptxbench: one launch, or as many as fill half a second, with the idle time around them that the method
  needs; all of the recording counts.
- Zeus (ZeusMonitor): one window right around one launch.
- Kernel Tuner (NVMLObserver): the launch repeated for its continuous_duration of a second, as its tuner
  does, median power times the duration of one launch. The launches that time the kernel do not count.

DIR holds readings.csv, summary.csv and manifest.json, also after ctrl-C. It takes about five minutes.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

import numpy as np

import ptxbench
from ptxbench.errors import InputError, PtxbenchError
from ptxbench.gpu.protocol import Gpu, GpuInfo, GpuKind, Launch
from ptxbench.gpu.select import open_gpu
from ptxbench.measure.load import Load, prepare_load
from ptxbench.measure.statistics import estimate
from ptxbench.power.predict import methods_for
from ptxbench.power.sensor import SensorDescription
from ptxbench.power.source import SourceName
from ptxbench.power.steady import steady_power_w
from ptxbench.power.trace import KernelWindow
from ptxbench.store import codec
from ptxbench.store.atomic import write_text
from ptxbench.store.commit import git_commit
from ptxbench.store.place import require_place
from ptxbench.store.sensor_file import sensors_for

DURATIONS_S = (0.03, 0.1, 0.3, 1.0, 3.0)
WANTED = 0.01
_REPEATS = 5
_SEED = 5
_REFERENCE_S = 2.0
# Idle time before every measurement, of any tool; by chance up to one slow refresh longer.
_REST_S = 0.4
_REFRESH_S = 0.1
_QUIET_REFRESHES = 3
# So rarely do we poll while another tool reads, so as not to disturb it.
_HANDS_OFF_S = 60.0
# Short kernels are repeated to fill this, as `ptxbench methods` recommends.
_FILL_S = 0.5
_MAX_READINGS = 1_000_000


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


@dataclass(frozen=True)
class Reading:
    """One measurement, one line of readings.csv; `reference_j` is the reference power times `elapsed_s`."""

    tool: str
    duration_s: float
    repeat: int
    elapsed_s: float
    energy_j: float
    reference_j: float
    measuring_s: float


@dataclass(frozen=True)
class Summary:
    """One tool on kernels of one duration, one line of summary.csv.

    `seconds_to_1pct` is the measuring time of as many readings as their spread asks for; infinite where
    no number of them does.
    """

    tool: str
    duration_s: float
    readings: int
    answered: int
    bias_pct: float
    spread_pct: float
    measuring_s: float
    seconds_to_1pct: float


@dataclass(frozen=True)
class Manifest:
    """What was compared, on what."""

    created: datetime
    ptxbench_version: str
    commit: str | None
    gpu: GpuInfo
    tools: list[str]
    left_out: list[str]
    sensors: tuple[SensorDescription, ...]
    steady_w: dict[str, float]
    steady_spread_pct: dict[str, float]
    reference: str
    repeats: int
    seed: int


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

        (window,) = _run_marked(gpu, kernel, 1, begin, end)
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
            windows = _run_marked(gpu, kernel, launches, begin, end)
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


def _run_marked(
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


class Comparison:
    """All of the measurements; `folder` is written after every round."""

    def __init__(self, gpu: Gpu, load: Load, sensors: Sequence[SensorDescription], folder: Path) -> None:
        self._gpu, self._load, self._folder = gpu, load, folder
        self._sensors = [sensor for sensor in sensors if sensor.source is not SourceName.MEMORY]
        self._rng = np.random.default_rng(_SEED)
        self._steady_w: dict[str, list[float]] = {sensor.source: [] for sensor in self._sensors}
        self._answers: list[tuple[str, float, int, Answer]] = []
        self._created = datetime.now(UTC)
        self.tools: list[Tool] = []
        self.left_out: list[str] = []
        # The counter takes part by itself; the reference is the power source that is best for steady power.
        self._best = next(s for s in self._sensors if s.source is not SourceName.COUNTER)

    def find_tools(self) -> None:
        """Make every tool that is there."""
        gpu = self._gpu
        self.tools = [
            Ptxbench("corrected", self._best, is_quiet=True),
            Ptxbench("corrected", self._best, is_quiet=True, fill_s=_FILL_S),
        ]
        for sensor in self._sensors:
            if sensor.source is SourceName.COUNTER:
                self.tools += [
                    Ptxbench("corrected", sensor, is_quiet=True),
                    Ptxbench("counter", sensor, is_quiet=False),
                ]
        if gpu.info.kind is not GpuKind.REAL:
            self.left_out.append(f"Zeus and Kernel Tuner read NVML, which knows no {gpu.info.kind} GPU")
            return
        others: dict[str, Callable[[], Tool]] = {
            "Zeus": lambda: Zeus(gpu, approximates=False),
            "Zeus, approx_instant_energy": lambda: Zeus(gpu, approximates=True),
            "Kernel Tuner": lambda: KernelTuner(gpu),
        }
        for name, make in others.items():
            try:
                self.tools.append(make())
            except (ImportError, PackageNotFoundError) as error:
                self.left_out.append(f"{name} is not installed here: {error}")
            except Exception as error:  # whatever it raises, the others can still be compared
                self.left_out.append(f"{name} did not start: {type(error).__name__}: {error}")

    def measure(self, repeats: int, durations_s: Sequence[float]) -> None:
        """Measure in rounds: a reference, then every tool on every duration, in an order drawn by chance."""
        for repeat in range(repeats):
            self._add_reference()
            cases = [(tool, duration_s) for tool in self.tools for duration_s in durations_s]
            for number in self._rng.permutation(len(cases)):
                tool, duration_s = cases[number]
                if tool in self.tools:
                    self._add(tool, duration_s, repeat)
            self.write(repeats)
            print(f"round {repeat + 1} of {repeats} done", file=sys.stderr)
        self._add_reference()

    def readings(self) -> list[Reading]:
        """Return every reading beside its reference."""
        reference_w = self._levels()[self._best.source].mean
        return [
            Reading(
                tool, duration_s, repeat, a.elapsed_s, a.energy_j, reference_w * a.elapsed_s, a.measuring_s
            )
            for tool, duration_s, repeat, a in self._answers
        ]

    def write(self, repeats: int) -> None:
        """Write the three files."""
        readings = self.readings()
        levels = self._levels()
        _write_csv(self._folder / "readings.csv", Reading, readings)
        _write_csv(self._folder / "summary.csv", Summary, summarize(readings))
        manifest = Manifest(
            created=self._created,
            ptxbench_version=ptxbench.__version__,
            commit=git_commit(Path(ptxbench.__file__).parents[1]),
            gpu=self._gpu.info,
            tools=[tool.name for tool in self.tools],
            left_out=self.left_out,
            sensors=tuple(self._sensors),
            steady_w={source: level.mean for source, level in levels.items()},
            steady_spread_pct={source: 100 * level.ci95 / level.mean for source, level in levels.items()},
            reference=f"steady power by {self._best.source} x duration",
            repeats=repeats,
            seed=_SEED,
        )
        write_text(self._folder / "manifest.json", codec.to_text(manifest))

    def _add_reference(self) -> None:
        """Measure the power of the kernel when it lasts, by every source."""
        settle_s = max(sensor.settle_s for sensor in self._sensors)
        launch = self._load.launch("reference", settle_s + _REFERENCE_S)
        run = self._gpu.run(replace(launch, before_s=_REST_S))
        for sensor in self._sensors:
            series = run.trace.of(sensor.source)
            power_w = math.nan if series is None else steady_power_w(series, run.window, sensor).power_w
            if math.isfinite(power_w):
                self._steady_w[sensor.source].append(power_w)
        if not self._steady_w[self._best.source]:
            raise InputError(f"{self._best.source} gives no steady power; nothing to compare with")

    def _add(self, tool: Tool, duration_s: float, repeat: int) -> None:
        before_s = _REST_S + float(self._rng.uniform(0, _REFRESH_S))
        kernel = Kernel(self._load.launch(tool.name, duration_s), duration_s, before_s)
        try:
            answer = tool.measure(self._gpu, kernel)
        except PtxbenchError:
            raise
        except Exception as error:  # of another tool: the rest can still be compared
            self.tools.remove(tool)
            self.left_out.append(f"{tool.name} failed: {type(error).__name__}: {error}")
            return
        self._answers.append((tool.name, duration_s, repeat, answer))

    def _levels(self) -> dict[str, Level]:
        return {s: Level.of(values) for s, values in self._steady_w.items() if values}


@dataclass(frozen=True)
class Level:
    """Steady power over the rounds, and the half-width of its 95% interval, W."""

    mean: float
    ci95: float

    @classmethod
    def of(cls, values_w: Sequence[float]) -> Level:
        """Return the level of some values."""
        found = estimate(values_w)
        return cls(found.mean, found.ci95)


def summarize(readings: Sequence[Reading]) -> list[Summary]:
    """Return one line a tool and duration, ptxbench first."""
    groups: dict[tuple[float, str], list[Reading]] = {}
    for one in sorted(readings, key=lambda r: (r.duration_s, not r.tool.startswith("ptxbench"), r.tool)):
        groups.setdefault((one.duration_s, one.tool), []).append(one)
    return [_summary(tool, duration_s, group) for (duration_s, tool), group in groups.items()]


def _summary(tool: str, duration_s: float, group: Sequence[Reading]) -> Summary:
    ratios = [one.energy_j / one.reference_j for one in group if math.isfinite(one.energy_j)]
    measuring_s = float(np.mean([one.measuring_s for one in group]))
    mean = float(np.mean(ratios)) if ratios else math.nan
    spread = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else math.nan
    # A reading without an answer costs as much as one with.
    needed = readings_needed(spread / mean if mean > 0 else math.nan) * len(group) / max(len(ratios), 1)
    return Summary(
        tool=tool,
        duration_s=duration_s,
        readings=len(group),
        answered=len(ratios),
        bias_pct=100 * (mean - 1),
        spread_pct=100 * spread,
        measuring_s=measuring_s,
        seconds_to_1pct=needed * measuring_s,
    )


def readings_needed(spread: float, wanted: float = WANTED) -> float:
    """Return how many readings of a relative spread give a mean with a 95% half-width of `wanted`.

    The least n of at least 2 with t(n - 1) x spread / sqrt(n) <= wanted; infinite for an unknown spread.
    """
    from scipy.stats import t

    if not math.isfinite(spread):
        return math.inf
    low, high = 1, 2
    while high < _MAX_READINGS and t.ppf(0.975, high - 1) * spread / math.sqrt(high) > wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if t.ppf(0.975, middle - 1) * spread / math.sqrt(middle) > wanted:
            low = middle
        else:
            high = middle
    return float(high)


def _write_csv(path: Path, kind: type, rows: Sequence[Reading] | Sequence[Summary]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_text(path, text.getvalue())


def _print(comparison: Comparison, info: GpuInfo) -> None:
    kind = "" if info.kind is GpuKind.REAL else f" ({info.kind.upper()}, no measurement)"
    print(f"{info.name}{kind}, driver {info.driver}")
    print(f"{'kernel':>7}  {'tool':<38} {'bias %':>8} {'spread %':>9} {'s each':>7} {'s to 1%':>9}  answered")
    for one in summarize(comparison.readings()):
        seconds = f"{one.seconds_to_1pct:9.1f}" if math.isfinite(one.seconds_to_1pct) else f"{'-':>9}"
        print(
            f"{one.duration_s:5g} s  {one.tool:<38} {one.bias_pct:+8.2f} {one.spread_pct:9.2f}"
            f" {one.measuring_s:7.2f} {seconds}  {one.answered}/{one.readings}"
        )
    for text in comparison.left_out:
        print(f"left out: {text}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index or UUID (a simulated one runs ptxbench alone)")
    parser.add_argument("--sensor", type=Path, help="folder of `ptxbench sensor`")
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument("--repeats", type=int, default=_REPEATS)
    chosen = parser.parse_args(arguments)
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        raise InputError("CUDA_VISIBLE_DEVICES renumbers the GPUs for some of the tools: unset it")
    if chosen.repeats < 2:
        raise InputError("--repeats must be at least 2: one reading has no spread")
    gpu = open_gpu(chosen.gpu)
    try:
        require_place(chosen.out, gpu.info.kind)
        chosen.out.mkdir(parents=True, exist_ok=True)
        if any(chosen.out.iterdir()):
            raise InputError(f"{chosen.out} is not empty; choose a new folder")
        sensors = sensors_for(chosen.sensor, gpu) if chosen.sensor else gpu.sensors
        comparison = Comparison(gpu, prepare_load(gpu), sensors, chosen.out)
        comparison.find_tools()
        comparison.measure(chosen.repeats, DURATIONS_S)
        comparison.write(chosen.repeats)
        _print(comparison, gpu.info)
    finally:
        gpu.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as problem:
        print(f"compare_tools: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    except KeyboardInterrupt:
        print("compare_tools: stopped; the rounds that were done are kept", file=sys.stderr)
        sys.exit(130)

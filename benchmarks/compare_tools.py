"""Measure the same kernel with ptxbench, Zeus and Kernel Tuner in one session, on a real GPU.

    python benchmarks/compare_tools.py --gpu 0 --sensor FOLDER_OF_PTXBENCH_SENSOR --out DIR

For kernels of 30 ms to 3 s: bias against the power that the same kernel has when it lasts, spread over the
repeats, and how many seconds of measuring it takes until the mean's 95% half-width is 1% of it. A tool that
cannot be imported is said so and left out. What each tool has to do, and what counts as measuring:

- ptxbench: one launch, or as many as fill half a second, with the idle time around them that the method
  needs; all of the recording counts.
- Zeus (ZeusMonitor): one window right around one launch.
- Kernel Tuner (NVMLObserver): the launch repeated for its continuous_duration of a second, as its tuner
  does, median power times the duration of one launch. The launches that time the kernel do not count.

DIR holds readings.csv, summary.csv and manifest.json, also after ctrl-C. It takes about five minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
from energy_tools import Answer, Kernel, KernelTuner, Ptxbench, Tool, Zeus
from tool_readings import Reading, Summary, summarize, write_csv

from ptxbench.analysis.statistics import estimate
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_gpu
from ptxbench.energy.steady import steady_power_w
from ptxbench.experiment.load import Load, prepare_load
from ptxbench.experiment.sensor_choice import sensors_for
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.folder_kind import MANIFEST, Kind
from ptxbench.storage.location import require_place
from ptxbench.storage.manifest import new_manifest, write_manifest

DURATIONS_S = (0.03, 0.1, 0.3, 1.0, 3.0)
_REPEATS = 5
_SEED = 5
_REFERENCE_S = 2.0
# Idle time before every measurement, of any tool; by chance up to one slow refresh longer.
_REST_S = 0.4
_REFRESH_S = 0.1
# Short kernels are repeated to fill this, as `ptxbench doctor methods` recommends.
_FILL_S = 0.5


@dataclass(frozen=True, kw_only=True)
class ToolsPart:
    """What was compared."""

    tools: list[str]
    left_out: list[str]
    steady_w: dict[str, float]
    steady_spread_pct: dict[str, float]
    reference: str
    repeats: int
    seed: int


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
        write_csv(self._folder / "readings.csv", Reading, readings)
        write_csv(self._folder / "summary.csv", Summary, summarize(readings))
        part = ToolsPart(
            tools=[tool.name for tool in self.tools],
            left_out=self.left_out,
            steady_w={source: level.mean for source, level in levels.items()},
            steady_spread_pct={source: 100 * level.ci95 / level.mean for source, level in levels.items()},
            reference=f"steady power by {self._best.source} x duration",
            repeats=repeats,
            seed=_SEED,
        )
        sensors = tuple(self._sensors)
        manifest = new_manifest(Kind.STUDY, part, (self._gpu.info,), sensors, self._created)
        write_manifest(self._folder / MANIFEST, manifest)

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
    parser.add_argument("--sensor", type=Path, help="folder of `ptxbench doctor sensor`")
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

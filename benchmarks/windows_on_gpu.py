"""Whether 95% intervals of `EnergyMonitor` hold the truth on a real GPU: windows around an FMA load.

    python benchmarks/windows_on_gpu.py --gpu 0 --out windows.json

In rounds, each of a long launch of 2.6 s and one window of each length, in an order drawn by chance, each
after a second of idle. It takes two minutes at most, and stops before the round that would take longer.

**The truth** is the power of the same kernel x its time, by the long launches: their course from 0.04 s after
the launch on, for the board warms and draws more. It is taken between the long launches before and after the
window. Its own error is by how much a long launch differs from its two neighbours, in the same time since the
launch, and 2% of what was drawn in the first 0.04 s, which no source shows well. An interval holds the truth
where they differ by no more than both together; how often the interval alone does is printed beside it.

The long launches are read by the best power source, whose gain the windows share: a wrong gain does not show.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from energy_tools import Kernel, run_marked

import ptxbench
from ptxbench.api.monitor import Window
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.estimate import COVERAGE_FACTOR, finite
from ptxbench.devices import base
from ptxbench.energy.window_values import values_of
from ptxbench.experiment.load import Load, prepare_load
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import Float64s, KernelWindow
from ptxbench.storage.atomic import write_text

LENGTHS_S = (0.1, 0.2, 0.5, 1.0, 2.0)
_LONG_S = 2.6
_REST_S = 1.0
_REFRESH_S = 0.1
# What is not shown well behind a launch, and how well it is known.
_EARLY_S, _EARLY = 0.04, 0.02
_MOST_S = 115.0
_SEED = 3


@dataclass(frozen=True)
class Course:
    """The power of a long launch.

    Attributes:
        at_s: Time since the launch, shape (n,).
        power_w: Power then.
        idle_w: Power before it.
        began_s: When it was launched, in the session's time.
    """

    at_s: Float64s
    power_w: Float64s
    idle_w: float
    began_s: float

    def energy_j(self, length_s: float) -> float:
        """Return the energy of the first so many seconds."""
        known = self.at_s >= _EARLY_S
        at_s = np.concatenate(([0.0], self.at_s[known], [max(length_s, _LONG_S)]))
        power_w = self.power_w[known]
        power_w = np.concatenate((power_w[:1], power_w, power_w[-1:]))
        until_j = np.concatenate(([0.0], np.cumsum(np.diff(at_s) * (power_w[1:] + power_w[:-1]) / 2)))
        return float(np.interp(length_s, at_s, until_j))


@dataclass(frozen=True)
class Measured:
    """A window beside the truth.

    Attributes:
        length_s: Length that was wanted.
        began_s: When, in the session's time.
        window_s: Time of the monitor's window.
        kernel_s: Time of the kernel by the GPU's own events.
        energy_j: What the monitor found.
        interval_j: Its 95% interval.
        status: Its status.
        notes: What it said.
        truth_j: The truth.
        truth_error_j: Its standard error.
    """

    length_s: float
    began_s: float
    window_s: float
    kernel_s: float
    energy_j: float
    interval_j: tuple[float, float]
    status: str
    notes: tuple[str, ...]
    truth_j: float
    truth_error_j: float

    @property
    def half_j(self) -> float:
        """Half-width of the interval."""
        return (self.interval_j[1] - self.interval_j[0]) / 2

    def held(self, *, beside_truth: bool) -> bool:
        """Whether the interval holds the truth, with the truth's own error or without."""
        allowed_j = math.hypot(self.half_j, COVERAGE_FACTOR * self.truth_error_j * beside_truth)
        return abs(sum(self.interval_j) / 2 - self.truth_j) <= allowed_j


class Session:
    """Long launches and windows on one GPU."""

    def __init__(self, gpu: base.Gpu, monitor: ptxbench.EnergyMonitor, load: Load) -> None:
        self._gpu, self._monitor, self._load = gpu, monitor, load
        self._chance = np.random.default_rng(_SEED)
        self._origin_ns = gpu.clock.now_ns()
        self._sensor = next(s for s in gpu.sensors if not s.counts_energy)
        self.courses: list[Course] = []
        self._windows: list[tuple[float, float, float, Window]] = []

    @property
    def now_s(self) -> float:
        """Time since the session began."""
        return (self._gpu.clock.now_ns() - self._origin_ns) / 1e9

    @property
    def sensor(self) -> SensorDescription:
        """The source of the long launches."""
        return self._sensor

    def run(self, rounds: int, most_s: float) -> int:
        """Run rounds, and return how many were done within the time."""
        done, longest_s = 0, 0.0
        self._long()
        while done < rounds and self.now_s + longest_s < most_s:
            began_s = self.now_s
            for length_s in self._chance.permutation(LENGTHS_S):
                self._window(float(length_s))
            self._long()
            longest_s = max(longest_s, self.now_s - began_s)
            done += 1
        return done

    def measured(self) -> list[Measured]:
        """Return the windows beside the truth."""
        return [self._beside_truth(*one) for one in self._windows]

    def _rest_s(self) -> float:
        return float(_REST_S + self._chance.uniform(0, _REFRESH_S))

    def _long(self) -> None:
        rest_s = self._rest_s()
        began_s = self.now_s + rest_s
        run = self._gpu.run(replace(self._load.launch("long", _LONG_S), before_s=rest_s))
        series = run.trace.of(self._sensor.source)
        if series is None or not len(series.good()):
            raise InputError(f"{self._sensor.source} gave nothing during a long launch")
        start_ns = run.window.start_ns
        window = KernelWindow(start_ns, run.window.end_ns, run.window.elapsed_s)
        values = values_of(series.good(), window, self._sensor)
        at_s = values.newest_s - values.mean_age_s
        inside = (values.newest_s - values.reach_s >= 0) & (values.newest_s <= window.elapsed_s)
        before = values.newest_s < 0
        idle_w = float(values.power_w[before].mean()) if before.any() else math.nan
        self.courses.append(Course(at_s[inside], values.power_w[inside], idle_w, began_s))

    def _window(self, length_s: float) -> None:
        kernel = Kernel(self._load.launch("window", length_s), length_s, self._rest_s())
        opened = self._monitor.window(f"{length_s:g} s")
        began: list[tuple[float, Window]] = []

        def begin() -> None:
            began.append((self.now_s, opened.__enter__()))

        (window,) = run_marked(self._gpu, kernel, 1, begin, lambda: opened.__exit__(None, None, None))
        self._windows.append((length_s, began[0][0], window.elapsed_s, began[0][1]))

    def _beside_truth(self, length_s: float, began_s: float, kernel_s: float, window: Window) -> Measured:
        found = window.result()
        (gpu,) = found.gpus
        before = max(i for i, one in enumerate(self.courses[:-1]) if one.began_s <= began_s)
        pair = self.courses[before : before + 2]
        way = (began_s - pair[0].began_s) / (pair[1].began_s - pair[0].began_s)
        both_j = [one.energy_j(kernel_s) for one in pair]
        # Host time before the kernel began and after it ended passed at idle.
        idle_j = pair[0].idle_w * (found.time_s - kernel_s)
        truth_j = (1 - way) * both_j[0] + way * both_j[1] + idle_j
        each_j = np.array([one.energy_j(kernel_s) for one in self.courses])
        # With two of them their difference is all that tells.
        off_j = np.diff(each_j, 2) / 2 if len(each_j) > 2 else np.diff(each_j)
        scatter_j = float(np.sqrt((off_j**2).mean()))
        early_j = _EARLY * pair[0].energy_j(min(_EARLY_S, kernel_s))
        return Measured(
            length_s,
            began_s,
            found.time_s,
            kernel_s,
            gpu.energy_j,
            gpu.interval_j,
            str(gpu.status),
            found.notes,
            truth_j,
            math.hypot(scatter_j, early_j),
        )


def lines(found: Sequence[Measured]) -> list[str]:
    """Return the table."""
    said = [
        f"{'s':>5} {'truth, J':>9} {'+-':>6} {'found, J':>9} {'+-':>6} {'error':>8}  held  by itself  status"
    ]
    for one in sorted(found, key=lambda one: (one.length_s, one.began_s)):
        held, alone = (one.held(beside_truth=beside) for beside in (True, False))
        truth = f"{one.length_s:5g} {one.truth_j:9.2f} {COVERAGE_FACTOR * one.truth_error_j:6.2f}"
        said.append(
            f"{truth} {one.energy_j:9.2f} {one.half_j:6.2f} {one.energy_j / one.truth_j - 1:+8.2%}"
            f"  {'yes' if held else 'NO':4}  {'yes' if alone else 'no':9}  {one.status}"
        )
    for length_s in (*LENGTHS_S, None):
        some = [one for one in found if length_s in (one.length_s, None)]
        half, truth = (
            np.mean([value / one.truth_j for one, value in pairs])
            for pairs in (
                [(one, one.half_j) for one in some],
                [(one, COVERAGE_FACTOR * one.truth_error_j) for one in some],
            )
        )
        held, alone = (sum(one.held(beside_truth=beside) for one in some) for beside in (True, False))
        name = "all" if length_s is None else f"{length_s:g} s"
        said.append(
            f"{name:>5}: {held} of {len(some)} held, {alone} by the interval alone;"
            f" mean half-width {half:.2%}, of the truth {truth:.2%}"
        )
    return said


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID, or simulated[:PROFILE]")
    parser.add_argument("--out", type=Path, required=True, help="JSON file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most-s", type=float, default=_MOST_S, help="time on the GPU, s (default: 115)")
    chosen = parser.parse_args(arguments)
    began_s = time.monotonic()
    with ptxbench.open_gpu(chosen.gpu) as gpu, ptxbench.EnergyMonitor(gpu) as monitor:
        device = gpu._device
        load = prepare_load(device)
        session = Session(device, monitor, load)
        spent_s = time.monotonic() - began_s
        rounds = session.run(chosen.rounds, chosen.most_s - (spent_s if gpu.is_real else 0.0))
        found = session.measured()
    print(f"{gpu.info.title}, driver {gpu.info.driver}, {rounds} rounds, truth by {session.sensor.source}")
    print("\n".join(lines(found)))
    document = {
        "gpu": asdict(gpu.info) | {"max_power_limit_w": finite(gpu.info.max_power_limit_w)},
        "version": ptxbench.__version__,
        "sensor": asdict(session.sensor),
        "sms": load.sm_count,
        "windows": [
            asdict(one) | {"held": one.held(beside_truth=True), "held_alone": one.held(beside_truth=False)}
            for one in found
        ],
        "courses": [
            {
                "began_s": one.began_s,
                "idle_w": finite(one.idle_w),
                "at_s": one.at_s.round(4).tolist(),
                "power_w": one.power_w.round(2).tolist(),
            }
            for one in session.courses
        ],
    }
    write_text(chosen.out, json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as problem:
        print(f"windows_on_gpu: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)

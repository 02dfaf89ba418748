"""A kernel at the power limit, by short windows and by long ones, read the old way and the new.

    python runners/compare_windows.py --gpu 0 --out windows --seconds 75

The variant of least energy of a kept tuning (f16, 8192 cubed) is measured five times from windows of 0.4 s
and five times from windows of 5 s, in turn. The old way takes the mean of the window, as it is; the new one
runs until clock and power have settled, and takes the later half. --out gets windows.json, with the course of
power of each window, and windows.txt. No measurement begins after --seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ptxbench.analysis.throttling import slowing_reasons
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_gpu
from ptxbench.energy.settled import SourceCheck, settled_power
from ptxbench.energy.steady import taken_between
from ptxbench.experiment.sensor_choice import board_sensor
from ptxbench.experiment.settled_run import BoardLimits, launches_in, run_until_settled
from ptxbench.report.text_table import Column, Kind, render_table
from ptxbench.sensors.kernel_run import KernelRun
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.tune.analysis import analyse
from ptxbench.tune.folder import TuningFolder
from ptxbench.tune.gemm import Gemm
from ptxbench.tune.kernel import Refused
from ptxbench.tune.variant import Problem, Variant
from ptxbench.tune.variant_runner import short_timing_s

KEPT = Path(__file__).parents[1] / "results" / "nvidia-h100" / "tunings" / "gemm-f16-sizes" / "08192"
_WINDOWS_S = (0.4, 5.0)
_OLD, _NEW = "old", "new"
_SEED = 3


@dataclass(frozen=True)
class Measurement:
    """One measurement of the kernel.

    Attributes:
        way: "old" or "new".
        window_s: Window that was begun with.
        gpu_s: Seconds of launches that it took.
        power_w: Power, NaN where there is none.
        power_error_w: Standard error of it.
        launch_s: Time of a launch.
        energy_j: Energy of a launch.
        clock_mhz: SM clock right after it.
        temperature_c: Temperature right after it.
        capped: Whether the power limit held the clock down.
        reason: Why it does not count, "" where it does.
        course_w: Readings of the window that counts, in the order of time; of the old way only.
        launch_times_s: Mean time of a launch in each stretch of that window.
    """

    way: str
    window_s: float
    gpu_s: float
    power_w: float
    power_error_w: float
    launch_s: float
    energy_j: float
    clock_mhz: float
    temperature_c: float
    capped: bool
    reason: str
    course_w: tuple[float, ...]
    launch_times_s: tuple[float, ...]


def main() -> int:
    """Measure, write, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="0", help="index, UUID or simulated[:profile]")
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument(
        "--tuning", type=Path, default=KEPT, help="kept tuning whose best variant is measured"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", type=int, help="m, n and k (default: those of the tuning)")
    parser.add_argument("--seconds", type=float, default=75.0, help="begin no measurement later than this")
    arguments = parser.parse_args()
    try:
        gpu = open_gpu(arguments.gpu)
        try:
            return _compare(gpu, arguments)
        finally:
            gpu.close()
    except PtxbenchError as error:
        print(f"compare_windows: {error}", file=sys.stderr)
        return error.exit_code


def _compare(gpu: Gpu, arguments: argparse.Namespace) -> int:
    folder = TuningFolder.read(arguments.tuning)
    problem = folder.manifest.part.problem
    found = analyse(tuple(folder.trials.values()), problem)
    if found is None or not isinstance(problem, Problem) or not isinstance(found.best.trial.variant, Variant):
        raise InputError(f"{arguments.tuning} holds no variant of a matrix product")
    if arguments.size:
        problem = replace(problem, m=arguments.size, n=arguments.size, k=arguments.size)
    arguments.out.mkdir(parents=True, exist_ok=True)
    made = measured(gpu, Gemm(problem), found.best.trial.variant, arguments.repeats, arguments.seconds)
    document = {
        "gpu": asdict(gpu.info),
        "problem": problem.title,
        "variant": found.best.name,
        "measurements": [codec.encode(one) for one in made],
    }
    write_text(arguments.out / "windows.json", json.dumps(document, indent=1) + "\n")
    text = f"{gpu.info.title}: {problem.title}, {found.best.name}\n{table(made)}\n"
    write_text(arguments.out / "windows.txt", text)
    print(text, end="")
    return 0 if made else 1


def measured(
    gpu: Gpu, tunable: Gemm, variant: Variant, repeats: int, seconds: float
) -> tuple[Measurement, ...]:
    """Return the measurements of a variant, both ways from each window."""
    built = tunable.build(variant, gpu.info.target)
    if isinstance(built, Refused):
        raise InputError(f"{variant.name}: {built.reason}")
    launch = tunable.launch(built)
    time_s = short_timing_s(lambda times: gpu.time_s(replace(launch, times=times)))
    source = SourceCheck(board_sensor(gpu.sensors), gpu.sensors)
    rng, began_s = np.random.default_rng(_SEED), time.monotonic()
    found: list[Measurement] = []
    for window_s in _WINDOWS_S * repeats:
        if time.monotonic() - began_s > seconds:
            break
        runs: list[tuple[KernelRun, int]] = []

        def attempt(length_s: float, runs: list[tuple[KernelRun, int]] = runs) -> tuple[KernelRun, int]:
            times = launches_in(length_s, time_s)
            runs.append((gpu.run(replace(launch, times=times)), times))
            return runs[-1]

        # In which phase of its regulation a board is hangs on what it did before.
        gpu.clock.sleep_s(float(rng.uniform(0.1, 1.0)))
        run, result = run_until_settled(attempt, window_s, source, BoardLimits.of(gpu.info))
        found.append(_by_old_way(window_s, *runs[0], source, BoardLimits.of(gpu.info)))
        found.append(
            Measurement(
                _NEW,
                window_s,
                sum(one.window.elapsed_s for one, _ in runs),
                result.power.power_w,
                result.power.standard_error_w,
                result.launch_s,
                result.power.power_w * result.launch_s,
                run.after.sm_clock_mhz,
                run.after.temperature_c,
                result.slowed,
                result.unsettled or result.power.reason,
                (),
                run.window.launch_times_s,
            )
        )
    return tuple(found)


def _by_old_way(
    window_s: float, run: KernelRun, times: int, source: SourceCheck, board: BoardLimits
) -> Measurement:
    """Return what the first window says as it is."""
    window, sensor = run.window, source.sensor
    power = settled_power(run.trace, window, sensor, board.max_w, even=False).power
    series = run.trace.of(sensor.source)
    course_w: tuple[float, ...] = ()
    if series is not None:
        good = series.good()
        inside = taken_between(good, window.start_ns, window.end_ns)
        course_w = tuple(map(float, good.select(inside).value))
    launch_s = window.elapsed_s / times
    return Measurement(
        _OLD,
        window_s,
        window.elapsed_s,
        power.power_w,
        power.standard_error_w,
        launch_s,
        power.power_w * launch_s,
        run.after.sm_clock_mhz,
        run.after.temperature_c,
        slowing_reasons(run.throttle_reasons, power.power_w, board.set_w) != 0,
        power.reason,
        course_w,
        window.launch_times_s,
    )


def table(made: Sequence[Measurement]) -> str:
    """Return a line for each way and window: the means, and from where to where they go."""
    names = (
        "way",
        "window s",
        "n",
        "power W",
        "from",
        "to",
        "launch ms",
        "energy J",
        "from J",
        "to J",
        "spread",
    )
    rows = []
    for way in (_OLD, _NEW):
        for window_s in _WINDOWS_S:
            kept = [m for m in made if (m.way, m.window_s) == (way, window_s) and not m.reason]
            if not kept:
                continue
            power_w, energy_j = ([getattr(m, name) for m in kept] for name in ("power_w", "energy_j"))
            mean_j = float(np.mean(energy_j))
            rows.append(
                (
                    *(way, f"{window_s:g}", str(len(kept)), f"{np.mean(power_w):.1f}"),
                    *(f"{min(power_w):.1f}", f"{max(power_w):.1f}"),
                    f"{1e3 * np.mean([m.launch_s for m in kept]):.3f}",
                    *(f"{mean_j:.4g}", f"{min(energy_j):.4g}", f"{max(energy_j):.4g}"),
                    f"{(max(energy_j) - min(energy_j)) / mean_j:.1%}",
                )
            )
    lost = [f"{m.way} {m.window_s:g} s: {m.reason}" for m in made if m.reason]
    columns = [Column(name, Kind.TEXT if name == "way" else Kind.NUMBER) for name in names]
    return "\n".join((render_table(columns, rows, None), *lost))


if __name__ == "__main__":
    sys.exit(main())

"""Power over the clock without setting a clock: a matrix kernel on ever more SMs, slowed by the power limit.

    python runners/ridge_by_cap.py --gpu 0 --out FOLDER [--instruction NAME] [--steps 16] [--seconds 1.0]
    ptxbench clocks ridge --samples FOLDER/samples.csv

On few SMs the kernel runs at the highest clock; on more of them the power limit lowers it. Nothing is set.
All slowed runs draw the limit, so the dynamic energy of a pass is compared, which goes with the voltage
squared: samples.csv has the power that the whole chip would draw at each clock, P_static + E_pass passes/s.
P_static, with what an active chip draws beside, is where the line through the power of the runs at the
highest clock meets no SM. runs.csv has the runs themselves, written one by one. The temperature is not
corrected for. The core voltage is read beside where `nvidia-smi` tells it; no setting is changed.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ptxbench.cli.chosen_gpu import open_chosen_gpu
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.status import Status
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_settable
from ptxbench.energy.steady import steady_power_w
from ptxbench.experiment.clock_sweep import looking
from ptxbench.experiment.load import Load, full_load
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.model.clocks.ridge import PowerSample, power_samples_csv
from ptxbench.storage.atomic import write_text

INSTRUCTION = "mma.m16n8k16.f32.bf16.bf16.f32"
_FEWEST_SHARE = 0.2
# Runs within this fraction of the highest clock count as free.
_FREE = 0.005


@dataclass(frozen=True)
class CappedRun:
    """One run on some SMs.

    Attributes:
        sms: SMs that ran the kernel.
        clock_mhz: Mean SM clock.
        power_w: Power.
        pass_s: Time of a pass of the loop.
        temperature_c: Temperature right after it.
        throttle_reasons: NVML's clocks event reasons during it.
        voltage_mv: Core voltage during it; NaN where `nvidia-smi` does not tell it.
    """

    sms: int
    clock_mhz: float
    power_w: float
    pass_s: float
    temperature_c: float
    throttle_reasons: int
    voltage_mv: float


def measure(
    gpu: Gpu, load: Load, sms: int, seconds: float, voltage_mv: Callable[[], float]
) -> CappedRun | None:
    """Run the load on some SMs; None where its power could not be read."""
    sensor = choose_sensor(gpu, None)
    launch = load.launch(f"sms-{sms}", seconds, sms / load.sm_count)
    run, seen_mv = looking(voltage_mv, lambda: gpu.run(launch))
    series = run.trace.of(sensor.source)
    reading = None if series is None else steady_power_w(series, run.window, sensor)
    if reading is None or reading.status is not Status.OK:
        return None
    clock_mhz = run.window.clock_mhz
    pass_s = run.window.elapsed_s / launch.iterations
    after = run.after.temperature_c
    return CappedRun(launch.grid, clock_mhz, reading.power_w, pass_s, after, run.throttle_reasons, seen_mv)


def whole_chip(runs: Sequence[CappedRun], sm_count: int) -> tuple[float, tuple[PowerSample, ...]]:
    """Return the power that no SM adds to, W, and the power of the whole chip at each clock.

    Raises:
        PtxbenchError: Fewer than two numbers of SMs ran at the highest clock.
    """
    highest_mhz = max(run.clock_mhz for run in runs)
    free = [run for run in runs if run.clock_mhz >= (1 - _FREE) * highest_mhz]
    if len({run.sms for run in free}) < 2:
        raise PtxbenchError("fewer than two runs kept the highest clock: begin with fewer SMs")
    _, base_w = np.polyfit([run.sms for run in free], [run.power_w for run in free], 1)
    return float(base_w), tuple(
        PowerSample(
            run.clock_mhz, float(base_w) + (run.power_w - float(base_w)) * sm_count / run.sms, run.voltage_mv
        )
        for run in runs
    )


def main() -> int:
    """Run, keep each run, and write the samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gpu", help="as for ptxbench")
    parser.add_argument("--out", type=Path, required=True, help="folder, new or empty")
    parser.add_argument("--instruction", default=INSTRUCTION, help="catalogue name of a matrix instruction")
    parser.add_argument("--steps", type=int, default=16, help="numbers of SMs")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each run")
    options = parser.parse_args()
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"{options.out} is not empty; name a new folder")
    options.out.mkdir(parents=True, exist_ok=True)
    gpu = open_chosen_gpu(options.gpu)
    with ExitStack() as stack:
        stack.callback(gpu.close)
        write_text(options.out / "gpu.json", json.dumps(asdict(gpu.info), indent=1) + "\n")
        settable = stack.enter_context(open_settable(gpu))
        load, sm_count = full_load(gpu, options.instruction), gpu.info.sm_count
        counts = np.unique(np.linspace(_FEWEST_SHARE * sm_count, sm_count, options.steps).round().astype(int))
        runs = []
        with (options.out / "runs.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, CappedRun.__dataclass_fields__, lineterminator="\n")
            writer.writeheader()
            # Up and down, so that the chip is as warm for few SMs as for many.
            for sms in (*counts, *counts[::-1]):
                run = measure(gpu, load, int(sms), options.seconds, settable.core_voltage_mv)
                if run is not None:
                    writer.writerow(asdict(run))
                    file.flush()
                    runs.append(run)
                    print(f"{run.sms} SMs: {run.clock_mhz:.0f} MHz, {run.power_w:.1f} W", file=sys.stderr)
    base_w, samples = whole_chip(runs, sm_count)
    write_text(options.out / "samples.csv", power_samples_csv(samples))
    print(
        f"{gpu.info.name}: {len(runs)} runs, {base_w:.1f} W beside the SMs; "
        "samples.csv is for ptxbench clocks ridge"
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        sys.exit(f"ridge_by_cap: {error}")

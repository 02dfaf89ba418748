"""Power of one load at several SM clocks, for the ridge point."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TypeVar

from ptxbench.core.errors import LaunchError
from ptxbench.core.gpu_settings import CLOCK_STEP_MHZ, GpuSettings, evenly
from ptxbench.devices.base import Gpu
from ptxbench.devices.settings import SettableGpu, applied
from ptxbench.energy.settled import SourceCheck
from ptxbench.experiment.load import Load, prepare_load
from ptxbench.experiment.sensor_choice import choose_sensor, default_window_s
from ptxbench.experiment.settled_run import BoardLimits, run_until_settled
from ptxbench.model.clocks.ridge import PowerSample
from ptxbench.sensors.kernel_run import KernelRun

Say = Callable[[str], None]

_LOG = logging.getLogger(__name__)
# Between two readings of the core voltage; each starts nvidia-smi.
_LOOK_S = 0.2
_T = TypeVar("_T")


def sweep_clocks(
    gpu: Gpu, settable: SettableGpu, count: int, say: Say, *, allowed: bool
) -> tuple[PowerSample, ...]:
    """Set clocks evenly over the supported ones, and the one of now, run the load at each, and restore it.

    Args:
        gpu: What runs the load.
        settable: The same board.
        count: How many clocks.
        say: Told when the GPU is set and restored.
        allowed: Whether the user gave --allow-settings.

    Raises:
        GpuError: NVML refuses, another process is on the GPU, or a load did not run.
        InputError: It is not allowed.
        LaunchError: The power of a load could not be read.
    """
    clocks = settable.choices().clocks
    # With no clock to set, `applied` says so.
    every = clocks[-1].sm_clocks_mhz if clocks else (0,)
    now_mhz = settable.settings().sm_clock_mhz
    picked = evenly(every, count, now_mhz)[::-1]
    settings = [GpuSettings(sm_clock_mhz=clock_mhz) for clock_mhz in picked]
    with applied(settable, settings[0], say, allowed=allowed) as set_clock:
        return sample_clocks(gpu, settings, set_clock, settable.core_voltage_mv)


def sample_clocks(
    gpu: Gpu,
    settings: Sequence[GpuSettings],
    apply: Callable[[GpuSettings], None],
    voltage_mv: Callable[[], float] = lambda: math.nan,
) -> tuple[PowerSample, ...]:
    """Run the load under settings that differ in the SM clock, the highest first.

    Args:
        gpu: What runs the load.
        settings: What to set for each sample.
        apply: Sets it.
        voltage_mv: Reads the core voltage while the load runs, NaN where it is not told.

    Raises:
        GpuError: A setting is refused, or a load did not run.
        LaunchError: The power of a load could not be read, or is not believed.
    """
    apply(settings[0])
    load, source = prepare_load(gpu), SourceCheck(choose_sensor(gpu, None), gpu.sensors)
    samples = []
    for one in settings:
        apply(one)
        sample, seen_mv = looking(voltage_mv, partial(_sample, gpu, load, source, one.sm_clock_mhz or 0))
        samples.append(replace(sample, voltage_mv=seen_mv))
    if source.objection:
        raise LaunchError(f"the powers cannot be believed: {source.objection}")
    return tuple(samples)


def looking(voltage_mv: Callable[[], float], run: Callable[[], _T]) -> tuple[_T, float]:
    """Read the core voltage while something runs: that of an idle GPU says nothing of its clock.

    Args:
        voltage_mv: Reads it, NaN where it is not told.
        run: What runs.

    Returns:
        What it returned, and the median of the later half of the voltages, mV; NaN where none was read.
    """
    seen_mv: list[float] = []
    over = threading.Event()

    def look() -> None:
        try:
            seen_mv.append(voltage_mv())
            while math.isfinite(seen_mv[-1]) and not over.wait(_LOOK_S):
                seen_mv.append(voltage_mv())
        except Exception as failure:
            _LOG.warning("the core voltage is not read on: %s: %s", type(failure).__name__, failure)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        found = run()
    finally:
        over.set()
        thread.join()
    return found, median(seen_mv[len(seen_mv) // 2 :] or [math.nan])


def _sample(gpu: Gpu, load: Load, source: SourceCheck, clock_mhz: int) -> PowerSample:
    def attempt(length_s: float) -> tuple[KernelRun, int]:
        # One pass takes longer at a lower clock, so that the window is never shorter than this.
        return gpu.run(load.launch(f"clock-{clock_mhz}", length_s)), 1

    window_s = default_window_s(source.sensor)
    run, result = run_until_settled(attempt, window_s, source, BoardLimits.of(gpu.info))
    why = result.unsettled or result.power.reason
    if why:
        raise LaunchError(f"the power at {clock_mhz} MHz could not be read: {why}")
    # No query tells a locked clock: the load does.
    if not result.slowed and abs(run.window.clock_mhz - clock_mhz) > CLOCK_STEP_MHZ:
        raise LaunchError(
            f"the load ran at {run.window.clock_mhz:.0f} MHz where {clock_mhz} MHz was set: clocks do not "
            "follow what is set here"
        )
    return PowerSample(run.window.clock_mhz, result.power.power_w)

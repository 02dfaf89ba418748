"""Whether the energy counter says what a power source adds up to, with the GPU idle and under load.

On some GPUs it does not: issue 181 of zeus (ml-energy/zeus) has 187 J by one and 327 J by the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ptxbench.core.status import Status
from ptxbench.devices.base import Gpu
from ptxbench.energy.counter_check import counter_power
from ptxbench.energy.steady import steady_power_w
from ptxbench.experiment.load import prepare_load
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Trace
from ptxbench.storage.doctor_file import CounterCheck
from ptxbench.storage.recording import Recording, RecordingFolder, RecordingManifest

PURPOSE = "doctor"
_RECORDING = "idle-and-load"
# The chip falls back to its idle clocks some seconds after a load.
_SETTLE_S = 3.0
_IDLE_S = 4.0
_LOAD_S = 3.0
_NS_PER_S = 1e9


def record_counter(gpu: Gpu, path: Path, sensors: Sequence[SensorDescription]) -> tuple[CounterCheck, ...]:
    """Record an idle stretch and a load of even power into a new folder, and compare.

    Args:
        gpu: A real or simulated GPU; about ten seconds pass.
        path: The folder.
        sensors: What is known of its sources, best for steady power first.

    Returns:
        As `compare_counter`.

    Raises:
        GpuError: The kernel did not run, or the GPU stopped answering.
        InputError: The folder cannot be written.
        ToolError: The assembler or the disassembler is missing.
    """
    load = prepare_load(gpu)
    manifest = RecordingManifest.new(gpu.info, gpu.clock, PURPOSE, tuple(sensors), _SETTLE_S, load.sm_count)
    with RecordingFolder.create(path, manifest) as folder:
        module = load.module
        folder.kernels.add(module.instruction.name, module.ptx, module.listing, module.cubin)
        gpu.clock.sleep_s(_SETTLE_S)
        launch = replace(load.launch(_RECORDING, _LOAD_S), before_s=_IDLE_S)
        folder.add(_RECORDING, gpu.run_sequence([launch], []))
        folder.finish()
        return compare_counter(folder.recordings[0], folder.trace(_RECORDING), sensors)


def compare_counter(
    recording: Recording, trace: Trace, sensors: Sequence[SensorDescription]
) -> tuple[CounterCheck, ...]:
    """Return the counter beside the best other source; a stretch that either has no power of is left out.

    Args:
        recording: One idle stretch and one load after it.
        trace: Its readings.
        sensors: What is known of the sources, best for steady power first.
    """
    boards = [s for s in sensors if not s.counts_energy and s.is_of_board]
    if not boards or SourceName.COUNTER not in {s.source for s in sensors}:
        return ()
    (window,) = recording.windows
    stretches = {
        "idle": (recording.begin_ns, window.start_ns),
        "under load": (window.start_ns, window.end_ns),
    }
    found = (_compare(load, _window(*times), trace, boards[0]) for load, times in stretches.items())
    return tuple(check for check in found if check is not None)


def _compare(load: str, whole: KernelWindow, trace: Trace, sensor: SensorDescription) -> CounterCheck | None:
    series = trace.of(sensor.source)
    if series is None:
        return None
    power = steady_power_w(series, whole, sensor)
    settled = _window(whole.start_ns + round(sensor.settle_s * _NS_PER_S), whole.end_ns)
    counted = counter_power(trace, settled)
    if counted is None or power.status is not Status.OK:
        return None
    error_w = math.hypot(power.standard_error_w, counted.standard_error_w)
    span_s = whole.elapsed_s
    return CounterCheck(
        load, span_s, counted.power_w * span_s, power.power_w * span_s, error_w * span_s, sensor.source
    )


def _window(start_ns: int, end_ns: int) -> KernelWindow:
    return KernelWindow(start_ns, end_ns, (end_ns - start_ns) / _NS_PER_S)

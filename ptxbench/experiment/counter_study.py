"""Whether the energy counter says what a power source adds up to, with the GPU idle and under load.

On some GPUs it does not: issue 181 of zeus (ml-energy/zeus) has 187 J by one and 327 J by the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ptxbench.devices.base import Gpu
from ptxbench.energy.gate.comparison import Comparison, compare, joined
from ptxbench.energy.gate.kernel import believed_counter
from ptxbench.energy.gate.recording import judge_recording
from ptxbench.energy.gate.source import judge_source
from ptxbench.energy.gate.verdict import UNJUDGED, SourceVerdict
from ptxbench.experiment.load import prepare_load
from ptxbench.experiment.recordings import open_recordings
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, KernelWindow, Trace
from ptxbench.storage.doctor_file import CounterCheck
from ptxbench.storage.recording import Recording

PURPOSE = "doctor"
_RECORDING = "idle-and-load"
# The chip falls back to its idle clocks some seconds after a load.
_SETTLE_S = 3.0
_IDLE_S = 4.0
_LOAD_S = 3.0


@dataclass(frozen=True)
class CounterStudy:
    """The energy counter beside the best other source of power.

    Attributes:
        checks: One a stretch, idle and under load.
        source: What both together say of the source.
    """

    checks: tuple[CounterCheck, ...]
    source: SourceVerdict


def record_counter(gpu: Gpu, path: Path, sensors: Sequence[SensorDescription]) -> CounterStudy:
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
    with open_recordings(gpu, PURPOSE, path, load=load, sensors=sensors, waited_s=_SETTLE_S) as folder:
        gpu.clock.sleep_s(_SETTLE_S)
        launch = replace(load.launch(_RECORDING, _LOAD_S), before_s=_IDLE_S)
        folder.add(_RECORDING, gpu.run_sequence([launch], []))
        folder.finish()
        trace = folder.trace(_RECORDING)
        return compare_counter(folder.recordings[0], trace, sensors, gpu.info.max_power_w)


def compare_counter(
    recording: Recording, trace: Trace, sensors: Sequence[SensorDescription], max_power_w: float
) -> CounterStudy:
    """Return the counter beside the best other source; a stretch that either has no power of is left out.

    Args:
        recording: One idle stretch and one load after it.
        trace: Its readings.
        sensors: What is known of the sources, best for steady power first.
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.
    """
    boards = [s for s in sensors if not s.counts_energy and s.is_of_board]
    verdict = judge_recording(trace, boards[0], max_power_w, recording.windows) if boards else None
    counter = believed_counter(trace, max_power_w)
    if verdict is None or counter is None:
        return CounterStudy((), UNJUDGED)
    if verdict.readings.objection:
        return CounterStudy((), replace(UNJUDGED, objection=verdict.readings.objection))
    (window,) = recording.windows
    stretches = {
        "idle": KernelWindow.spanning(recording.begin_ns, window.start_ns),
        "under load": window,
    }
    found = {
        load: joined(compare(verdict.readings.believed, counter, boards[0], where))
        for load, where in stretches.items()
    }
    checks = tuple(_check(load, one, boards[0]) for load, one in found.items() if one is not None)
    return CounterStudy(checks, judge_source(verdict.comparisons))


def _check(load: str, compared: Comparison, sensor: SensorDescription) -> CounterCheck:
    span_s = (compared.end_ns - compared.start_ns) / NS_PER_S
    energies = compared.counter_j, compared.source_j, compared.error_j
    return CounterCheck(load, span_s, *energies, sensor.source)

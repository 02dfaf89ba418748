"""Run a coded burst on a GPU beside a run, so that a meter's clock can be found without doubt."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

from ptxbench.devices.base import Gpu
from ptxbench.energy.gate.recording import believed_trace, notes_on_source
from ptxbench.experiment.load import prepare_load
from ptxbench.experiment.recordings import open_recordings
from ptxbench.meter.host import BURST_LABEL
from ptxbench.meter.sync_pulse import BurstPattern, burst_pattern
from ptxbench.storage.recording import RecordingFolder

# Idle time on either side: the meter must see the first and the last edge stand clear.
_QUIET_S = 0.5


def record_burst(gpu: Gpu, path: Path | None = None, pattern: BurstPattern | None = None) -> RecordingFolder:
    """Play a burst and keep when its load ran, with the readings taken meanwhile.

    Host time goes on from process to process until the machine restarts, so another process than the run's
    may run the burst.

    Args:
        gpu: A real or simulated GPU; it is busy for a few seconds.
        path: Folder, or None for the default below results/ (or runs/ where nothing is measured).
        pattern: What to play; None: the default of `burst_pattern`.

    Returns:
        The folder, which holds one recording: `ptxbench.meter.host.log_from_run` takes its windows.

    Raises:
        GpuError: The kernel did not run, or the GPU stopped answering.
        InputError: The folder cannot be written.
        ReplayError: The GPU is a replayed run.
        ToolError: The assembler or the disassembler is missing.
    """
    load = prepare_load(gpu)
    folder = open_recordings(gpu, BURST_LABEL, path, load=load)
    planned = (pattern or burst_pattern()).windows(0)
    launches = [load.launch(f"{BURST_LABEL}-{n}", window.elapsed_s) for n, window in enumerate(planned)]
    launches[0] = replace(launches[0], before_s=_QUIET_S)
    launches[-1] = replace(launches[-1], after_s=_QUIET_S)
    gaps_s = [(later.start_ns - earlier.end_ns) * 1e-9 for earlier, later in pairwise(planned)]
    folder.add(BURST_LABEL, gpu.run_sequence(launches, gaps_s))
    folder.finish()
    return folder


def burst_notes(folder: RecordingFolder) -> tuple[str, ...]:
    """Return what may not be believed of the power sources that were read during a burst.

    Args:
        folder: What `record_burst` has recorded.
    """
    (recording,) = folder.recordings
    sensors, most_w = folder.manifest.sensors, folder.manifest.gpu.max_power_w
    trace, notes = believed_trace(folder.trace(recording.name), sensors, most_w)
    judged = [notes_on_source([(trace, recording.windows)], one, most_w) for one in sensors]
    return (*notes, *chain(*judged))

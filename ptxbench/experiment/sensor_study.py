"""Drives a square-wave load of many periods, so that every power source shows what it is like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from ptxbench.analysis.throttling import describe_throttling
from ptxbench.core.errors import GpuError, InputError
from ptxbench.devices.base import Gpu
from ptxbench.energy.gate.recording import believed_trace, notes_on_source
from ptxbench.experiment.load import Load, prepare_load
from ptxbench.experiment.recordings import open_recordings
from ptxbench.sensors.characterize.probe import probe
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.storage.document import write_document
from ptxbench.storage.recording import Recording, RecordingFolder
from ptxbench.storage.sensor_file import RULE, SENSOR_FILE, SensorFile

RECORDING = "square-wave"
PURPOSE = "sensor"
# Half-periods in s and how many periods of each: from 6 ms to 1.6 s, so that structure of any of these
# lengths is met often enough. The long ones find running means of a second, and noise under steady load.
_HALF_PERIODS = {1.6: 4, 1.0: 9, 0.4: 4, 0.2: 6, 0.1: 10, 0.05: 12, 0.025: 16, 0.012: 20, 0.006: 24}
# Each half is made longer or shorter by chance, so that no period beats with a refresh.
_SPREAD = (0.75, 1.3)
_SEED = 7
# Idle time on either side: longer than the running mean of a second.
_QUIET_S = 1.5
# Out of step with every refresh of whole milliseconds.
_POLL_S = 0.0013
# Long enough for the driver's own buffer to fill up; the longest seen keeps 2.4 s.
_WAIT_S = 4.0


@dataclass(frozen=True)
class Pulse:
    """One period of the load.

    Attributes:
        on_s: Time for which it is on.
        off_s: Time for which it is off then.
    """

    on_s: float
    off_s: float


def square_wave() -> tuple[Pulse, ...]:
    """Return the periods of the load, in an order drawn by chance but always the same."""
    rng = np.random.default_rng(_SEED)
    halves_s = np.repeat(list(_HALF_PERIODS), list(_HALF_PERIODS.values()))
    pulses_s = rng.permutation(halves_s)[:, None] * rng.uniform(*_SPREAD, (len(halves_s), 2))
    return tuple(Pulse(float(on_s), float(off_s)) for on_s, off_s in pulses_s)


def record_square_wave(gpu: Gpu, folder: RecordingFolder, load: Load, pulses: Sequence[Pulse]) -> None:
    """Record the load into a folder, from one wait before it to one after it.

    Raises:
        GpuError: The GPU stopped answering.
    """
    launches = [load.launch(f"pulse-{number}", pulse.on_s) for number, pulse in enumerate(pulses)]
    launches[0] = replace(launches[0], before_s=_QUIET_S)
    launches[-1] = replace(launches[-1], after_s=_QUIET_S)
    gpu.clock.sleep_s(folder.manifest.part.waited_s)
    run = gpu.run_sequence(launches, [pulse.off_s for pulse in pulses[:-1]], _POLL_S)
    folder.add(RECORDING, run)


def sense(gpu: Gpu, path: Path | None = None, *, resume: bool = False) -> tuple[SensorFile, Path]:
    """Measure what every power source of a GPU is like, and keep it.

    Args:
        gpu: A real or simulated GPU; it is loaded for about 25 s.
        path: Folder, or None for the default below results/ (or runs/ where nothing is measured).
        resume: Go on with the folder `path`: what it has recorded is not recorded again.

    Returns:
        The description, and the folder that holds it and the raw readings.

    Raises:
        GpuError: The kernel did not run, the GPU stopped answering, or no source followed the load.
        InputError: The folder cannot be written, or not be gone on with.
        ReplayError: The GPU is a replayed run.
        ToolError: The assembler or the disassembler is missing.
    """
    documented = tuple(sensor_for(sensor.source, gpu.info.target) for sensor in gpu.sensors)
    load = prepare_load(gpu)
    with open_recordings(
        gpu, PURPOSE, path, load=load, sensors=documented, waited_s=_WAIT_S, resume=resume
    ) as folder:
        if not folder.finished:
            if not folder.recordings:
                record_square_wave(gpu, folder, load, square_wave())
            folder.finish()
        document = describe(folder)
        write_document(folder.path / SENSOR_FILE, document)
    return document, folder.path


def throttling_notes(recording: Recording) -> tuple[str, ...]:
    """Return a sentence where the GPU slowed down within a recording."""
    slowed = [text for reasons in recording.throttle_reasons if (text := describe_throttling(reasons))]
    if not slowed:
        return ()
    return (
        f"{recording.name}: the GPU slowed down in {len(slowed)} of {len(recording.windows)} launches"
        f" ({slowed[0]}), so the load was not even",
    )


def describe(folder: RecordingFolder) -> SensorFile:
    """Work the description out from what a folder holds: pure arithmetic.

    Raises:
        GpuError: No power source followed the load.
        InputError: The folder holds no recording.
    """
    manifest = folder.manifest
    if not folder.recordings:
        raise InputError(f"{folder.path} holds no recording: measure again, or continue with `resume`")
    (recording,) = folder.recordings
    most_w = manifest.gpu.max_power_w
    trace, notes = believed_trace(folder.trace(recording.name), manifest.sensors, most_w)
    sources = probe(trace, recording.windows, manifest.sensors, manifest.part.waited_s)
    if all(math.isnan(source.needed_s) for source in sources):
        raise GpuError(
            "; ".join((f"no power source of {manifest.gpu.name} followed the load", *notes))
            + f"; see {folder.path}"
        )
    judged = [notes_on_source([(trace, recording.windows)], one.sensor, most_w) for one in sources]
    return SensorFile(
        manifest.gpu,
        sources,
        manifest.sensors,
        RULE,
        (*throttling_notes(recording), *notes, *chain(*judged)),
    )

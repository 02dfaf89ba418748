"""Folders of recordings: begun or gone on with by what measures, and worked out again without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.base import Gpu
from ptxbench.experiment.load import Load
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.document import write_document
from ptxbench.storage.location import default_run_path, require_free
from ptxbench.storage.recording import RecordingFolder, recording_manifest

T = TypeVar("T")


def open_recordings(
    gpu: Gpu,
    purpose: str,
    out: Path | None,
    *,
    load: Load | None = None,
    sensors: Sequence[SensorDescription] = (),
    waited_s: float = 0.0,
    resume: bool = False,
) -> RecordingFolder:
    """Begin a folder of recordings, or go on with one.

    Args:
        gpu: Whose they are.
        purpose: What they are for.
        out: The folder; None: a new one below results/, or below runs/ where nothing is measured.
        load: What is run, which the folder keeps; None: several kernels, which it is given later.
        sensors: What is known of the power sources, best for steady power first; none: as the GPU describes
            them.
        waited_s: Wait before the first recording in which no source is read.
        resume: Go on with `out`.

    Raises:
        InputError: The folder does not fit.
    """
    if resume and out is None:
        raise InputError("`resume` needs the folder: name it by `out`")
    known, sms = tuple(sensors) or gpu.sensors, load.sm_count if load else 0
    manifest = recording_manifest(gpu.info, gpu.clock, purpose, known, waited_s, sms)
    path = out or default_run_path(gpu.info, datetime.now(UTC), prefix=f"{purpose}-")
    folder = (RecordingFolder.resume if resume else RecordingFolder.create)(path, manifest)
    if load is not None and not folder.finished:
        module = load.module
        try:
            folder.kernels.add(module.instruction.name, module.ptx, module.listing, module.cubin)
        except BaseException:
            folder.close()
            raise
    return folder


def worked_out_again(
    folder: RecordingFolder, out: Path | None, name: str, work: Callable[[RecordingFolder], T]
) -> tuple[T, RecordingFolder]:
    """Work out again what recordings say; they are left as they are.

    Args:
        folder: The recordings.
        out: New folder for a copy of them with what was found; None: nothing is written.
        name: Name of the file that has it.
        work: Works it out.

    Returns:
        What was found, and the folder that it is about.

    Raises:
        InputError: The new folder cannot be written; `work` may raise others.
    """
    if out is not None:
        require_free(out, GpuKind.REPLAYED)
    found = work(folder)
    if out is None:
        return found, folder
    copy = folder.copy(out)
    write_document(out / name, found)
    return found, copy

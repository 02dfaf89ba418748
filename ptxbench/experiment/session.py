"""Start a run, or resume one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ptxbench.catalogue.own import own_files
from ptxbench.core.condition import DYNAMIC
from ptxbench.devices.base import Gpu
from ptxbench.devices.replay import ReplayGpu
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.folder_kind import Kind
from ptxbench.storage.location import default_run_path
from ptxbench.storage.manifest import Session, TablePart, new_manifest
from ptxbench.storage.run_folder import RunFolder


def start_run(
    gpu: Gpu,
    options: RunOptions,
    path: Path | None,
    sensors: Sequence[SensorDescription] = (),
    known_difference: float = 0.0,
) -> RunFolder:
    """Create the folder of a new run.

    A replay has the arguments of the recorded run where the options do not set others.

    Args:
        gpu: Where it will be measured.
        options: Options of the run.
        path: Folder, or None for the default below results/ (or runs/ where nothing is measured).
        sensors: What was measured about the power sources, best for steady power first; none: as the GPU
            describes them.
        known_difference: By how much power source and energy counter are known to differ, as a fraction.

    Raises:
        InputError: The folder cannot be made, an option is unknown, or a replayed run has no static power
            that all rows share.
    """
    recorded = gpu.manifest if isinstance(gpu, ReplayGpu) else None
    arguments = options.over(recorded.part.arguments) if recorded else options.complete(gpu, sensors)
    if isinstance(gpu, ReplayGpu) and DYNAMIC in arguments.protocols:
        gpu.require_shared_static()
    session = _new_session(gpu)
    place = path or default_run_path(gpu.info, session.start)
    if arguments.seed is not None:
        seed = arguments.seed
    else:
        seed = recorded.part.order_seed if recorded else secrets.randbits(32)
    part = TablePart(
        run_id=place.name,
        source=choose_sensor(gpu, arguments.source, sensors).source,
        arguments=arguments,
        order_seed=seed,
        sessions=(session,),
        known_difference=recorded.part.known_difference if recorded else known_difference,
        catalogue=own_files(arguments.instructions),
    )
    known = tuple(sensors) or gpu.sensors
    return RunFolder.create(place, new_manifest(Kind.TABLE, part, (gpu.info,), known, session.start))


def resume_run(gpu: Gpu, options: RunOptions, path: Path) -> RunFolder:
    """Open a run that was stopped.

    Args:
        gpu: Where the rest will be measured.
        options: Options; those that are not set stay as the run began.
        path: Folder of the run.

    Raises:
        InputError: The folder holds no run, or one of another board, driver or set of arguments.
    """
    with RunFolder.open(path) as recorded:
        arguments = options.over(recorded.manifest.part.arguments)
    return RunFolder.resume(path, gpu.info, arguments, _new_session(gpu))


def _new_session(gpu: Gpu) -> Session:
    """Return this process as a session of a run that begins now."""
    return Session(datetime.now(UTC), None, gpu.clock.epoch_ns() - gpu.clock.now_ns())

"""Runs kernels of many lengths and forms of power, so that the ways of reading power can be compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptxbench.devices.base import Gpu, Launch
from ptxbench.experiment.load import Load, prepare_load
from ptxbench.experiment.method_errors import compare
from ptxbench.experiment.recordings import open_recordings, worked_out_again
from ptxbench.experiment.sampling_cases import ALL_SHARES, Case, Reference
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.document import write_document
from ptxbench.storage.methods_file import METHODS_FILE, LoadKind, MethodsFile
from ptxbench.storage.recording import RecordingFolder
from ptxbench.storage.sensor_file import sensors_of

PURPOSE = "methods"
# Durations in s and how often each is run: where the refresh's phase matters more, more often.
RUNS = {0.001: 3, 0.003: 3, 0.01: 5, 0.03: 5, 0.1: 5, 0.3: 5, 1.0: 3, 3.0: 2, 10.0: 1}
_SEED = 11
# Idle time after a run: the slowest source must settle, and idle power be seen; at most this.
_MAX_QUIET_S = 3.0
_QUIET_REFRESHES = 3
# Before a run every source has settled already, so less is enough to see idle power: at most this.
_MAX_BEFORE_S = 1.5
# Behind the quiet time of a reference's begin: so long its power is read.
_REFERENCE_READINGS_S = 1.5
# The refreshes that most sources have; a run's begin is spread over both.
_REFRESH_S = 0.1
_FAST_REFRESH_S = 0.02


@dataclass(frozen=True)
class _Job:
    """One recording: its launches, idle time around them, and when within the slow refresh it begins."""

    name: str
    launches: list[Launch]
    gaps_s: list[float]
    before_s: float
    after_s: float
    phase_s: float = 0.0

    def launches_at(self, passed_s: float) -> list[Launch]:
        """Return the launches, given the time passed since the comparison began."""
        before_s = self.before_s + (self.phase_s - passed_s - self.before_s) % _REFRESH_S
        first, *others = self.launches
        launches = [replace(first, before_s=before_s), *others]
        return [*launches[:-1], replace(launches[-1], after_s=self.after_s)]


@dataclass(frozen=True)
class Progress:
    """How far a comparison is.

    Attributes:
        done: Recordings made.
        total: Recordings in all.
        name: The recording in progress.
        folder: Where the recordings go.
    """

    done: int
    total: int
    name: str
    folder: Path


def measure_methods(
    gpu: Gpu,
    path: Path | None = None,
    sensors: Sequence[SensorDescription] = (),
    on_progress: Callable[[Progress], None] = lambda _: None,
    runs: dict[float, int] | None = None,
    *,
    resume: bool = False,
    without: Collection[str] = (),
    on_lost: Callable[[Sequence[str]], None] = lambda _: None,
) -> tuple[MethodsFile, Path]:
    """Compare every method on every source, and keep the recordings.

    Every recording is on the disk before the next is made; `again` works out what they come to so far.

    Args:
        gpu: A real or simulated GPU; it is busy for some 90 s, and some six minutes pass.
        path: Folder, or None for the default below results/ (or runs/ where nothing is measured).
        sensors: What was measured about the sources; none: as the GPU describes them.
        on_progress: Called before every recording.
        runs: Durations in s and how often each is run; None: `RUNS`.
        resume: Go on with the recordings of the folder `path`, with the sensors that it lists.
        without: Names of runs to leave out: another board has made them. References are always made.
        on_lost: Called with the recordings whose readings are missing or damaged; they are made again.

    Returns:
        The comparison, and the folder that holds it and the raw readings.

    Raises:
        GpuError: The kernel did not run, or the GPU stopped answering.
        InputError: The folder cannot be written, or not be gone on with.
        ReplayError: The GPU is a replayed run.
        ToolError: The assembler or the disassembler is missing.
    """
    known = tuple(s for s in tuple(sensors) or gpu.sensors if s.is_of_board)
    load = prepare_load(gpu)
    with open_recordings(gpu, PURPOSE, path, load=load, sensors=known, resume=resume) as folder:
        if folder.lost:
            on_lost(folder.lost)
        if not folder.finished:
            jobs = _jobs(load, runs or RUNS, folder.manifest.sensors, without)
            _record(gpu, folder, jobs, on_progress)
            folder.finish()
        document = compare(folder)
        write_document(folder.path / METHODS_FILE, document)
    return document, folder.path


def _record(
    gpu: Gpu,
    folder: RecordingFolder,
    jobs: Sequence[_Job],
    on_progress: Callable[[Progress], None],
) -> None:
    """Make the recordings that the folder does not hold."""
    held = {recording.name for recording in folder.recordings}
    began_ns = gpu.clock.now_ns()
    for done, job in enumerate(jobs):
        if job.name in held:
            continue
        on_progress(Progress(done, len(jobs), job.name, folder.path))
        passed_s = (gpu.clock.now_ns() - began_ns) * 1e-9
        folder.add(job.name, gpu.run_sequence(job.launches_at(passed_s), job.gaps_s))
    on_progress(Progress(len(jobs), len(jobs), "", folder.path))


def again(
    folder: RecordingFolder, sensor_path: Path | None, out: Path | None = None
) -> tuple[MethodsFile, RecordingFolder]:
    """Work the comparison out again from a recorded folder, which is left as it is.

    Args:
        folder: What `measure_methods` has recorded, be it a part.
        sensor_path: Other descriptions of its sensors.
        out: New folder for a copy of the recordings with the new comparison; None: nothing is written.

    Returns:
        The comparison, and the folder that it is about.

    Raises:
        GpuError: No source followed the load.
        InputError: The descriptions are of another GPU, a file cannot be read, or the new folder written.
    """

    def work(folder: RecordingFolder) -> MethodsFile:
        manifest = folder.manifest
        return compare(folder, sensors_of(sensor_path, manifest.gpu, manifest.sensors) if sensor_path else ())

    return worked_out_again(folder, out, METHODS_FILE, work)


def phase_s(repeat: int, repeats: int) -> float:
    """Return where in the slow refresh a repeat begins, so that repeats spread over the fast one as well.

    Repeats are spread evenly over 100 ms; where that is a multiple of the 20 ms of `samples`, by a fifth
    more.
    """
    step_s = _REFRESH_S / repeats
    if repeats % round(_REFRESH_S / _FAST_REFRESH_S) == 0:
        step_s += _FAST_REFRESH_S / repeats
    return repeat * step_s % _REFRESH_S


def _jobs(
    load: Load, runs: dict[float, int], sensors: Sequence[SensorDescription], without: Collection[str]
) -> list[_Job]:
    """Return every recording: long references first and last, the runs in an order drawn by chance."""
    rng = np.random.default_rng(_SEED)
    quiet_s, before_s = _quiet_s(sensors), _before_s(sensors)
    cases = []
    for kind in LoadKind:
        for duration_s, count in runs.items():
            first_s = float(rng.uniform(0, _REFRESH_S))
            for repeat in range(count):
                case = Case(kind, duration_s, repeat)
                phase = first_s + phase_s(repeat, count)
                cases.append(_Job(case.name, *case.launches(load), before_s, quiet_s, phase))
    long_s = quiet_s + _REFERENCE_READINGS_S
    references = [Reference(share, number) for number in range(2) for share in ALL_SHARES]
    long = [_Job(r.name, [load.launch(r.name, long_s, r.share)], [], quiet_s, quiet_s) for r in references]
    middle = [cases[i] for i in rng.permutation(len(cases)) if cases[i].name not in without]
    return [*long[: len(ALL_SHARES)], *middle, *long[len(ALL_SHARES) :]]


def _quiet_s(sensors: Sequence[SensorDescription]) -> float:
    """Return how long the slowest source takes to forget, and to show idle power after it."""
    return min(_MAX_QUIET_S, max(s.settle_s + _QUIET_REFRESHES * s.refresh_s for s in sensors))


def _before_s(sensors: Sequence[SensorDescription]) -> float:
    """Return the idle time before a run: some values that overlap by half where they are running means."""
    return min(_MAX_BEFORE_S, max(s.memory_s / 2 + _QUIET_REFRESHES * s.refresh_s for s in sensors))

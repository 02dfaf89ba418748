"""What is kept of a replayed step: `step.json`, in a run's folder of recordings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ptxbench.attribute.replay.kinds import Kind
from ptxbench.core.clock import Clock
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.document import read_document, write_document
from ptxbench.storage.recording import PROFILE, RecordingFolder, recording_manifest

STEP_FILE = "step.json"
# Recordings that are not those of a kind.
BEFORE, AFTER, IDLE, GAPS = "step before", "step after", "idle", "gaps"


@dataclass(frozen=True)
class Beside:
    """Launches of another kind in the graph of a kind, whose time and energy are taken off.

    Attributes:
        kind: Number of the other kind.
        launches: How many of it there are.
    """

    kind: int
    launches: int


@dataclass(frozen=True)
class ReplayRun:
    """What ran in the window of one recording.

    Attributes:
        name: Name of the recording.
        times: How often the graph ran.
        launches: Launches of the kind in the graph; of the step one.
        sleeps: Times asleep in the graph.
        kind: Number of the kind; -1 for none.
        idle_share: Share of the time asleep that was aimed at.
        is_final: Whether it counts; of a kind that needs idle time the last attempt does.
        beside: Fills that the launches of the kind need.
        undone: How often memory that the kind changes was written back in the graph; what that takes has a
            recording of its own (`undo_name`). -1 where it was too much memory to see whether it changes.
        first_s: Time of all launches of the kind, each once, on the memory that the step leaves them; NaN
            where it was not measured.
    """

    name: str
    times: int
    launches: int
    sleeps: int = 0
    kind: int = -1
    idle_share: float = 0.0
    is_final: bool = True
    beside: tuple[Beside, ...] = ()
    undone: int = 0
    first_s: float = math.nan


def undo_name(kind: int) -> str:
    """Return the name of the recording of what writes back the memory that a kind changes."""
    return f"undo {kind}"


@dataclass(frozen=True)
class ReplayedStep:
    """What was captured, what ran of it, and what became of its memory.

    Attributes:
        kinds: Kinds of its launches.
        runs: What ran.
        saved_bytes: Memory that was saved and restored.
        changed_bytes: Memory that differed at the end from what it was before; -1 where it was not compared.
        wall_s: How long all of it took.
        units: How many of a unit, such as a token, one step makes.
        modules: The module of each launch, "" for none; none: they are not known.
    """

    kinds: tuple[Kind, ...]
    runs: tuple[ReplayRun, ...] = ()
    saved_bytes: int = 0
    changed_bytes: int = -1
    wall_s: float = 0.0
    units: Mapping[str, float] = field(default_factory=dict)
    modules: tuple[str, ...] = ()

    def with_run(self, run: ReplayRun) -> ReplayedStep:
        """Return it with a run; of the same kind the new one counts."""
        others = tuple(
            replace(one, is_final=False) if 0 <= one.kind == run.kind else one for one in self.runs
        )
        return replace(self, runs=(*others, run))


class ProfileFolder:
    """A run of `ptxbench.profile`: recordings, and what ran in each.

    Attributes:
        recordings: The recordings.
        step: What was captured, and what ran.
    """

    def __init__(self, recordings: RecordingFolder, step: ReplayedStep) -> None:
        self.recordings = recordings
        self.step = step

    @classmethod
    def create(
        cls,
        path: Path,
        gpu: GpuInfo,
        clock: Clock,
        sensors: tuple[SensorDescription, ...],
        step: ReplayedStep,
    ) -> ProfileFolder:
        """Begin a run in a new or empty folder.

        Raises:
            InputError: The folder holds something, cannot be written, or is not for this kind of GPU.
        """
        manifest = recording_manifest(gpu, clock, PROFILE, sensors, 0.0, 0)
        folder = cls(RecordingFolder.create(path, manifest), step)
        folder.keep(step)
        return folder

    @classmethod
    def open(cls, path: Path) -> ProfileFolder:
        """Read a run, whole or not.

        Raises:
            InputError: The folder holds none, or a file of it does not fit.
        """
        recordings = RecordingFolder.open(path, PROFILE)
        step = read_document(path / STEP_FILE, ReplayedStep, "")
        launches = 1 + max((number for kind in step.kinds for number in kind.instances), default=-1)
        if step.modules and len(step.modules) < launches:
            raise InputError(
                f"{path / STEP_FILE}: modules has {len(step.modules)} of {launches} launches: it is damaged"
            )
        return cls(recordings, step)

    def keep(self, step: ReplayedStep) -> None:
        """Write down what ran so far.

        Raises:
            InputError: The file cannot be written.
        """
        self.step = step
        write_document(self.recordings.path / STEP_FILE, step)

"""A folder of recordings that span several launches: what `sensor` and `methods` measure, as it was read.

Beside `manifest.json` (tool, GPU, host, sensors) and `recordings.json` (the windows) lie the readings in
`traces.parquet`, what ran in `kernels.zip`, and what was worked out in a JSON file named after the command.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeVar

from ptxbench.core.clock import Clock
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.core.version import CHECKOUT, VERSION
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import SequenceRun
from ptxbench.sensors.trace import KernelWindow, Trace
from ptxbench.storage import codec, traces
from ptxbench.storage.atomic import replacing, write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.commit import git_commit
from ptxbench.storage.file_errors import reading, writing
from ptxbench.storage.kernels import KernelStore
from ptxbench.storage.location import make_place
from ptxbench.storage.manifest import Host

RECORDING_VERSION = 1
_MANIFEST = "manifest.json"
_RECORDINGS = "recordings.json"
_TRACES = "traces.parquet"

T = TypeVar("T")


@dataclass(frozen=True)
class RecordingManifest:
    """What a folder of recordings is.

    Attributes:
        recording_version: Version of the files of the folder.
        ptxbench_version: Version of this package.
        commit: Git commit of the checkout, or None outside of one.
        purpose: The command that made it: "sensor" or "methods".
        created: When it began, UTC.
        gpu: The board.
        host: The machine.
        sensors: The power sources, as they were described while it was recorded.
        epoch_offset_ns: UTC less host time, ns.
        waited_s: Wait before the first recording in which no source was read.
    """

    recording_version: int
    ptxbench_version: str
    commit: str | None
    purpose: str
    created: datetime
    gpu: GpuInfo
    host: Host
    sensors: tuple[SensorDescription, ...]
    epoch_offset_ns: int
    waited_s: float

    @classmethod
    def new(
        cls, gpu: GpuInfo, clock: Clock, purpose: str, sensors: tuple[SensorDescription, ...], waited_s: float
    ) -> Self:
        """Return the manifest of recordings that begin now, on this host."""
        return cls(
            recording_version=RECORDING_VERSION,
            ptxbench_version=VERSION,
            commit=git_commit(CHECKOUT),
            purpose=purpose,
            created=datetime.now(UTC),
            gpu=gpu,
            host=Host.here(),
            sensors=sensors,
            epoch_offset_ns=clock.epoch_ns() - clock.now_ns(),
            waited_s=waited_s,
        )


@dataclass(frozen=True)
class Recording:
    """One recording.

    Attributes:
        name: Its name; readings are found by it.
        begin_ns: Begin, host time.
        end_ns: End, host time.
        temperature_before_c: GPU temperature before the first launch.
        temperature_after_c: GPU temperature after the last.
        windows: When each kernel ran.
        throttle_reasons: Bitwise or of every poll during each window, one a window.
    """

    name: str
    begin_ns: int
    end_ns: int
    temperature_before_c: float
    temperature_after_c: float
    windows: tuple[KernelWindow, ...]
    throttle_reasons: tuple[int, ...]


class RecordingFolder:
    """Recordings in memory, written as a whole; made by `create` or `open`.

    Attributes:
        path: The folder.
        manifest: What it is.
        kernels: What ran.
    """

    def __init__(self, path: Path, manifest: RecordingManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.kernels = KernelStore(path)
        self._recordings: dict[str, Recording] = {}
        self._traces: dict[str, Trace] = {}

    @classmethod
    def create(cls, path: Path, manifest: RecordingManifest) -> Self:
        """Make a new folder, or use an empty one.

        Raises:
            InputError: The folder holds something, cannot be written, or is not for this kind of GPU.
        """
        make_place(path, manifest.gpu.kind)
        write_text(path / _MANIFEST, codec.to_text(manifest))
        return cls(path, manifest)

    @classmethod
    def open(cls, path: Path, purpose: str) -> Self:
        """Read a folder that was written for `purpose`.

        Raises:
            InputError: The folder holds nothing of the kind, or a file of it does not fit.
        """
        file = path / _MANIFEST
        manifest = read_document(file, RecordingManifest, "recording_version", RECORDING_VERSION)
        if manifest.purpose != purpose:
            raise InputError(f"{path} was made by `ptxbench {manifest.purpose}`, not `ptxbench {purpose}`")
        folder = cls(path, manifest)
        plain = codec.read_json(path / _RECORDINGS)
        place = Place(path / _RECORDINGS)
        if not isinstance(plain, list):
            raise place.error("must be a list")
        stored = traces.TraceFile(path / _TRACES)
        for index, item in enumerate(plain):
            one = codec.decode(Recording, item, place.item(index))
            folder._recordings[one.name] = one
            folder._traces[one.name] = Trace(one.begin_ns, one.end_ns, stored.series(one.name))
        stored.close()
        return folder

    def copy(self, path: Path) -> Self:
        """Return a copy of the folder in a new or empty one, for what is worked out again from it.

        Raises:
            InputError: The new folder holds something, cannot be written, or lies below results/.
        """
        make_place(path, GpuKind.REPLAYED)
        with writing(path):
            shutil.copytree(self.path, path, dirs_exist_ok=True)
        return type(self).open(path, self.manifest.purpose)

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """Every recording, in order."""
        return tuple(self._recordings.values())

    def trace(self, name: str) -> Trace:
        """Return the readings of one recording."""
        return self._traces[name]

    def add(self, name: str, run: SequenceRun) -> Recording:
        """Hold one recording; it is on the disk after `write`.

        Raises:
            ValueError: There is one of that name.
        """
        if name in self._recordings:
            raise ValueError(f"recording {name} is held already")
        self._recordings[name] = Recording(
            name,
            run.trace.begin_ns,
            run.trace.end_ns,
            run.before.temperature_c,
            run.after.temperature_c,
            run.windows,
            run.throttle_reasons,
        )
        self._traces[name] = run.trace
        return self._recordings[name]

    def write(self) -> None:
        """Write the recordings that are held.

        Raises:
            InputError: A file cannot be written.
        """
        with replacing(self.path / _TRACES) as file:
            traces.write(file, (traces.to_table(name, trace.series) for name, trace in self._traces.items()))
        self.kernels.pack()
        write_text(self.path / _RECORDINGS, codec.to_text(list(self._recordings.values())))
        self.kernels.sweep()


def read_document(path: Path, kind: type[T], version_key: str, version: int) -> T:
    """Read one JSON file that says its own version.

    Raises:
        InputError: The file cannot be read, is of another version, or a key is missing or does not fit.
    """
    with reading(path, cure="name a folder that ptxbench has written"):
        plain = codec.read_json(path)
    found = plain.get(version_key) if isinstance(plain, dict) else None
    if found != version:
        raise Place(path).at(version_key).error(f"is {found!r}, but this ptxbench reads {version}")
    return codec.decode(kind, plain, Place(path))

"""A folder of recordings that span several launches, as `doctor sensor` and `doctor methods` read them.

Beside `manifest.json` (tool, GPU, host, sensors) and `recordings.json` (the windows) lie the readings in
`traces.parquet`, what ran in `kernels.zip`, and what was worked out in a JSON file named after the command.
While it is measured, every recording is in `partial/` as soon as it is made, as the trials of a run are.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ptxbench.core.clock import Clock
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo, GpuKind
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.kernel_run import SequenceRun
from ptxbench.sensors.trace import KernelWindow, Trace
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import writing
from ptxbench.storage.folder_kind import MANIFEST, Kind
from ptxbench.storage.location import make_place
from ptxbench.storage.manifest import (
    Manifest,
    new_manifest,
    read_manifest,
    require_equal,
    require_same_board,
)
from ptxbench.storage.measured_folder import MeasuredFolder
from ptxbench.storage.partial import PartialFolder

ROOFLINE, PROFILE, CALIBRATION = "roofline", "profile", "calibration"
_RECORDINGS = "recordings.json"
# The command of a purpose, where they are not called alike.
_KINDS = {ROOFLINE: Kind.ROOFLINE, PROFILE: Kind.PROFILE, CALIBRATION: Kind.CALIBRATION}
_MADE_BY = {
    "sensor": "doctor sensor",
    "methods": "doctor methods",
    "burst": "meter sync",
    CALIBRATION: "calibrate",
}


@dataclass(frozen=True, kw_only=True)
class RecordingPart:
    """What only a folder of recordings has.

    Attributes:
        purpose: What it is for: "sensor", "methods", "roofline", "profile", "calibration".
        epoch_offset_ns: UTC less host time, ns.
        waited_s: Wait before the first recording in which no source was read.
        load_sms: SMs that run the load at full, fewer where the GPU slows down; 0: not kept.
    """

    purpose: str
    epoch_offset_ns: int
    waited_s: float
    load_sms: int = 0


RecordingManifest = Manifest[RecordingPart]


def recording_manifest(
    gpu: GpuInfo,
    clock: Clock,
    purpose: str,
    sensors: tuple[SensorDescription, ...],
    waited_s: float,
    load_sms: int,
) -> RecordingManifest:
    """Return the manifest of recordings that begin now, on this host."""
    part = RecordingPart(
        purpose=purpose,
        epoch_offset_ns=clock.epoch_ns() - clock.now_ns(),
        waited_s=waited_s,
        load_sms=load_sms,
    )
    return new_manifest(_KINDS.get(purpose, Kind.RECORDING), part, (gpu,), sensors)


def _require_same(path: Path, there: RecordingManifest, now: RecordingManifest) -> None:
    """Refuse to go on with recordings under other conditions than those they began with.

    Raises:
        InputError: The tool, the board, its driver or settings, or the load differ.
    """
    require_equal("command", there.part.purpose, now.part.purpose, path)
    require_equal("ptxbench", there.ptxbench_version, now.ptxbench_version, path)
    require_same_board(there.gpu, now.gpu, path)
    require_equal("the load on so many SMs:", there.part.load_sms, now.part.load_sms, path)


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


class RecordingFolder(MeasuredFolder[RecordingPart]):
    """Recordings, each on the disk as soon as it is made; made by `create`, `open` or `resume`."""

    def __init__(self, path: Path, manifest: RecordingManifest) -> None:
        super().__init__(path, manifest)
        self._partial = PartialFolder(path, Recording, lambda one: one.name)
        self._recordings: dict[str, Recording] = {}
        self._traces: dict[str, Trace] = {}

    @classmethod
    def resume(cls, path: Path, now: RecordingManifest) -> Self:
        """Go on with recordings that were stopped; of a folder that is complete nothing is left to do.

        Args:
            path: The folder.
            now: What a new folder would say.

        Raises:
            InputError: The folder holds nothing of the kind, another process writes it, or it was made
                under other conditions.
        """
        folder = cls(path, _read_manifest(path))
        _require_same(path, folder.manifest, now)
        folder._go_on()
        if folder.finished:
            folder._load()
        return folder

    @classmethod
    def open(cls, path: Path, purpose: str) -> Self:
        """Read a folder that was written for `purpose`.

        Raises:
            InputError: The folder holds nothing of the kind, or a file of it does not fit.
        """
        manifest = _read_manifest(path)
        made_by = manifest.part.purpose
        if made_by != purpose:
            was, wanted = (_MADE_BY.get(one, one) for one in (made_by, purpose))
            raise InputError(f"{path} was made by `ptxbench {was}`, not `ptxbench {wanted}`")
        folder = cls(path, manifest)
        folder._load()
        return folder

    def copy(self, path: Path) -> Self:
        """Return a copy of the folder in a new or empty one, for what is worked out again from it.

        Raises:
            InputError: The new folder holds something, cannot be written, or lies below results/.
        """
        make_place(path, GpuKind.REPLAYED)
        with writing(path):
            shutil.copytree(self.path, path, dirs_exist_ok=True)
        return type(self).open(path, self.manifest.part.purpose)

    @property
    def finished(self) -> bool:
        """Whether all that was to be recorded is, and in its final files."""
        return (self.path / _RECORDINGS).exists() and not self._partial.exists

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """Every recording, in order."""
        return tuple(self._recordings.values())

    def trace(self, name: str) -> Trace:
        """Return the readings of one recording."""
        return self._traces[name]

    def add(self, name: str, run: SequenceRun) -> Recording:
        """Keep one recording; it is on the disk when this returns.

        Raises:
            InputError: The disk is full.
            ValueError: There is one of that name, or the folder is open for reading only.
        """
        if name in self._recordings:
            raise ValueError(f"recording {name} is held already")
        one = Recording(
            name,
            run.trace.begin_ns,
            run.trace.end_ns,
            run.before.temperature_c,
            run.after.temperature_c,
            run.windows,
            run.throttle_reasons,
        )
        self._partial.append(one, run.trace)
        self._recordings[name] = one
        self._traces[name] = run.trace
        return one

    def finish(self) -> None:
        """Write the final files; until the very end the folder can be resumed instead.

        Raises:
            InputError: A file cannot be written.
            ValueError: The folder is open for reading only.
        """
        self._partial.require_writer()
        self._write_traces(self._traces)
        self.kernels.pack()
        write_text(self.path / _RECORDINGS, codec.to_text(list(self._recordings.values())))
        self._retire()

    def _load(self) -> None:
        """Read what was recorded; a folder that was only begun holds nothing."""
        found: Sequence[Recording] = ()
        if self._partial.exists:
            found = self._partial.records()
        elif self.finished:
            path = self.path / _RECORDINGS
            found = codec.decode_list(Recording, codec.read_json(path), Place(path))
        self._recordings = {one.name: one for one in found}
        self._traces = {one.name: Trace(one.begin_ns, one.end_ns, self._series(one.name)) for one in found}


def _read_manifest(path: Path) -> RecordingManifest:
    return read_manifest(path / MANIFEST, RecordingManifest, Kind.RECORDING, *_KINDS.values())

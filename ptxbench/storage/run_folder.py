"""One run on disk: written trial by trial, resumed after any end, and read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Self

from ptxbench.core.closing import Closing
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.energy.gate.verdict import SourceVerdict
from ptxbench.sensors.trace import Trace
from ptxbench.storage.file_errors import writing
from ptxbench.storage.finished_run import FinalRun
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.held_trials import HeldTrials
from ptxbench.storage.kernels import KernelFiles, KernelStore
from ptxbench.storage.location import require_place
from ptxbench.storage.manifest import (
    RunArguments,
    RunCost,
    Session,
    TableManifest,
    ended,
    read_run_manifest,
    require_same,
    with_part,
    write_manifest,
)
from ptxbench.storage.partial import PartialRun
from ptxbench.storage.schema import TableRow, TrialRecord
from ptxbench.storage.table import TABLE, read_table, write_table


class RunFolder(Closing):
    """One run; made by `create`, `open` or `resume`, and a context manager that closes it.

    As long as `partial/` is there, what it holds is the run. `finish` writes the final files beside
    it, and the run is finished when `partial/` goes, in one rename. `kernels/` goes after it.

    Attributes:
        path: The folder.
        manifest: What the run is.
        kernels: PTX, machine code and SASS of what ran.
        lost: Trials that were dropped as the writer took over, because their readings are missing or damaged.
    """

    def __init__(self, path: Path, manifest: TableManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.kernels = KernelStore(path)
        self.lost: tuple[str, ...] = ()
        self._partial = PartialRun(path)
        self._final = FinalRun(path)
        # Read when a trial is wanted: what only needs the table does not wait for thousands of them.
        self._read_trials: HeldTrials | None = None

    @classmethod
    def create(cls, path: Path, manifest: TableManifest) -> Self:
        """Begin a run in a new or empty folder.

        Raises:
            InputError: The folder holds something, cannot be written, or is not for this kind of run.
        """
        require_place(path, manifest.gpu.kind)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            held = {entry.name for entry in path.iterdir()}
        if MANIFEST in held:
            raise InputError(
                f"{path} already holds a run; continue it with --resume, or choose another folder"
            )
        if held:
            raise InputError(f"{path} is not empty; choose a new folder for the run")
        write_manifest(path / MANIFEST, manifest)
        folder = cls(path, manifest)
        folder._partial.open(create=True)
        folder._read_trials = HeldTrials(path)
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a run, finished or not; a run that is being written is read as it stands when it is wanted.

        Raises:
            InputError: The folder holds no run, or its manifest does not fit.
        """
        return cls(path, read_run_manifest(path))

    @classmethod
    def take_over(cls, path: Path) -> Self:
        """Open a run as its one writer without a GPU, to finish it with what it holds.

        Raises:
            InputError: The folder holds no run or another process writes it.
        """
        folder = cls.open(path)
        if not folder.finished:
            folder._partial.open(create=False)
            folder.lost = folder._partial.drop_lost()
        return folder

    @classmethod
    def resume(
        cls,
        path: Path,
        gpu: GpuInfo,
        arguments: RunArguments,
        session: Session,
        *,
        allow_other_board: bool = False,
    ) -> Self:
        """Resume a run that was stopped; one that is finished is only read.

        Args:
            path: The folder.
            gpu: The GPU that will run the trials to come.
            arguments: What this command requests.
            session: This process.
            allow_other_board: Whether a second board of the same model and driver may go on; the
                manifest then lists both, and each record names its own.

        Raises:
            InputError: The folder holds no run, another process writes it, or the run was measured
                under other conditions.
        """
        manifest = read_run_manifest(path)
        require_place(path, manifest.gpu.kind)
        require_same(manifest, path, gpu, arguments)
        is_known = gpu.uuid_hash in {board.uuid_hash for board in manifest.gpus}
        if not is_known and not allow_other_board:
            raise InputError(
                f"{path} was measured on board {manifest.gpu.uuid_hash}, this is {gpu.uuid_hash}; "
                "start a new run, or allow another board"
            )
        folder = cls(path, manifest)
        if folder.finished:
            folder._partial.sweep()
            folder.kernels.sweep()
            return folder
        boards = manifest.gpus if is_known else (*manifest.gpus, gpu)
        begun = with_part(manifest, sessions=(*manifest.part.sessions, session))
        folder._go_on(replace(begun, gpus=boards))
        return folder

    @property
    def finished(self) -> bool:
        """Whether the run is complete; of one in results/ perhaps only the table is kept."""
        return (self._final.exists or (self.path / TABLE).exists()) and not self._partial.exists

    @property
    def done(self) -> frozenset[str]:
        """Ids of the trials that the run holds."""
        return self._trials.ids

    def __len__(self) -> int:
        """Return how many trials the run holds."""
        return len(self._trials)

    def records(self) -> list[TrialRecord]:
        """Return the trials in the order in which they were kept.

        Raises:
            InputError: They are not in the folder, or do not fit.
        """
        return self._trials.records()

    def record(self, trial_id: str) -> TrialRecord | None:
        """Return one trial, or None where the run does not hold it."""
        return self._trials.record(trial_id)

    def trace(self, trial_id: str) -> Trace:
        """Return the readings of one trial; a source that gave none is left out.

        Raises:
            InputError: The run does not hold the trial, or its readings cannot be read.
        """
        record = self.record(trial_id)
        if record is None:
            raise InputError(f"{self.path} holds no trial {trial_id}")
        form = self._final if self.finished else self._partial
        return Trace(record.record_begin_ns, record.record_end_ns, form.series(trial_id))

    def require_whole(self) -> None:
        """Refuse a finished run of which the readings or the kernels are not in the folder.

        Raises:
            InputError: They are not.
        """
        if self.finished:
            self._final.require_kept()
            self.kernels.require_kept()

    def rows(self) -> tuple[TableRow, ...]:
        """Return the rows of the table so far.

        Raises:
            InputError: table.csv does not fit, or a finished run has none or no row in it.
        """
        path = self.path / TABLE
        if not self.finished and not path.exists():
            return ()
        rows = read_table(path)
        if self.finished and not rows:
            raise InputError(f"{path} has no row, but the run is finished; copy the run again")
        return rows

    def append(self, record: TrialRecord, trace: Trace) -> None:
        """Keep one trial; it is on the disk when this returns.

        Raises:
            InputError: The disk is full, or the trial ran other machine code than the trials beside it.
            ValueError: The trial is held already, or its board or recording is not the run's.
        """
        self._trials.require_fit(record, trace, {board.uuid_hash for board in self.manifest.gpus})
        self._partial.append(record, trace)
        self._trials.add(record)

    def add_kernels(self, kernels: Iterable[KernelFiles]) -> None:
        """Keep kernels; see `KernelStore.add_all`."""
        self._partial.require_writer()
        self.kernels.add_all(kernels)

    def take_in_hand(self, record: TrialRecord) -> None:
        """Note the trial that is about to run, as the failure that it is if this process dies of it."""
        self._partial.take_in_hand(record)

    @classmethod
    def blame_trial_in_hand(cls, path: Path) -> str:
        """Keep the trial that a process died of as one that failed, so that a resumed run passes it over.

        Args:
            path: Folder of a run that no process writes.

        Returns:
            The trial's id, or "" where none was in hand.

        Raises:
            InputError: The folder cannot be read or written.
        """
        folder = cls.open(path)
        record = folder._partial.in_hand()
        if record is None or record.trial_id in folder.done:
            return ""
        folder._partial.open(create=False)
        with folder:
            folder.append(record, Trace(record.record_begin_ns, record.record_end_ns, ()))
        return record.trial_id

    def write_rows(self, rows: Sequence[TableRow]) -> None:
        """Write table.csv of a run that is not finished.

        Raises:
            InputError: table.csv cannot be written.
            ValueError: Two rows are about the same.
        """
        self._partial.require_writer()
        write_table(self.path / TABLE, rows)

    def end_session(self, now: datetime) -> None:
        """Note that this process stops writing, with the run finished or not."""
        self._partial.require_writer()
        self._set_manifest(ended(self.manifest, now))

    def finish(
        self,
        rows: Sequence[TableRow],
        now: datetime,
        cost: RunCost | None = None,
        level_error: float | None = None,
        source_check: SourceVerdict | None = None,
    ) -> None:
        """Turn the run into its final files; until the very end it can be resumed instead.

        Args:
            rows: The table.
            now: When the run ended, UTC.
            cost: What a row cost, where it is known.
            level_error: What all dynamic rows share, as in the manifest, where it is known.
            source_check: What the energy counter says of the power source.

        Raises:
            InputError: A file cannot be written, or the readings of a trial are missing.
            ValueError: Two rows are about the same.
        """
        self._partial.require_writer()
        records = self.records()
        self._final.write(records, self._partial.tables(record.trial_id for record in records))
        self.kernels.pack()
        write_table(self.path / TABLE, rows)
        found = with_part(self.manifest, cost=cost, level_error=level_error, source_check=source_check)
        self._set_manifest(found)
        self.end_session(now)
        self._partial.retire()
        self.kernels.sweep()

    def close(self) -> None:
        """Release the folder to other processes."""
        self._partial.close()
        self._final.close()

    def _go_on(self, manifest: TableManifest) -> None:
        """Open the folder for writing after what it holds so far."""
        # Only a run that was killed between its first two writes has no partial/ yet.
        self._partial.open(create=not self._partial.exists)
        try:
            self.lost = self._partial.drop_lost()
            self._read_trials = self._load()
            self._set_manifest(manifest)
        except BaseException:
            self.close()
            raise

    @property
    def _trials(self) -> HeldTrials:
        if self._read_trials is None:
            self._read_trials = self._load()
        return self._read_trials

    def _load(self) -> HeldTrials:
        trials = HeldTrials(self.path)
        boards = {gpu.uuid_hash for gpu in self.manifest.gpus}
        if self.finished:
            trials.load(self._final.records(), boards)
        elif self._partial.exists:
            trials.load(self._partial.records(), boards)
        return trials

    def _set_manifest(self, manifest: TableManifest) -> None:
        write_manifest(self.path / MANIFEST, manifest)
        self.manifest = manifest

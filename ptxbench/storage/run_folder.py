"""One run on disk: written trial by trial, resumed after any end, and read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Self

from ptxbench.core.condition import lanes_key
from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.energy.gate.verdict import SourceVerdict
from ptxbench.sensors.trace import Trace
from ptxbench.storage.file_errors import require_kept
from ptxbench.storage.kernels import KernelFiles
from ptxbench.storage.known_rows import known_rows
from ptxbench.storage.location import require_place
from ptxbench.storage.manifest import (
    Recomputed,
    RunArguments,
    RunCost,
    Session,
    TableManifest,
    TablePart,
    read_run_manifest,
    require_same,
    with_part,
)
from ptxbench.storage.measured_folder import TRACES, MeasuredFolder
from ptxbench.storage.partial import PartialRun
from ptxbench.storage.schema import TableRow, TrialRecord
from ptxbench.storage.table import TABLE, read_table, write_table

RECORDS = "records.parquet"


class RunFolder(MeasuredFolder[TablePart]):
    """One run of `ptxbench table`; made by `create`, `open` or `resume`."""

    _partial: PartialRun

    def __init__(self, path: Path, manifest: TableManifest) -> None:
        super().__init__(path, manifest)
        self._partial = PartialRun(path)
        # Read when a trial is wanted: what only needs the table does not wait for thousands of them.
        self._read_trials: dict[str, TrialRecord] | None = None
        self._cubin_of: dict[tuple[str, ...], str] = {}

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
    def resume(cls, path: Path, gpu: GpuInfo, arguments: RunArguments, session: Session) -> Self:
        """Resume a run that was stopped; one that is finished is only read.

        Args:
            path: The folder.
            gpu: The GPU that will run the trials to come.
            arguments: What this command requests.
            session: This process.

        Raises:
            InputError: The folder holds no run, another process writes it, or the run was measured
                under other conditions.
        """
        manifest = read_run_manifest(path)
        require_place(path, manifest.gpu.kind)
        require_same(manifest, path, gpu, arguments)
        folder = cls(path, manifest)
        folder._go_on(with_part(manifest, sessions=(*manifest.part.sessions, session)))
        return folder

    @property
    def finished(self) -> bool:
        """Whether the run is complete; of one in results/ perhaps only the table is kept."""
        return ((self.path / RECORDS).exists() or (self.path / TABLE).exists()) and not self._partial.exists

    @property
    def done(self) -> frozenset[str]:
        """Ids of the trials that the run holds."""
        return frozenset(self._trials)

    def __len__(self) -> int:
        """Return how many trials the run holds."""
        return len(self._trials)

    def records(self) -> list[TrialRecord]:
        """Return the trials in the order in which they were kept.

        Raises:
            InputError: They are not in the folder, or do not fit.
        """
        return list(self._trials.values())

    def record(self, trial_id: str) -> TrialRecord | None:
        """Return one trial, or None where the run does not hold it."""
        return self._trials.get(trial_id)

    def trace(self, trial_id: str) -> Trace:
        """Return the readings of one trial; a source that gave none is left out.

        Raises:
            InputError: The run does not hold the trial, or its readings cannot be read.
        """
        record = self.record(trial_id)
        if record is None:
            raise InputError(f"{self.path} holds no trial {trial_id}")
        return Trace(record.record_begin_ns, record.record_end_ns, self._series(trial_id))

    def require_whole(self) -> None:
        """Refuse a finished run of which the readings or the kernels are not in the folder.

        Raises:
            InputError: They are not.
        """
        if self.finished:
            for name in (RECORDS, TRACES):
                require_kept(self.path / name, "readings")
            self.kernels.require_kept()

    def known_rows(self, *, other_boards: bool = False) -> tuple[TableRow, ...]:
        """Return the rows of the table so far as they are believed (`ptxbench.storage.known_rows`).

        Args:
            other_boards: Whether the intervals shall hold for other boards of the model, too.

        Raises:
            InputError: As `rows`.
        """
        return known_rows(self.rows(), self.manifest, other_boards=other_boards)

    def rows(self) -> tuple[TableRow, ...]:
        """Return the rows of the table so far as they were measured.

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

    def append(self, record: TrialRecord, trace: Trace | None = None) -> None:
        """Keep one trial; it is on the disk when this returns.

        Args:
            record: The trial.
            trace: Its readings; None: there are none.

        Raises:
            InputError: The disk is full, or the trial ran other machine code than the trials beside it.
            ValueError: The trial is held already, or its board or recording is not the run's.
        """
        trace = trace or Trace(record.record_begin_ns, record.record_end_ns, ())
        self._require_fit(record, trace)
        self._partial.append(record, trace)
        self._hold(record)

    def add_kernels(self, kernels: Iterable[KernelFiles]) -> None:
        """Keep kernels; see `KernelStore.add_all`."""
        self._partial.require_writer()
        self.kernels.add_all(kernels)

    def note_in_progress(self, record: TrialRecord) -> None:
        """Note the trial that is about to run, as the failure that it is if this process dies of it."""
        self._partial.note_in_progress(record)

    @classmethod
    def blame_trial_in_progress(cls, path: Path) -> str:
        """Keep the trial that a process died of as one that failed, so that a resumed run passes it over.

        Args:
            path: Folder of a run that no process writes.

        Returns:
            The trial's id, or "" where none was in progress.

        Raises:
            InputError: The folder cannot be read or written.
        """
        folder = cls.open(path)
        record = folder._partial.in_progress()
        if record is None or record.trial_id in folder.done:
            return ""
        folder._partial.open(create=False)
        with folder:
            folder.append(record)
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
        *before, last = self.manifest.part.sessions
        self._set_manifest(with_part(self.manifest, sessions=(*before, replace(last, end=now))))

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
        from ptxbench.storage.records import write_records

        self._partial.require_writer()
        records = self.records()
        self._write_traces(record.trial_id for record in records)
        write_records(self.path / RECORDS, records)
        self.kernels.pack()
        write_table(self.path / TABLE, rows)
        found = with_part(self.manifest, cost=cost, level_error=level_error, source_check=source_check)
        self._set_manifest(found)
        self.end_session(now)
        self._retire()

    def rewrite(
        self, records: Iterable[TrialRecord], rows: Sequence[TableRow], by: Recomputed, shared: TableManifest
    ) -> None:
        """Put records and rows that were worked out again in the place of a finished run's own.

        Traces and kernels stay as they are, and so do the order of trials and those not among `records`.

        Args:
            records: Trials, validated again.
            rows: The table.
            by: Who made them.
            shared: The manifest that the rows were worked out with: it has what they share.

        Raises:
            InputError: The run is not finished, does not hold one of the trials, or cannot be written.
        """
        from ptxbench.storage.records import write_records

        if not self.finished:
            raise InputError(f"{self.path} is not finished: finish it with `ptxbench table --resume`")
        held = {record.trial_id: record for record in self.records()}
        for record in records:
            if record.trial_id not in held:
                raise InputError(f"{self.path} holds no trial {record.trial_id}")
            held[record.trial_id] = replace(record, order=held[record.trial_id].order)
        write_records(self.path / RECORDS, held.values())
        write_table(self.path / TABLE, rows)
        found = {name: getattr(shared.part, name) for name in ("level_error", "source_check")}
        self._set_manifest(with_part(self.manifest, recomputed=by, **found))

    @property
    def _trials(self) -> dict[str, TrialRecord]:
        if self._read_trials is None:
            self._load()
        assert self._read_trials is not None  # noqa: S101 - for mypy
        return self._read_trials

    def _load(self) -> None:
        from ptxbench.storage.records import read_records

        found: Sequence[TrialRecord] = ()
        if self.finished:
            require_kept(self.path / RECORDS, "readings")
            found = read_records(self.path / RECORDS)
        elif self._partial.exists:
            found = self._partial.records()
        self._read_trials = {}
        for record in found:
            if record.gpu not in self._boards:
                raise InputError(
                    f"{self.path}: trial {record.trial_id} ran on board {record.gpu}, "
                    "which the manifest does not list; copy the run again"
                )
            if record.trial_id in self._read_trials:
                raise InputError(f"{self.path} holds trial {record.trial_id} twice; copy the run again")
            self._hold(record)

    def _hold(self, record: TrialRecord) -> None:
        self._trials[record.trial_id] = record
        self._cubin_of.setdefault(_kernel_key(record), record.cubin_sha256)

    @property
    def _boards(self) -> frozenset[str]:
        return frozenset(board.uuid_hash for board in self.manifest.gpus)

    def _require_fit(self, record: TrialRecord, trace: Trace) -> None:
        """Refuse a trial that the run cannot hold."""
        if record.trial_id in self._trials:
            raise ValueError(f"trial {record.trial_id} is held already")
        if record.gpu not in self._boards:
            raise ValueError(
                f"trial {record.trial_id} ran on board {record.gpu}, which the manifest does not list"
            )
        if (trace.begin_ns, trace.end_ns) != (record.record_begin_ns, record.record_end_ns):
            raise ValueError(f"trial {record.trial_id} and its trace are of two recordings")
        known = self._cubin_of.get(_kernel_key(record), record.cubin_sha256)
        if known != record.cubin_sha256:
            raise InputError(
                f"{self.path}: trial {record.trial_id} ran machine code {record.cubin_sha256[:16]}, "
                f"the trials before it {known[:16]}; start a new run"
            )


def _kernel_key(record: TrialRecord) -> tuple[str, ...]:
    """Return what all repeats share that must have run the same machine code."""
    return (
        *(record.instruction, record.opt_level, record.protocol, record.operands, record.role),
        *lanes_key(record.lanes),
    )

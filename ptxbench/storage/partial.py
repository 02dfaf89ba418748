"""What is being measured: one line and one small trace file a trial or recording (partial/)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ptxbench.core.errors import InputError
from ptxbench.sensors.trace import Series, Trace
from ptxbench.storage import codec, journal
from ptxbench.storage.atomic import durable, sync_folder, write_note
from ptxbench.storage.codec import Place, decode
from ptxbench.storage.file_errors import reading, writing
from ptxbench.storage.journal import Journal
from ptxbench.storage.schema import TrialRecord

if TYPE_CHECKING:
    import pyarrow as pa


R = TypeVar("R")


class PartialFolder(Generic[R]):
    """The append-safe form of a folder of records and their readings.

    A record's readings are written first, then its line in `records.jsonl`; the line is what makes
    the record count, so readings without a line are those of a record that was killed.

    Args:
        folder: The folder that has it.
        kind: Type of a record.
        name_of: Returns what a record is called.
    """

    def __init__(self, folder: Path, kind: type[R], name_of: Callable[[R], str]) -> None:
        self._parent = folder
        self._kind = kind
        self._name_of = name_of
        self._folder = folder / "partial"
        self._traces = self._folder / "traces"
        self._records = self._folder / "records.jsonl"
        self._leftover = folder / "partial.done"
        self._journal: Journal | None = None

    @property
    def exists(self) -> bool:
        """Whether the folder is in this form."""
        return self._records.exists()

    def open(self, *, create: bool) -> None:
        """Become the one writer.

        Raises:
            InputError: The folder cannot be written, or another process writes it.
        """
        if create:
            with writing(self._traces):
                self._traces.mkdir(parents=True, exist_ok=True)
                sync_folder(self._parent)
        self._journal = Journal(self._records, create=create)

    def append(self, record: R, trace: Trace) -> None:
        """Keep one record; it is on the disk when this returns.

        Raises:
            InputError: The disk is full; the folder is then as it was.
            ValueError: The folder is open for reading only.
        """
        from ptxbench.storage import traces

        writer = self.require_writer()
        name = self._name_of(record)
        with durable(self._trace_path(name)) as file:
            traces.write(file, [traces.to_table(name, trace.series)], level=traces.QUICK_LEVEL)
        writer.append(record)

    def require_writer(self) -> Journal:
        """Return the journal.

        Raises:
            ValueError: The folder is open for reading only.
        """
        if self._journal is None:
            raise ValueError(f"{self._parent} is open for reading only")
        return self._journal

    def records(self) -> list[R]:
        """Return the records whose line is complete.

        Raises:
            InputError: A complete line does not fit.
        """
        return journal.read_all(self._records, self._kind)

    def drop_lost(self) -> tuple[str, ...]:
        """Drop the records whose readings are missing or damaged, so that they can be measured again.

        Returns:
            What they are called.

        Raises:
            InputError: A complete line does not fit, or the lines cannot be written.
            ValueError: The folder is open for reading only.
        """
        writer = self.require_writer()
        records = self.records()
        names = [self._name_of(record) for record in records]
        lost = tuple(name for name in names if not self._has_series(name))
        if lost:
            kept = [record for name, record in zip(names, records, strict=True) if name not in lost]
            writer.rewrite(self._numbered(kept))
        return lost

    def series(self, name: str) -> tuple[Series, ...]:
        """Return the readings of one record.

        Raises:
            InputError: Their file is missing or damaged.
        """
        from ptxbench.storage import traces

        path = self._trace_path(name)
        return traces.to_series(traces.read(path), path)

    def tables(self, names: Iterable[str]) -> Iterator[pa.Table]:
        """Yield the readings of each record as columns.

        Raises:
            InputError: A file is missing or damaged.
        """
        from ptxbench.storage import traces

        return (traces.read(self._trace_path(name)) for name in names)

    def retire(self) -> None:
        """Make way for the final files, by one rename."""
        with writing(self._parent):
            self._folder.replace(self._leftover)
            sync_folder(self._parent)
            self.close()
            self.sweep()

    def sweep(self) -> None:
        """Remove what a killed `retire` left."""
        with writing(self._leftover):
            if self._leftover.exists():
                shutil.rmtree(self._leftover)

    def close(self) -> None:
        """Stop being the writer."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _numbered(self, records: Sequence[R]) -> Sequence[R]:
        """Return records as they are when some before them are gone."""
        return records

    def _has_series(self, name: str) -> bool:
        try:
            self.series(name)
        except InputError:
            return False
        return True

    def _trace_path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]  # a name holds slashes: it is no file name
        return self._traces / f"{digest}.parquet"


class PartialRun(PartialFolder[TrialRecord]):
    """The append-safe form of a run, with a note of the trial that is about to run.

    Args:
        run: The run's folder.
    """

    def __init__(self, run: Path) -> None:
        super().__init__(run, TrialRecord, lambda record: record.trial_id)
        self._in_progress = self._folder / "in_progress.json"

    def note_in_progress(self, record: TrialRecord) -> None:
        """Note what is about to run; the note outlives this process, but perhaps not a crash of the host.

        Raises:
            InputError: The note cannot be written.
        """
        self.require_writer()
        write_note(self._in_progress, codec.to_text(record))

    def in_progress(self) -> TrialRecord | None:
        """Return what was noted last, None where nothing was, or where the note is torn.

        Raises:
            InputError: The note cannot be read.
        """
        with reading(self._in_progress):
            if not self._in_progress.exists():
                return None
        try:
            return decode(TrialRecord, codec.read_json(self._in_progress), Place(self._in_progress))
        except InputError:
            return None

    def _numbered(self, records: Sequence[TrialRecord]) -> Sequence[TrialRecord]:
        return [replace(record, order=order) for order, record in enumerate(records)]

"""A run that is being written: one line and one small trace file a trial (partial/)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.core.errors import InputError
from ptxbench.sensors.trace import Series, Trace
from ptxbench.storage import codec, journal
from ptxbench.storage.atomic import durable, sync_folder
from ptxbench.storage.codec import Place, decode
from ptxbench.storage.file_errors import reading, writing
from ptxbench.storage.journal import Journal
from ptxbench.storage.schema import TrialRecord

if TYPE_CHECKING:
    import pyarrow as pa


class PartialRun:
    """The append-safe form of a run.

    A trial's readings are written first, then its line in `records.jsonl`; the line is what makes
    the trial count, so readings without a line are those of a trial that was killed.

    Args:
        run: The run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._folder = run / "partial"
        self._traces = self._folder / "traces"
        self._records = self._folder / "records.jsonl"
        self._in_hand = self._folder / "in_hand.json"
        self._leftover = run / "partial.done"
        self._journal: Journal | None = None

    @property
    def exists(self) -> bool:
        """Whether the run is in this form."""
        return self._records.exists()

    def open(self, *, create: bool) -> None:
        """Become the one writer.

        Raises:
            InputError: The folder cannot be written, or another process writes it.
        """
        if create:
            with writing(self._traces):
                self._traces.mkdir(parents=True, exist_ok=True)
                sync_folder(self._run)
        self._journal = Journal(self._records, create=create)

    def append(self, record: TrialRecord, trace: Trace) -> None:
        """Keep one trial; it is on the disk when this returns.

        Raises:
            InputError: The disk is full; the run is then as it was.
            ValueError: The run is open for reading only.
        """
        from ptxbench.storage import traces

        writer = self.require_writer()
        with durable(self._trace_path(record.trial_id)) as file:
            traces.write(file, [traces.to_table(record.trial_id, trace.series)])
        writer.append(record)

    def take_in_hand(self, record: TrialRecord) -> None:
        """Note what is about to run; the note outlives this process, but perhaps not a crash of the host.

        Raises:
            InputError: The note cannot be written.
        """
        self.require_writer()
        with writing(self._in_hand):
            self._in_hand.write_text(codec.to_text(record), encoding="utf-8")

    def in_hand(self) -> TrialRecord | None:
        """Return what was noted last, None where nothing was, or where the note is torn.

        Raises:
            InputError: The note cannot be read.
        """
        with reading(self._in_hand):
            if not self._in_hand.exists():
                return None
        try:
            return decode(TrialRecord, codec.read_json(self._in_hand), Place(self._in_hand))
        except InputError:
            return None

    def require_writer(self) -> Journal:
        """Return the journal.

        Raises:
            ValueError: The run is open for reading only.
        """
        if self._journal is None:
            raise ValueError(f"{self._run} is open for reading only")
        return self._journal

    def records(self) -> list[TrialRecord]:
        """Return the trials whose line is complete.

        Raises:
            InputError: A complete line does not fit.
        """
        return [decode(TrialRecord, plain, place) for place, plain in journal.read(self._records)]

    def drop_lost(self) -> tuple[str, ...]:
        """Drop the trials whose readings are missing or damaged, so that they can be measured again.

        Returns:
            Their ids.

        Raises:
            InputError: A complete line does not fit, or the lines cannot be written.
            ValueError: The run is open for reading only.
        """
        writer = self.require_writer()
        records = self.records()
        lost = tuple(record.trial_id for record in records if not self._has_series(record.trial_id))
        if lost:
            kept = [record for record in records if record.trial_id not in lost]
            writer.rewrite(replace(record, order=order) for order, record in enumerate(kept))
        return lost

    def series(self, trial_id: str) -> tuple[Series, ...]:
        """Return the readings of one trial.

        Raises:
            InputError: Their file is missing or damaged.
        """
        from ptxbench.storage import traces

        path = self._trace_path(trial_id)
        return traces.to_series(traces.read(path), path)

    def tables(self, trial_ids: Iterable[str]) -> Iterator[pa.Table]:
        """Yield the readings of each trial as columns.

        Raises:
            InputError: A file is missing or damaged.
        """
        from ptxbench.storage import traces

        return (traces.read(self._trace_path(trial_id)) for trial_id in trial_ids)

    def retire(self) -> None:
        """Make way for the final files, by one rename."""
        with writing(self._run):
            self._folder.replace(self._leftover)
            sync_folder(self._run)
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

    def _has_series(self, trial_id: str) -> bool:
        try:
            self.series(trial_id)
        except InputError:
            return False
        return True

    def _trace_path(self, trial_id: str) -> Path:
        name = hashlib.sha256(trial_id.encode()).hexdigest()[:16]  # an id holds slashes: it is no file name
        return self._traces / f"{name}.parquet"

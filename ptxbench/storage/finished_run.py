"""A run that is finished: all trials in one file, all readings in another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ptxbench.sensors.trace import Series
from ptxbench.storage.atomic import replacing
from ptxbench.storage.file_errors import require_kept
from ptxbench.storage.schema import TrialRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from ptxbench.storage.traces import TraceFile

RECORDS = "records.parquet"
_TRACES = "traces.parquet"


class FinalRun:
    """The form of a run to which nothing is added; `PartialRun` is the other.

    Args:
        run: The run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._records = run / RECORDS
        self._traces = run / _TRACES
        self._trace_file: TraceFile | None = None

    @property
    def exists(self) -> bool:
        """Whether its files were written."""
        return self._records.exists()

    def require_kept(self) -> None:
        """Refuse to go on without them.

        Raises:
            InputError: One is not in the folder.
        """
        for path in (self._records, self._traces):
            require_kept(path, "readings")

    def write(self, records: Iterable[TrialRecord], tables: Iterable[pa.Table]) -> None:
        """Write the files, each atomically.

        Args:
            records: Trials in their order.
            tables: Readings of each as columns.

        Raises:
            InputError: A file cannot be written, or the readings of a trial are missing.
        """
        from ptxbench.storage import traces
        from ptxbench.storage.records import write_records

        with replacing(self._traces) as file:
            traces.write(file, tables)
        write_records(self._records, records)

    def records(self) -> list[TrialRecord]:
        """Return the trials.

        Raises:
            InputError: The file is not there, cannot be read or does not fit.
        """
        from ptxbench.storage.records import read_records

        require_kept(self._records, "readings")
        return read_records(self._records)

    def series(self, trial_id: str) -> tuple[Series, ...]:
        """Return the readings of one trial.

        Raises:
            InputError: The file is missing or damaged.
        """
        if self._trace_file is None:
            from ptxbench.storage.traces import TraceFile

            require_kept(self._traces, "readings")
            self._trace_file = TraceFile(self._traces)
        return self._trace_file.series(trial_id)

    def close(self) -> None:
        """Close what was opened to read."""
        if self._trace_file is not None:
            self._trace_file.close()
            self._trace_file = None

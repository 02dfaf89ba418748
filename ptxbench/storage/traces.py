"""Traces as columns: one row a reading (traces.parquet)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ptxbench.core.errors import InputError
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Series
from ptxbench.storage.file_errors import reading_parquet, require_regular

SCHEMA = pa.schema(
    [
        ("trial_id", pa.string()),
        ("source", pa.string()),
        ("begin_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("value", pa.float64()),
        ("stamp_ns", pa.int64()),
        ("code", pa.int64()),
    ]
)
_INTEGERS = ("begin_ns", "end_ns", "stamp_ns", "code")
_NAMES = ("trial_id", "source")
# Big enough to pack well, small enough that one trial is read without the whole file.
_ROW_GROUP_READINGS = 1 << 17
# 15% smaller than by zstd's default, 3, at a second for a million readings.
_FINAL_LEVEL = 19
QUICK_LEVEL = 1


def to_table(trial_id: str, series: tuple[Series, ...]) -> pa.Table:
    """Return the readings of one trial, one source after the other; an empty series leaves no trace."""
    if not series:
        return SCHEMA.empty_table()
    sources = pa.concat_arrays([pa.repeat(s.source.value, len(s)) for s in series])
    columns = (np.concatenate([getattr(s, name) for s in series]) for name in SCHEMA.names[len(_NAMES) :])
    return pa.Table.from_arrays([pa.repeat(trial_id, len(sources)), sources, *columns], schema=SCHEMA)


def to_series(table: pa.Table, path: Path) -> tuple[Series, ...]:
    """Return the series of one trial's readings, in the order in which they were kept.

    Raises:
        InputError: A source is not known.
    """
    return tuple(_series(name, part, path) for name, part in parts(table, "source"))


def parts(table: pa.Table | pa.RecordBatch, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each text of a column, and the rows that have it, in the order of the first of them."""
    column = table[name].cast(pa.string())
    # By scalars of the column: pyarrow loads pandas to make one of a string.
    return ((text.as_py(), table.filter(pc.equal(column, text))) for text in pc.unique(column))


def write(file: BinaryIO, tables: Iterable[pa.Table], *, level: int | None = None) -> None:
    """Write the readings of one or many trials, a whole number of trials in a row group.

    Args:
        file: Where to.
        tables: The readings of each trial.
        level: How hard zstd tries, None: until it is small; a file that is soon packed again need not be.
    """
    with _writer(file, _FINAL_LEVEL if level is None else level) as writer:
        for group in _groups(tables):
            writer.write_table(group, row_group_size=max(1, group.num_rows))


def read(path: Path) -> pa.Table:
    """Return all readings of one small file, of a run that is being written.

    Raises:
        InputError: The file is missing, damaged or holds other columns.
    """
    cure = "go on with `resume`, which measures it again"
    with _open(path, cure) as file, reading_parquet(path, cure):
        return file.read()


def row_groups(path: Path) -> Iterator[pa.Table]:
    """Yield the readings of a finished run, some whole trials at a time.

    Raises:
        InputError: The file is missing, damaged or holds other columns.
    """
    with _open(path) as file, reading_parquet(path):
        for index in range(file.num_row_groups):
            yield file.read_row_group(index)


@dataclass
class _Group:
    """The row group that was read last."""

    index: int
    table: pa.Table


class TraceFile:
    """The readings of a finished run, by trial; the row group read last is kept in memory.

    Raises:
        InputError: The file is missing, damaged or holds other columns.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)
        with reading_parquet(path):
            # As scalars, too (`parts`).
            self._group_of = {
                trial_id.as_py(): (index, trial_id)
                for index in range(self._file.num_row_groups)
                for trial_id in self._trial_ids(index)
            }
        self._last: _Group | None = None

    def series(self, trial_id: str) -> tuple[Series, ...]:
        """Return the series of one trial; none where it has no readings."""
        if trial_id not in self._group_of:
            return ()
        index, name = self._group_of[trial_id]
        if self._last is None or self._last.index != index:
            with reading_parquet(self._path):
                self._last = _Group(index, self._file.read_row_group(index))
        table = self._last.table
        return to_series(table.filter(pc.equal(table["trial_id"], name)), self._path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _trial_ids(self, group: int) -> pa.StringArray:
        return pc.unique(self._file.read_row_group(group, columns=["trial_id"])["trial_id"])


def to_numpy(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[Any]:
    """Return a column; not by pyarrow's own `to_numpy`, which loads pandas, unless numbers are missing."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.to_numpy(zero_copy_only=False) if whole.null_count else np.from_dlpack(whole)


def _series(name: str, table: pa.Table, path: Path) -> Series:
    try:
        source = SourceName(name)
    except ValueError:
        raise InputError(f"{path}: column source holds {name!r}, which is no known source") from None
    columns = {key: to_numpy(table[key]) for key in SCHEMA.names if key not in _NAMES}
    return Series(source=source, **columns)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables joined to row groups."""
    waiting: list[pa.Table] = []
    readings = 0
    for table in tables:
        waiting.append(table)
        readings += table.num_rows
        if readings >= _ROW_GROUP_READINGS:
            yield pa.concat_tables(waiting)
            waiting, readings = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _writer(file: BinaryIO, level: int) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        file,
        SCHEMA,
        compression="zstd",
        compression_level=level,
        use_dictionary=[*_NAMES, "value"],  # a cached reading is repeated until the sensor's next refresh
        # Bytes of one significance together: a quarter smaller than differences, which zstd cannot pack.
        column_encoding=dict.fromkeys(_INTEGERS, "BYTE_STREAM_SPLIT"),
    )


def _open(path: Path, cure: str = "copy the run again") -> pq.ParquetFile:
    require_regular(path, cure)
    with reading_parquet(path, cure):
        file = pq.ParquetFile(path)
    if not file.schema_arrow.equals(SCHEMA):
        raise InputError(f"{path}: the columns must be {', '.join(f'{c.name} ({c.type})' for c in SCHEMA)}")
    return file

"""Trial records as columns, one row a trial (records.parquet)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from ptxbench.storage import codec
from ptxbench.storage.atomic import write_parquet
from ptxbench.storage.cells import read_parquet
from ptxbench.storage.codec import Place
from ptxbench.storage.schema import TrialRecord

_ARROW = {int: pa.int64(), float: pa.float64()}
# Names and enums are text.
SCHEMA = pa.schema(
    [(name, _ARROW.get(hint, pa.string())) for name, hint in codec.type_hints(TrialRecord).items()]
)


def write_records(path: Path, records: Iterable[TrialRecord]) -> None:
    """Write all records of a run atomically."""
    kept = list(records)
    columns = {name: [getattr(record, name) for record in kept] for name in SCHEMA.names}
    write_parquet(path, pa.table(columns, schema=SCHEMA))


def read_records(path: Path) -> list[TrialRecord]:
    """Read all records of a run.

    Raises:
        InputError: The file cannot be read, lacks a column, or a value does not fit.
    """
    rows = enumerate(read_parquet(path), start=1)
    return [codec.decode(TrialRecord, row, Place(path, f"row {i}")) for i, row in rows]

"""Put records and rows that were worked out again in the place of a finished run's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ptxbench.core.errors import InputError
from ptxbench.storage.folder_kind import MANIFEST
from ptxbench.storage.manifest import Recomputed, TableManifest, with_part, write_manifest
from ptxbench.storage.records import write_records
from ptxbench.storage.run_folder import RECORDS, RunFolder
from ptxbench.storage.schema import TableRow, TrialRecord
from ptxbench.storage.table import TABLE, write_table


def rewrite_results(
    folder: RunFolder,
    records: Iterable[TrialRecord],
    rows: Sequence[TableRow],
    by: Recomputed,
    shared: TableManifest,
) -> None:
    """Write records.parquet, table.csv and who made them; traces and kernels stay as they are.

    Trials that are not among `records` are kept as they were; the order of all stays.

    Args:
        folder: A finished run.
        records: Trials, validated again.
        rows: The table.
        by: Who made them.
        shared: The manifest that the rows were worked out with: it has what they share.

    Raises:
        InputError: The run is not finished, does not hold one of the trials, or cannot be written.
    """
    if not folder.finished:
        raise InputError(f"{folder.path} is not finished: finish it with `ptxbench table --resume`")
    held = {record.trial_id: record for record in folder.records()}
    for record in records:
        if record.trial_id not in held:
            raise InputError(f"{folder.path} holds no trial {record.trial_id}")
        held[record.trial_id] = replace(record, order=held[record.trial_id].order)
    write_records(folder.path / RECORDS, held.values())
    write_table(folder.path / TABLE, rows)
    found = with_part(
        folder.manifest,
        recomputed=by,
        level_error=shared.part.level_error,
        source_check=shared.part.source_check,
    )
    write_manifest(folder.path / MANIFEST, found)

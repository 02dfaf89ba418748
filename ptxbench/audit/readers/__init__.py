"""Readers of what other tools record, behind one function."""

from __future__ import annotations

from pathlib import Path

from ptxbench.audit.readers.contents import Contents
from ptxbench.audit.readers.documents import read_json
from ptxbench.audit.readers.logs import is_ptdaemon, is_timeless, read_log, read_ptdaemon, read_timeless
from ptxbench.audit.readers.summaries import read_codecarbon, read_operations, read_zeus
from ptxbench.core.errors import InputError
from ptxbench.meter.readers.mapping import Mapping
from ptxbench.meter.readers.text import open_text

_PARQUET = b"PAR1"


def read_contents(path: Path, mapping: Mapping | None = None, period_s: float = 1.0) -> Contents:
    """Read a file that another tool wrote, whatever its form.

    Args:
        path: A log, a table or a document of a tool that docs/howto/audit.md names.
        mapping: What the columns of a log are, where its header does not say it.
        period_s: Time between two readings of a log without times.

    Raises:
        InputError: It is none of these, or damaged.
    """
    file = open_text(path)
    if file.head.startswith(_PARQUET):
        return read_operations(path)
    opening = file.opening.lstrip("\ufeff \t\r\n")
    if not opening:
        raise InputError(f"{path} is empty")
    if opening.startswith("{"):
        return read_json(path)
    header = opening.partition("\n")[0]
    if header.startswith("start_time,window_name,elapsed_time"):
        return read_zeus(path)
    if "emissions" in header and "gpu_energy" in header:
        return read_codecarbon(path)
    if is_ptdaemon(opening):
        return read_ptdaemon(path)
    if is_timeless(opening) and mapping is None:
        return read_timeless(file, period_s)
    return read_log(path, mapping)

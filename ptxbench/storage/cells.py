"""Tables in files: what a row of CSV or Parquet spells, as plain values that `codec` makes dataclasses of."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.core.printable import text_of_cell
from ptxbench.storage.file_errors import NAME_A_RUN, read_bytes, reading_parquet, require_regular

FLOAT_DIGITS = 6


def rounded(value: object) -> object:
    """Return what a cell is written from: of a float 6 significant digits."""
    return f"{value:.{FLOAT_DIGITS}g}" if isinstance(value, float) and not math.isnan(value) else value


def read_csv(path: Path, cure: str = NAME_A_RUN) -> list[list[str]]:
    """Return the cells of a file of CSV, line by line.

    Raises:
        InputError: The file cannot be read, or is no CSV in UTF-8.
    """
    data = read_bytes(path, cure)
    try:
        return list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path}: the file is no table ({error})") from error


def read_parquet(path: Path, cure: str = "copy the run again") -> list[dict[str, Any]]:
    """Return the rows of a Parquet file.

    Raises:
        InputError: It cannot be read.
    """
    require_regular(path)
    import pyarrow.parquet as pq

    with reading_parquet(path, cure):
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def reader_of(kind: type) -> Callable[[str], object]:
    """Return what reads the cells of a column; what does not fit stays text, for the decoder to judge."""
    return _READERS.get(kind, text_of_cell)


def _float(cell: str) -> object:
    try:
        return float(cell) if cell else math.nan
    except ValueError:
        text = text_of_cell(cell)
        return text if text == cell else _float(text)


def _int(cell: str) -> object:
    try:
        return int(cell)
    except ValueError:
        text = text_of_cell(cell)
        return text if text == cell else _int(text)


_READERS: dict[type, Callable[[str], object]] = {
    float: _float,
    int: _int,
    bool: lambda cell: {"True": True, "False": False}.get(cell, cell),
}

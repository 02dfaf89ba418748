"""Counters of each variant that somebody read elsewhere, such as with Nsight Compute: a CSV by variant."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.storage.file_errors import read_text

_VARIANT = "variant"

Counters = Mapping[str, Mapping[str, float]]


def read_counters(path: Path) -> Counters:
    """Return the counters of each variant by its name.

    Args:
        path: A CSV with a column `variant` and one for each counter; an empty cell is not known.

    Raises:
        InputError: It cannot be read, or is no such table.
    """
    rows = csv.DictReader(read_text(path, "name a CSV with the column variant").splitlines())
    names = [name for name in rows.fieldnames or () if name != _VARIANT]
    if _VARIANT not in (rows.fieldnames or ()) or not names:
        raise InputError(f"{path}: must have the column {_VARIANT} and a column for each counter")
    found = {}
    for row in rows:
        cells = {name: row[name] or "" for name in names}
        found[row[_VARIANT]] = {name: _number(cell, name, path) for name, cell in cells.items()}
    return found


def _number(cell: str, name: str, path: Path) -> float:
    if not cell.strip():
        return math.nan
    try:
        return float(cell)
    except ValueError as error:
        raise InputError(f"{path}: {name} has {cell[:40]!r}, which is no number") from error

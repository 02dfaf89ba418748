"""Clock and power from a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.model.ridge import PowerSample
from ptxbench.storage.file_errors import read_text

COLUMNS = ("clock_mhz", "power_w")
# No clock and no power of a GPU is larger.
_HIGHEST = 1e5
_LONGEST = 40


def read_power_samples(path: Path) -> tuple[PowerSample, ...]:
    """Read the columns clock_mhz and power_w; others are passed over.

    Raises:
        InputError: The file cannot be read, lacks a column, or a value is no number.
    """
    cure = f"name a CSV file whose first line is {','.join(COLUMNS)}"
    rows = csv.DictReader(read_text(path, cure).splitlines(), skipinitialspace=True, restval="")
    try:
        names = [name.strip() for name in rows.fieldnames or ()]
        for column in COLUMNS:
            if names.count(column) != 1:
                raise InputError(f"{path} has {names.count(column)} columns {column}; {cure}")
        rows.fieldnames = names
        return tuple(_sample(path, rows.line_num, row) for row in rows)
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}; {cure}") from error


def _sample(path: Path, line: int, row: dict[str, str]) -> PowerSample:
    return PowerSample(*(_number(path, line, column, row[column]) for column in COLUMNS))


def _number(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= _HIGHEST:
        raise InputError(
            f"{path}, line {line}: {column} is {printable(text[:_LONGEST])!r};"
            f" it must be a positive number up to {_HIGHEST:g}"
        )
    return value

"""A table of operations: what each took, in Parquet, or in CSV where it comes with ptxbench.

Its first columns are those of ai-dynamo/aiconfigurator's tables (framework, version, device, op_name,
kernel_source, gemm_dtype, m, n, k, latency in ms, power in W, power_limit in W), so that what reads these
reads this. The others say what those do not.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any

from ptxbench.catalogue.operations import KINDS, Operation
from ptxbench.core.errors import InputError
from ptxbench.core.printable import render_csv, text_of_cell
from ptxbench.storage.atomic import write_parquet, write_text
from ptxbench.storage.file_errors import read_bytes, reading_parquet, require_regular

OPERATIONS_FILE, SHIPPED_FILE = "operations.parquet", "operations.csv"
_DIGITS = 6
_CURE = "name a table of operations, or the folder that holds it"
_MS = 1e3


@dataclass(frozen=True)
class OperationRow:
    """What one operation took on one board.

    Attributes:
        framework: Library that launches it, with its version.
        version: Of the library.
        device: Name of the GPU.
        board: Hash of the board's UUID.
        driver: Of the GPU.
        op_name: Kind of operation.
        gemm_dtype: Type of its operands, of other operations, too.
        shape: Its dimensions, such as "4096x4096x4096".
        latency_ms: Time of a call.
        power_w: Mean power while it is called back to back; NaN where it is not known.
        power_limit_w: Power limit.
        energy_j: Energy of a call, idle power included; NaN where it is not known.
        ci_low_j: Low end of its 95% interval.
        ci_high_j: High end.
        clock_mhz: Mean SM clock.
        capped: Whether the power limit or heat held the clock down.
        window_s: Length of a window of calls.
        windows: Windows that count.
        sensor: Power source.
        valid: Whether the energy may be used.
        reason: Why not.
        launched: How calls were launched: "call" by call, or "graph of 40" for a CUDA graph of so many.
    """

    framework: str
    version: str
    device: str
    board: str
    driver: str
    op_name: str
    gemm_dtype: str
    shape: str
    latency_ms: float
    power_w: float
    power_limit_w: float
    energy_j: float
    ci_low_j: float
    ci_high_j: float
    clock_mhz: float
    capped: bool
    window_s: float
    windows: int
    sensor: str
    valid: bool
    reason: str
    launched: str = "call"

    @property
    def operation(self) -> Operation:
        """Which operation it is of."""
        return Operation(self.op_name, self.gemm_dtype, tuple(map(int, self.shape.split("x"))))

    @property
    def relative_half(self) -> float:
        """Half-width of its own interval, relative."""
        return (self.ci_high_j - self.ci_low_j) / 2 / self.energy_j


# Names that others gave these columns.
_THEIRS = {"latency_ms": "latency", "power_w": "power", "power_limit_w": "power_limit"}


def write_operations(path: Path, rows: Iterable[OperationRow]) -> None:
    """Write a table, atomically: as CSV where its name ends so, else in Parquet.

    Raises:
        InputError: It cannot be written.
    """
    table = list(rows)
    columns: dict[str, list[Any]] = {
        _THEIRS.get(field.name, field.name): [getattr(row, field.name) for row in table]
        for field in fields(OperationRow)
    }
    if path.suffix == ".csv":
        rounded = ([_rounded(cell) for cell in column] for column in columns.values())
        write_text(path, render_csv([tuple(columns), *zip(*rounded, strict=True)]))
        return
    import pyarrow as pa

    columns["kernel_source"] = [row.framework for row in table]
    for number, name in enumerate(("m", "n", "k")):
        sizes = [row.operation.shape if row.op_name == "gemm" else None for row in table]
        columns[name] = [None if size is None else size[number] for size in sizes]
    write_parquet(path, pa.table(columns))


def _rounded(value: object) -> object:
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.{_DIGITS}g}"


def read_operations(path: Path) -> tuple[OperationRow, ...]:
    """Read a table, by its name or that of the folder that holds it.

    Raises:
        InputError: It cannot be read, or is no such table.
    """
    file = path
    if path.is_dir():
        file = path / (SHIPPED_FILE if (path / SHIPPED_FILE).exists() else OPERATIONS_FILE)
    require_regular(file, _CURE)
    names, rows = _of_csv(file) if file.suffix == ".csv" else _of_parquet(file)
    needed = (field for field in fields(OperationRow) if field.default is MISSING)
    missing = [name for name in map(_theirs, needed) if name not in names]
    if missing:
        raise InputError(f"{file} has no column {missing[0]}: {_CURE}")
    return tuple(_row(file, number, one) for number, one in enumerate(rows, 1))


def _theirs(field: Field[Any]) -> str:
    return _THEIRS.get(field.name, field.name)


def _of_parquet(file: Path) -> tuple[list[str], list[dict[str, Any]]]:
    import pyarrow.parquet as pq

    with reading_parquet(file, _CURE):
        table = pq.read_table(file)
        return table.column_names, table.to_pylist()


def _of_csv(file: Path) -> tuple[list[str], list[dict[str, Any]]]:
    types = {_theirs(field): str(field.type) for field in fields(OperationRow)}
    try:
        reader = csv.DictReader(io.StringIO(read_bytes(file).decode(), newline=""), strict=True)
        rows = [{name: _cell(text, types.get(name, "str")) for name, text in one.items()} for one in reader]
    except (ValueError, csv.Error) as error:
        raise InputError(f"{file} is no table of operations ({error}): {_CURE}") from error
    return list(reader.fieldnames or ()), rows


def _cell(text: str | None, kind: str) -> object:
    """Return what a cell of CSV spells, or None where it spells nothing of the kind."""
    if kind == "str" or text is None:
        return text_of_cell(text) if text is not None else None
    if kind == "bool":
        return {"True": True, "False": False}.get(text)
    return None if not text else int(text) if kind == "int" else float(text)


def _row(file: Path, number: int, plain: dict[str, Any]) -> OperationRow:
    values: dict[str, Any] = {}
    for field in fields(OperationRow):
        value = plain.get(_theirs(field), field.default)
        if field.type == "float":
            value = math.nan if value is None else value
        if type(value).__name__ not in (field.type, "int" if field.type == "float" else ""):
            raise InputError(f"{file}: row {number}: {_theirs(field)} is no {field.type}")
        values[field.name] = value
    row = OperationRow(**values)
    sizes = row.shape.split("x")
    is_known = row.op_name in KINDS and row.gemm_dtype in KINDS[row.op_name].dtypes
    if not is_known or len(sizes) != len(KINDS[row.op_name].dims) or not all(map(_is_size, sizes)):
        raise InputError(f"{file}: row {number} is of no operation that is known")
    return row


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 12 and int(text) > 0

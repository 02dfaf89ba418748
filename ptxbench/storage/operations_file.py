"""A table of operations: what each took, in Parquet.

Its first columns are those of ai-dynamo/aiconfigurator's tables (framework, version, device, op_name,
kernel_source, gemm_dtype, m, n, k, latency in ms, power in W, power_limit in W), so that what reads these
reads this. The others say what those do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ptxbench.catalogue.operations import KINDS, Operation
from ptxbench.core.errors import InputError
from ptxbench.storage.atomic import write_parquet
from ptxbench.storage.file_errors import reading_parquet, require_regular

OPERATIONS_FILE = "operations.parquet"
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
        launched: How calls were launched: "call", or "graph of 40" for a CUDA graph of so many.
        sensor: Power source.
        valid: Whether the energy may be used.
        reason: Why not.
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
    launched: str
    sensor: str
    valid: bool
    reason: str

    @property
    def operation(self) -> Operation:
        """Which operation it is of."""
        return Operation(self.op_name, self.gemm_dtype, tuple(map(int, self.shape.split("x"))))


# Names that others gave these columns.
_THEIRS = {"latency_ms": "latency", "power_w": "power", "power_limit_w": "power_limit"}


def write_operations(path: Path, rows: Iterable[OperationRow]) -> None:
    """Write a table, atomically.

    Raises:
        InputError: It cannot be written.
    """
    import pyarrow as pa

    table = list(rows)
    columns: dict[str, list[Any]] = {
        _THEIRS.get(field.name, field.name): [getattr(row, field.name) for row in table]
        for field in fields(OperationRow)
    }
    columns["kernel_source"] = [row.framework for row in table]
    for number, name in enumerate(("m", "n", "k")):
        sizes = [row.operation.shape if row.op_name == "gemm" else None for row in table]
        columns[name] = [None if size is None else size[number] for size in sizes]
    write_parquet(path, pa.table(columns))


def read_operations(path: Path) -> tuple[OperationRow, ...]:
    """Read a table, by its name or that of the folder that holds it.

    Raises:
        InputError: It cannot be read, or is no such table.
    """
    import pyarrow.parquet as pq

    file = path / OPERATIONS_FILE if path.is_dir() else path
    require_regular(file, _CURE)
    with reading_parquet(file, _CURE):
        table = pq.read_table(file)
        wanted = {field.name: _THEIRS.get(field.name, field.name) for field in fields(OperationRow)}
        missing = [name for name in wanted.values() if name not in table.column_names]
        if missing:
            raise InputError(f"{file} has no column {missing[0]}: {_CURE}")
        plain = table.select(list(wanted.values())).to_pylist()
    return tuple(_row(file, number, one, wanted) for number, one in enumerate(plain, 1))


def _row(file: Path, number: int, plain: dict[str, Any], wanted: dict[str, str]) -> OperationRow:
    values: dict[str, Any] = {}
    for field in fields(OperationRow):
        value = plain[wanted[field.name]]
        if field.type == "float":
            value = math.nan if value is None else value
        if type(value).__name__ not in (field.type, "int" if field.type == "float" else ""):
            raise InputError(f"{file}: row {number}: {wanted[field.name]} is no {field.type}")
        values[field.name] = value
    row = OperationRow(**values)
    sizes = row.shape.split("x")
    is_known = row.op_name in KINDS and row.gemm_dtype in KINDS[row.op_name].dtypes
    if not is_known or len(sizes) != len(KINDS[row.op_name].dims) or not all(map(_is_size, sizes)):
        raise InputError(f"{file}: row {number} is of no operation that is known")
    return row


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 12 and int(text) > 0

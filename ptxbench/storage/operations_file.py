"""A table of operations: what each took, in Parquet, or in CSV where it comes with ptxbench.

Its first columns are those of ai-dynamo/aiconfigurator's tables (framework, version, device, op_name,
kernel_source, gemm_dtype, m, n, k, latency in ms, power in W, power_limit in W), so that what reads these
reads this. The others say what those do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ptxbench.catalogue.operations import KINDS, Operation
from ptxbench.core.errors import InputError
from ptxbench.core.printable import render_csv
from ptxbench.storage import codec
from ptxbench.storage.atomic import write_parquet, write_text
from ptxbench.storage.cells import read_csv, read_parquet, reader_of, rounded
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import require_regular

OPERATIONS_FILE, SHIPPED_FILE = "operations.parquet", "operations.csv"
_CURE = "name a table of operations, or the folder that holds it"


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

    def fault(self) -> str:
        """Return what is no operation, for the reader of a file; "" where all is well."""
        kind, sizes = KINDS.get(self.op_name), self.shape.split("x")
        is_known = kind is not None and self.gemm_dtype in kind.dtypes and len(sizes) == len(kind.dims)
        return "" if is_known and all(map(_is_size, sizes)) else "is of no operation that is known"

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
_OURS = {theirs: ours for ours, theirs in _THEIRS.items()}


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
        cells = (map(rounded, column) for column in columns.values())
        write_text(path, render_csv([tuple(columns), *zip(*cells, strict=True)]))
        return
    import pyarrow as pa

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
    file = path
    if path.is_dir():
        file = path / (SHIPPED_FILE if (path / SHIPPED_FILE).exists() else OPERATIONS_FILE)
    require_regular(file, _CURE)
    rows = _of_csv(file) if file.suffix == ".csv" else read_parquet(file, _CURE)
    if rows:
        _require_columns(file, rows[0])
    return tuple(
        codec.decode(OperationRow, {_OURS.get(name, name): value for name, value in row.items()}, place)
        for row, place in ((row, Place(file, f"row {number}")) for number, row in enumerate(rows, 1))
    )


def _of_csv(file: Path) -> list[dict[str, Any]]:
    names, *lines = read_csv(file, _CURE) or [[]]
    _require_columns(file, names)
    hints = codec.type_hints(OperationRow)
    readers = [reader_of(hints.get(_OURS.get(name, name), str)) for name in names]
    return [
        {name: read(cell) for name, read, cell in zip(names, readers, line, strict=False)}
        for line in filter(None, lines)
    ]


def _require_columns(file: Path, names: Collection[str]) -> None:
    needed = (one.name for one in fields(OperationRow) if one.name not in codec.optional_fields(OperationRow))
    missing = [name for name in (_THEIRS.get(one, one) for one in needed) if name not in names]
    if missing:
        raise InputError(f"{file} has no column {missing[0]}: {_CURE}")


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 12 and int(text) > 0

"""Logs of the GPU's own readings, and the windows in which its kernels ran."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.meter.readers.mapping import Mapping
from ptxbench.meter.readers.stamps import numbers_to_ns
from ptxbench.meter.readers.table import read_times
from ptxbench.meter.readers.text import as_numbers, decode, read_bytes, read_text_table
from ptxbench.meter.readers.units import Quantity, split_unit
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow, Series

_SOURCES = {
    "power_draw": SourceName.USAGE,
    "power_usage": SourceName.USAGE,
    "usage": SourceName.USAGE,
    "power_draw_average": SourceName.AVERAGE,
    "power_average": SourceName.AVERAGE,
    "average": SourceName.AVERAGE,
    "power_draw_instant": SourceName.INSTANT,
    "power_instant": SourceName.INSTANT,
    "instant": SourceName.INSTANT,
    "samples": SourceName.SAMPLES,
    "energy": SourceName.COUNTER,
    "counter": SourceName.COUNTER,
    "total_energy_consumption": SourceName.COUNTER,
}
_ABSENT = ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]")
_MAX_BACKWARDS = 0.01
_MAX_HEADER = 20_000
_LABELS = ("label", "instruction", "kernel", "name")


@dataclass(frozen=True)
class LabelledWindow:
    """One kernel's window and what ran in it.

    Attributes:
        window: When.
        label: Instruction or kernel; empty where the file does not say it.
    """

    window: KernelWindow
    label: str


def read_nvml(path: Path) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Read a log of power readings.

    Args:
        path: CSV with a column of time and one or more of power_draw_w,
            power_average_w, power_instant_w, energy_j (also as `nvidia-smi
            --query-gpu=timestamp,power.draw --format=csv` names and writes them).

    Returns:
        One series a source, in order of time, and notes.

    Raises:
        InputError: The file is no such log.
    """
    table = read_text_table(path, read_bytes(path))
    times = read_times(path, table, Mapping())
    order = np.flatnonzero(times.readable)
    if not len(order):
        raise InputError(f"{path} holds no time that can be read")
    behind = times.time_ns[order] < np.maximum.accumulate(times.time_ns[order])
    backwards = int(behind.sum())
    if backwards > _MAX_BACKWARDS * len(order):
        raise InputError(
            f"{path}: {backwards} of {len(order)} rows go back in time: the host's clock was set back; "
            "split the log there"
        )
    order = order[~behind]
    found: dict[SourceName, Series] = {}
    for name in table.frame.columns:
        source, factor = _source(str(name))
        if source is None or source in found:
            continue
        values = _values(table.frame[name]) * factor
        if np.isfinite(values[order]).any():
            found[source] = _series(source, times.time_ns[order], values[order])
    if not found:
        names = ", ".join(map(str, table.frame.columns))
        raise InputError(
            f"{path} has no power that NVML gives (power_draw_w, power.draw [W], ...) among {names}"
        )
    left_out = len(table.frame) - len(order) - backwards + table.torn
    counts = ((left_out, "torn rows"), (backwards, "rows that go back in time"))
    counted = tuple(f"{count} {what} of {path.name} are left out" for count, what in counts if count)
    return tuple(found.values()), (*times.notes, *counted)


def read_windows(path: Path) -> tuple[LabelledWindow, ...]:
    """Read the windows of kernels, in order of time.

    Args:
        path: CSV with start and end (such as `start_us,end_us`; ns, us, ms or s) and, if
            wanted, a label.

    Raises:
        InputError: The file holds no windows, or one that ends before it starts.
    """
    try:
        text = decode(read_bytes(path))
        if len(text.split("\n", 1)[0]) > _MAX_HEADER:
            raise InputError(f"{path} begins with a line of more than {_MAX_HEADER} characters")
        frame = pd.read_csv(io.StringIO(text), skipinitialspace=True)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} cannot be read: {printable(str(error))}") from error
    start_ns, end_ns = _edges(path, frame, "start"), _edges(path, frame, "end")
    if not len(frame):
        raise InputError(f"{path} holds no window")
    if (end_ns <= start_ns).any():
        raise InputError(f"{path}: row {int(np.argmax(end_ns <= start_ns)) + 1} ends before it starts")
    label = next((name for name in _LABELS if name in frame), None)
    labels = (
        [""] * len(frame) if label is None else frame[label].fillna("").astype(str).map(printable).tolist()
    )
    order = np.argsort(start_ns, kind="stable")
    if (start_ns[order][1:] < end_ns[order][:-1]).any():
        raise InputError(
            f"{path}: windows overlap; give the windows of one GPU's kernels one after the other"
        )
    return tuple(
        LabelledWindow(
            KernelWindow(int(start_ns[i]), int(end_ns[i]), float(end_ns[i] - start_ns[i]) / 1e9), labels[i]
        )
        for i in order
    )


def _source(name: str) -> tuple[SourceName | None, float]:
    bare, unit = split_unit(name)
    source = _SOURCES.get(bare.strip().lower().replace(".", "_").replace(" ", "_"))
    wanted = Quantity.ENERGY if source is SourceName.COUNTER else Quantity.POWER
    if unit is not None and unit.quantity is not wanted:
        return None, 1.0
    return source, unit.factor if unit is not None else 1.0


def _values(column: pd.Series[str]) -> Float64s:
    """Return the numbers of a column; nvidia-smi writes the unit behind each unless told not to."""
    if not pd.api.types.is_numeric_dtype(column):
        text = column.astype(str).str.strip().replace(dict.fromkeys(_ABSENT, "nan"))
        column = text.str.replace(r"\s*[mkµu]?[WJ]$", "", regex=True)
    return as_numbers(column)


def _series(source: SourceName, time_ns: Int64s, value: Float64s) -> Series:
    count = len(value)
    code = np.zeros(count, dtype=np.int64)
    return Series(source, time_ns, time_ns, value, np.full(count, -1, dtype=np.int64), code)


def _edges(path: Path, frame: pd.DataFrame, edge: str) -> Int64s:
    for name in frame.columns:
        bare, unit = split_unit(str(name))
        if bare.strip().lower() != edge or unit is None or unit.quantity is not Quantity.TIME:
            continue
        try:
            numbers = pd.to_numeric(frame[name], errors="coerce").to_numpy()
        except OverflowError as error:
            raise InputError(f"{path}: a number of {name} is too large for a time") from error
        time_ns, readable, _ = numbers_to_ns(numbers, unit.factor)
        if not readable.all():
            raise InputError(f"{path}: row {int(np.argmin(readable)) + 1} of {name} is no number or no time")
        return time_ns
    raise InputError(f"{path} has no column {edge}_us (or _ns, _ms, _s); is it the file of windows?")

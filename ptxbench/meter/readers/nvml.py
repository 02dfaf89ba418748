"""Logs of the GPU's own readings, and the windows in which its kernels ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import POINT
from ptxbench.core.printable import printable
from ptxbench.meter.capture import MAX_BACKWARDS, MAX_TORN
from ptxbench.meter.readers.cells import Quantity, split_unit
from ptxbench.meter.readers.columns import named_unit
from ptxbench.meter.readers.mapping import Channel, Mapping
from ptxbench.meter.readers.names import LABELS, PATTERNS, SOURCES
from ptxbench.meter.readers.stamps import NumberClock
from ptxbench.meter.readers.table import ChannelReader, distinct, times_of
from ptxbench.meter.readers.text import TextTable, open_text, read_header, read_text_table, with_decimal
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow, Series

_SECTION = "nvml."
# More boards than that are in no host.
_MOST_BOARDS = 32
# Spans of an energy counter: 32 bits of mJ or of uJ.
_COUNTER_SPANS_J = (2**32 / 1e3, 2**32 / 1e6)
# Usual steps of it that one step may be, where readings were lost.
_MOST_STEPS = 20


@dataclass(frozen=True)
class LabelledWindow:
    """One kernel's window and what ran in it.

    Attributes:
        window: When.
        label: Instruction or kernel; empty where the file does not say it.
    """

    window: KernelWindow
    label: str


def read_nvml(
    path: Path, mapping: Mapping | None = None, board: str | None = None
) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Read a log of power readings.

    Args:
        path: CSV with a column of time and one or more of power_draw_w,
            power_average_w, power_instant_w, energy_j (also as `nvidia-smi
            --query-gpu=timestamp,power.draw --format=csv` or `nvidia-smi dmon -o DT`
            names and writes them).
        mapping: What its columns are, where the header does not say it.
        board: Index, UUID or PCI bus of the board, in a log of several.

    Returns:
        One series a source, in order of time, and notes.

    Raises:
        InputError: The file is no such log, or is of several boards and none is named.
    """
    mapping = mapping or Mapping()
    return series_of(read_text_table(open_text(path), mapping.separator, mapping.decimal), mapping, board)


def series_of(
    table: TextTable, mapping: Mapping, board: str | None = None
) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Return the series of a table of power readings, and notes; see `read_nvml`."""
    path, table = table.path, replace(table, section=_SECTION)
    times = times_of(table, mapping)
    chosen, notes = _board(table, board) if mapping.rows is None else (mapping.rows, ())
    sources = dict(mapping.sources) or _sources(table)
    if not sources:
        raise InputError(
            f"{path} has no power that NVML gives (power_draw_w, power.draw [W], ...) among {table.listed};"
            ' name it in a mapping (`mapping`), such as usage = "COLUMN" under [nvml]'
        )
    channels = [(channel, _quantity(source)) for source, channel in sources.items()]
    reader = ChannelReader(replace(table, chosen=chosen), mapping, times, channels)
    series, log_notes = _series(path, sources, reader)
    return series, (*log_notes, *notes)


def _series(
    path: Path, sources: dict[SourceName, Channel], reader: ChannelReader
) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Return the series of each source that has a value, and notes.

    Raises:
        InputError: There is no time or no value, or too many rows cannot be used.
    """
    pieces = list(reader)
    time_ns = np.concatenate([rows.time_ns[rows.readable] for rows in pieces])
    if not len(time_ns):
        raise InputError(f"{path} holds no time that can be read")
    notes = reader.clock.settle(time_ns)
    forward = time_ns >= np.maximum.accumulate(time_ns)
    backwards = int((~forward).sum())
    if backwards > MAX_BACKWARDS * len(time_ns):
        raise InputError(
            f"{path}: {backwards} of {len(time_ns)} rows go back in time: the host's clock was set"
            " back; split the log there"
        )
    torn = sum(rows.torn + int((~rows.readable).sum()) for rows in pieces)
    counts = ((torn, "torn rows"), (backwards, "rows that go back in time"))
    notes += tuple(f"{count} {what} of {path.name} are left out" for count, what in counts if count)
    found = []
    for number, (source, channel) in enumerate(sources.items()):
        value = np.concatenate([rows.values[number][rows.readable] for rows in pieces])
        if np.isfinite(value).any():
            absent = sum(int(rows.absent[number][rows.readable].sum()) for rows in pieces)
            notes += _without_number(path, channel, value, absent)
            value, wrap_notes = _unwrapped(source, value[forward])
            notes += wrap_notes
            found.append(Series.unstamped(source, time_ns[forward], value))
    if not found:
        columns = ", ".join(str(channel.column) for channel in sources.values())
        raise InputError(f"{path}: {columns} holds no number")
    return tuple(found), notes


def _without_number(path: Path, channel: Channel, value: Float64s, absent: int) -> tuple[str, ...]:
    """Return what to say of the cells of a source without a number.

    Raises:
        InputError: There are too many that do not say that they have none.
    """
    odd = int((~np.isfinite(value)).sum()) - absent
    if odd > MAX_TORN * len(value):
        raise InputError(f"{path}: {odd} of {len(value)} cells of {channel.column!r} are no numbers")
    return tuple(
        f"{count} of {len(value)} values of {channel.column} in {path.name} are {what}: left out"
        for count, what in ((absent, "absent"), (odd, "no numbers"))
        if count
    )


def read_windows(path: Path) -> tuple[LabelledWindow, ...]:
    """Read the windows of kernels, in order of time.

    Args:
        path: CSV with start and end (such as `start_us,end_us`; ns, us, ms or s) and, if
            wanted, a label.

    Raises:
        InputError: The file holds no windows, or one that ends before it starts.
    """
    table = read_header(open_text(path))
    edges = [_edge(table, edge) for edge in ("start", "end")]
    label = next((name for name in LABELS if name in table.names), None)
    names = [name for name, _ in edges] + ([] if label is None else [label])
    table = with_decimal(table, names[:2])
    cells: list[list[str]] = [[] for _ in names]
    for piece in table.pieces(names):
        if piece.torn:
            raise InputError(
                f"{path} cannot be read: {piece.torn} rows have not the {len(table.names)} cells of line 1"
            )
        for column, found in zip(cells, piece.columns, strict=True):
            column.extend(found)
    if not cells[0]:
        raise InputError(f"{path} holds no window")
    start_ns, end_ns = (
        _times(table, name, unit_s, found) for (name, unit_s), found in zip(edges, cells, strict=False)
    )
    if (end_ns <= start_ns).any():
        raise InputError(f"{path}: row {int(np.argmax(end_ns <= start_ns)) + 1} ends before it starts")
    labels = [printable(cell) for cell in cells[2]] if label is not None else [""] * len(start_ns)
    order = np.argsort(start_ns, kind="stable")
    if (start_ns[order][1:] < end_ns[order][:-1]).any():
        raise InputError(
            f"{path}: windows overlap; give the windows of one GPU's kernels one after the other"
        )
    return tuple(
        LabelledWindow(KernelWindow.spanning(int(start_ns[i]), int(end_ns[i])), labels[i]) for i in order
    )


def _board(table: TextTable, board: str | None) -> tuple[tuple[str, str] | None, tuple[str, ...]]:
    """Return the column and the value of the rows of one board, None where all rows are.

    Raises:
        InputError: There are several boards and none is named, or not the one that is named.
    """
    boards = _board_labels(table)
    several = {name: values for name, values in boards.items() if len(values) > 1}
    listed = "; ".join(f"{name} {', '.join(values)}" for name, values in (several or boards).items())
    if board is None and not several:
        return None, ()
    if board is None:
        raise InputError(
            f"{table.path} is of several GPUs ({listed}); say which the meter was on (`nvml_gpu`)"
        )
    for name, values in boards.items():
        for value in values:
            if board.lower() == value.lower():
                return (name, value), (f"of {table.path.name} the rows with {name} {value} are taken",)
    raise InputError(f"{table.path} has no GPU {board!r} ({listed or 'no column tells GPUs apart'})")


def boards_of(table: TextTable) -> tuple[str, ...]:
    """Return the labels by which a log tells its boards apart, none where it is of one.

    Raises:
        InputError: The file cannot be read.
    """
    return next((values for values in _board_labels(table).values() if len(values) > 1), ())


def _board_labels(table: TextTable) -> dict[str, tuple[str, ...]]:
    labels = {name: distinct(table, name) for name in table.names if PATTERNS["board"].fullmatch(name)}
    return {name: values for name, values in labels.items() if not _is_share(values)}


def _is_share(values: Sequence[str]) -> bool:
    """Return whether labels are percent of use, which some loggers also call "gpu"."""
    return all(map(str.isdecimal, values)) and any(len(one) > 2 or int(one) > _MOST_BOARDS for one in values)


def _sources(table: TextTable) -> dict[SourceName, Channel]:
    """Return the columns of the sources, by the names that NVML's tools give them."""
    found: dict[SourceName, Channel] = {}
    names_board = any(map(PATTERNS["board"].fullmatch, table.names))
    for position, name in enumerate(table.names):
        bare, unit = named_unit(name, table.units, position)
        key = bare.strip().lower().replace(".", "_").replace(" ", "_")
        # Loggers that name the board call its only power so.
        source = SourceName.USAGE if key == "power" and names_board else SOURCES.get(key)
        if source is not None and (unit is None or unit.quantity is _quantity(source)):
            found.setdefault(source, Channel(name, unit.factor if unit is not None else 1.0))
    return found


def _quantity(source: SourceName) -> Quantity:
    return Quantity.ENERGY if source is SourceName.COUNTER else Quantity.POWER


def _unwrapped(source: SourceName, value: Float64s) -> tuple[Float64s, tuple[str, ...]]:
    """Return an energy counter without the wraps of its 32 bits, and any other source as it is."""
    known = np.flatnonzero(np.isfinite(value))
    steps_j = np.diff(value[known])
    back = np.flatnonzero(steps_j < 0)
    if source is not SourceName.COUNTER or not len(back) or not (steps_j > 0).any():
        return value, ()
    usual_j = float(np.median(steps_j[steps_j > 0]))
    for span_j in _COUNTER_SPANS_J:
        beyond_j = steps_j[back] + span_j
        if ((beyond_j >= 0) & (beyond_j <= _MOST_STEPS * usual_j)).all():
            wrapped_j = np.zeros(len(value))
            wrapped_j[known[back + 1]] = span_j
            times = "once" if len(back) == 1 else f"{len(back)} times"
            return value + np.cumsum(wrapped_j), (f"the energy counter wraps {times}; it is unwrapped",)
    return value, (f"the energy counter goes back {len(back)} times, and not by a wrap",)


def _edge(table: TextTable, edge: str) -> tuple[str, float]:
    for name in table.names:
        bare, unit = split_unit(name)
        if bare.strip().lower() == edge and unit is not None and unit.quantity is Quantity.TIME:
            return name, unit.factor
    raise InputError(f"{table.path} has no column {edge}_us (or _ns, _ms, _s); is it the file of windows?")


def _times(table: TextTable, name: str, unit_s: float, cells: Sequence[str]) -> Int64s:
    clock = NumberClock(name, unit_s, table.decimal or POINT)
    time_ns, readable = clock.read([cells], range(len(cells)))
    if not readable.all():
        raise InputError(
            f"{table.path}: row {int(np.argmin(readable)) + 1} of {name} is no number or no time"
        )
    clock.settle(time_ns)
    return time_ns

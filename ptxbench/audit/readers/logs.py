"""Logs of power: nvidia-smi, dmon of nvidia-smi and of DCGM, and PTDaemon."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from ptxbench.audit.readers.contents import Contents, Log
from ptxbench.core.errors import InputError
from ptxbench.meter.readers.mapping import Channel, Mapping
from ptxbench.meter.readers.nvml import boards_of, read_nvml, series_of
from ptxbench.meter.readers.table import distinct
from ptxbench.meter.readers.text import TextTable, open_text, read_text_table, split_line, unique_names
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.trace import NS_PER_S, Int64s, Series
from ptxbench.storage.text_file import TextFile

# "Time,28-12-2020 15:21:14.682,Watts,22.95,Volts,228.57,Amps,0.206,PF,0.486,Mark,name": MLCommons' power-dev.
_PTD = re.compile(r"Time,[^,\n]*,Watts,")
# By these orders of day and month such logs are written; how long a window was is the same by each.
_PTD_ORDERS = ("dmy", "mdy", "ymd")
# Columns of dmon that are power or energy: those of nvidia-smi, then of DCGM (fields 155 to 157).
_DMON = {
    "pwr": (SourceName.USAGE, 1.0),
    "power": (SourceName.USAGE, 1.0),
    "totec": (SourceName.COUNTER, 1e-3),
    "pwrins": (SourceName.INSTANT, 1.0),
    "powinst": (SourceName.INSTANT, 1.0),
}
# Rows that are this near, beside the longest time between two, are of one moment. More of them, or further
# apart, s, are no GPUs of a host, but readings of a session; chosen.
_AT_ONCE, _MOST_GPUS, _APART_S = 0.2, 16, 0.2
_DMON_ENTITIES = ("GPU", "GPU-I", "GPU-CI")
# nvidia-smi dmon writes whole watts.
_DMON_QUANTUM_W = 1.0
# DCGM says by an integer beyond this that there is no value.
_DCGM_BLANK = 9e15


def is_ptdaemon(opening: str) -> bool:
    """Return whether a file that begins with `opening` is a log of PTDaemon."""
    return _PTD.match(opening.lstrip()) is not None


def is_timeless(opening: str) -> bool:
    """Return whether a file that begins with `opening` is of a dmon that writes no times."""
    first = opening.lstrip().partition("\n")[0].lower().split()
    return bool(first) and (first[0] == "#entity" or (first[:2] == ["#", "gpu"] and "time" not in first))


def read_ptdaemon(path: Path) -> Contents:
    """Read a log of PTDaemon, which MLPerf takes the power of a whole system by.

    Raises:
        InputError: It cannot be read.
    """
    file = open_text(path)
    first = next((line for lines in file.lines() for line in lines if line.strip()), "")
    row = split_line(first, ",")
    # A line is names and values in turn.
    names = unique_names([row[i - 1] if i % 2 else f"name {i // 2}" for i in range(len(row))])
    table = TextTable(file, names, (), (), (tuple(row),), ",", 0)
    error: InputError | None = None
    for order in _PTD_ORDERS:
        mapping = Mapping(time="Time", date_order=order, sources=((SourceName.USAGE, Channel("Watts")),))
        try:
            series, notes = series_of(table, mapping)
        except InputError as found:
            error = error or found
            continue
        return Contents("PTDaemon log", (Log("", "", series, is_external=True),), notes=notes)
    assert error is not None  # noqa: S101
    raise error


def read_log(path: Path, mapping: Mapping | None) -> Contents:
    """Read a log of nvidia-smi: --query-gpu, or dmon with times (-o DT).

    Raises:
        InputError: It is no such log.
    """
    mapping = mapping or Mapping()
    table = read_text_table(open_text(path), mapping.separator, mapping.decimal)
    quantum_w = _DMON_QUANTUM_W if "pwr" in table.names else 0.0
    labels = boards_of(table) if mapping.rows is None else ()
    names = distinct(table, "name") if "name" in table.names else ()
    notes: dict[str, None] = {}
    logs = []
    name = names[0] if len(names) == 1 else ""
    for label in labels or (None,):
        series, found = read_nvml(path, mapping, label)
        # Each board is read: which one this is stands in its numbers.
        notes |= dict.fromkeys(found if label is None else found[:-1])
        rows = _rows_at_once(series[0].time_ns) if label is None else 1
        if rows > 1:
            text = f"it has {rows} rows at a time and no column of the GPU: they are taken for {rows} GPUs"
            notes[text] = None
        for row in range(rows):
            own = tuple(one.select(np.arange(len(one)) % rows == row) for one in series)
            logs.append(Log(label or (f"row {row}" if rows > 1 else ""), name, own, quantum_w=quantum_w))
    if len(names) > 1:
        notes["it is of GPUs of several names: say which board the numbers are of (`gpu_name`)"] = None
    form = "nvidia-smi dmon" if quantum_w else "NVML log"
    return Contents(form, tuple(logs), notes=tuple(notes))


def _rows_at_once(time_ns: Int64s) -> int:
    """Return how many rows follow each other at once, each time the same number: those of as many GPUs."""
    gaps_ns = np.diff(time_ns)
    if not len(gaps_ns) or not gaps_ns.max() > 0:
        return 1
    later = np.flatnonzero(gaps_ns > _AT_ONCE * gaps_ns.max()) + 1
    sizes = np.diff(np.concatenate(([0], later, [len(time_ns)])))
    within_ns = np.delete(gaps_ns, later - 1)
    if sizes[0] > _MOST_GPUS or (len(within_ns) and np.median(within_ns) > _APART_S * NS_PER_S):
        return 1
    return int(sizes[0]) if len(sizes) > 1 and (sizes[:-1] == sizes[0]).all() else 1


def read_timeless(file: TextFile, period_s: float) -> Contents:
    """Read what `dmon` of DCGM or of nvidia-smi prints without times.

    Args:
        file: The text.
        period_s: Time between two readings of a board.

    Raises:
        InputError: It has no power.
    """
    names: list[str] = []
    found: dict[tuple[str, SourceName], list[float]] = defaultdict(list)
    is_dcgm = False
    for line in (line for lines in file.lines() for line in lines):
        cells = line.split()
        if cells and cells[0].startswith("#"):
            is_dcgm |= cells[0].lower() == "#entity"
            if not names:
                names = [cell.lower() for cell in (cells if is_dcgm else cells[1:])]
            continue
        if len(cells) > 1 and cells[0] in _DMON_ENTITIES:
            cells = [" ".join(cells[:2]), *cells[2:]]
        if len(cells) != len(names) or (is_dcgm and " " not in cells[0]):
            continue
        for name, cell in zip(names, cells, strict=True):
            if name in _DMON:
                source, factor = _DMON[name]
                found[cells[0], source].append(factor * _number(cell))
    if not found:
        raise InputError(f"{file.path} has no power (pwr, POWER, TOTEC); log it with field 155, 156 or -s p")
    boards: dict[str, list[Series]] = defaultdict(list)
    for (board, source), values in found.items():
        time_ns = np.round(np.arange(1, len(values) + 1) * period_s * NS_PER_S).astype(np.int64)
        boards[board].append(Series.unstamped(source, time_ns, np.array(values, dtype=np.float64)))
    note = f"it has no times: {period_s:g} s between two readings is taken (`period_s`)"
    quantum_w = 0.0 if is_dcgm else _DMON_QUANTUM_W
    logs = tuple(Log(board, "", tuple(series), quantum_w=quantum_w) for board, series in boards.items())
    return Contents("dcgmi dmon" if is_dcgm else "nvidia-smi dmon", logs, notes=(note,))


def _number(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        return float("nan")
    return value if abs(value) < _DCGM_BLANK else float("nan")

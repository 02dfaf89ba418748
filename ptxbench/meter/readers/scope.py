"""Exports of oscilloscopes and recorders that give a sampling rate in place of a column of time."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.meter.readers.columns import time_column
from ptxbench.meter.readers.text import TextTable, split_line

# Yokogawa DL/WVF ("HResolution", "SampleRate"), Tektronix and GW Instek ("Sample Interval",
# "Sampling Period"), Rigol and Keysight ("Increment", "XInc"), R&S ("Resolution").
_INTERVAL = re.compile(r"(h?resolution|sampl(e|ing) (interval|period)|x?inc(rement)?)", re.IGNORECASE)
_RATE = re.compile(r"sampl(e|ing) ?rate", re.IGNORECASE)
_NAMES = re.compile(r"(trace ?name|source|channel)", re.IGNORECASE)
_UNITS = re.compile(r"(v ?units?|vertical units?)", re.IGNORECASE)
_TIME = "time"


def expand_waveform(path: Path, table: TextTable) -> TextTable:
    """Add the column of time that the settings above a waveform describe.

    Args:
        path: File, for messages.
        table: The rows of an export; any other table is returned as it is.

    Returns:
        The table with a column "time" in seconds first, and with the names and units
        of the traces where the settings give them.

    Raises:
        InputError: The sampling rate is not a number above zero.
    """
    if time_column(list(table.frame.columns), table.units) is not None:
        return table
    settings = [split_line(line, table.separator) for line in table.preamble]
    period_s = _period_s(path, settings)
    if period_s is None:
        return table
    width = len(table.frame.columns)
    names = _row(settings, _NAMES, width) or [str(name) for name in table.frame.columns]
    units = _row(settings, _UNITS, width) or list(table.units)
    frame = table.frame.set_axis(names, axis="columns")
    frame.insert(0, _TIME, period_s * np.arange(len(frame)), allow_duplicates=True)
    return replace(table, frame=frame, units=("s", *units), has_header=True)


def _period_s(path: Path, settings: list[list[str]]) -> float | None:
    for cells in settings:
        is_rate = _RATE.fullmatch(_key(cells)) is not None
        if len(cells) < 2 or not (is_rate or _INTERVAL.fullmatch(_key(cells))):
            continue
        try:
            value = float(next(cell for cell in cells[1:] if cell))
        except (ValueError, StopIteration):
            continue
        if value <= 0:
            raise InputError(f"{path}: {cells[0]} must be above zero, not {value:g}")
        return 1.0 / value if is_rate else value
    return None


def _row(settings: list[list[str]], key: re.Pattern[str], width: int) -> list[str]:
    """Return the cells of a setting, one a column, empty where it is not given for each."""
    found = next((cells for cells in settings if key.fullmatch(_key(cells))), [])
    # The rows of a waveform may begin with an empty cell under the settings' names.
    cells = found if len(found) == width else found[1:]
    return [cell or f"column{i + 1}" for i, cell in enumerate(cells)] if len(cells) == width else []


def _key(cells: list[str]) -> str:
    return cells[0].rstrip(":").strip() if cells else ""

"""Exports of oscilloscopes and recorders that give a sampling rate in place of a column of time."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.meter.readers.columns import time_column
from ptxbench.meter.readers.text import TextTable, as_numbers, split_line

# Yokogawa DL/WVF ("HResolution", "SampleRate"), Tektronix and GW Instek ("Sample Interval",
# "Sampling Period"), Rigol and Keysight ("Increment", "XInc"), R&S ("Resolution").
_INTERVAL = re.compile(r"(h?resolution|sampl(e|ing) (interval|period)|x?inc(rement)?)", re.IGNORECASE)
_RATE = re.compile(r"sampl(e|ing) ?rate", re.IGNORECASE)
_NAMES = re.compile(r"(trace ?name|source|channel)", re.IGNORECASE)
_UNITS = re.compile(r"(v ?units?|vertical units?)", re.IGNORECASE)
_TIME = "time"
# Rigol DS1000Z: the names end in these, and their values stand in the line of units.
_RIGOL = re.compile(r"[^\n]*,\s*Start\s*,\s*Increment\s*,?\s*\r?\n", re.IGNORECASE)
# The column of whole numbers that may count the samples there.
_COUNT = "x"


def is_rigol(opening: str) -> bool:
    """Return whether a file that begins with `opening` is a waveform of a Rigol DS1000Z."""
    return _RIGOL.match(opening) is not None


def read_rigol(path: Path, text: str) -> TextTable:
    """Read the waveform of a Rigol DS1000Z.

    Its first line is "X,CH1,CH2,Start,Increment", its second "Sequence,Volt,Volt,-6e-02,2e-05"; the
    samples follow, with a number in front of each where the names begin with X.

    Args:
        path: File, for messages.
        text: Its contents.

    Returns:
        The table, with a column "time" in seconds first.

    Raises:
        InputError: Start or increment is no number, or the samples are none.
    """
    first, second, *_ = [split_line(line, ",") for line in text.split("\n", 2)]
    count = len(first) - 2
    start_s, step_s = (_number(cell) for cell in (second + [""] * len(first))[count : count + 2])
    if not (np.isfinite(start_s) and 0 < step_s < np.inf):
        raise InputError(f"{path}: the second line gives no start and increment of the time, in s")
    names = [printable(name).strip() or f"column{i + 1}" for i, name in enumerate(first[:count])]
    try:
        frame = pd.read_csv(
            io.StringIO(text), skiprows=2, header=None, names=names, usecols=range(count), on_bad_lines="skip"
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} cannot be read as a table: {printable(str(error))}") from error
    units = [printable(unit) for unit in second[:count]]
    number = np.arange(len(frame), dtype=np.float64)
    if names and names[0].lower() == _COUNT:
        number = as_numbers(frame.pop(names[0]))
        units = units[1:]
    frame.insert(0, _TIME, start_s + step_s * number, allow_duplicates=True)
    return TextTable(frame, ("s", *units), ("",) * 3, ",", 0, has_header=True)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def expand_waveform(path: Path, table: TextTable) -> TextTable:
    """Add what the settings above a waveform say of it: the time of its rows, names and units.

    Args:
        path: File, for messages.
        table: The rows of an export; any other table is returned as it is.

    Returns:
        The table with a column "time" in seconds first where it had none, and with the names and
        units of the traces where the settings give them.

    Raises:
        InputError: The sampling rate is not a number above zero.
    """
    settings = [split_line(line, table.separator) for line in table.preamble]
    if time_column(list(table.frame.columns), table.units) is not None:
        return replace(table, units=table.units or tuple(_row(settings, _UNITS, len(table.frame.columns))))
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
        if not 0 < value < np.inf:
            raise InputError(f"{path}: {printable(cells[0])} must be above zero, not {value:g}")
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

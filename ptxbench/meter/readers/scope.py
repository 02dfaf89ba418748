"""Exports of oscilloscopes and recorders that give a sampling rate in place of a column of time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import POINT
from ptxbench.core.printable import printable
from ptxbench.meter.readers.cells import numbers
from ptxbench.meter.readers.columns import time_columns
from ptxbench.meter.readers.names import OPENINGS, PATTERNS
from ptxbench.meter.readers.stamps import SampleClock
from ptxbench.meter.readers.text import TextTable, settings_of, unique_names
from ptxbench.storage.text_file import TextFile

# The column of whole numbers that may count the samples there.
_COUNT = "x"


def is_rigol(opening: str) -> bool:
    """Return whether a file that begins with `opening` is a waveform of a Rigol DS1000Z."""
    return OPENINGS["rigol"].match(opening) is not None


def read_rigol(file: TextFile) -> TextTable:
    """Return the waveform of a Rigol DS1000Z.

    Its first line is "X,CH1,CH2,Start,Increment", its second "Sequence,Volt,Volt,-6e-02,2e-05"; the
    samples follow, with a number in front of each where the names begin with X.

    Raises:
        InputError: Start or increment is no number.
    """
    lines = list(islice(chain.from_iterable(file.lines()), 3))
    first, second, sample = ([*(settings_of(line, ",") for line in lines), [], []])[:3]
    count = len(first) - 2
    start_s, step_s = numbers((second + [""] * len(first))[count : count + 2], POINT).tolist()
    if not (math.isfinite(start_s) and 0 < step_s < math.inf):
        raise InputError(f"{file.path}: the second line gives no start and increment of the time, in s")
    names = unique_names(first[:count])
    counter = names[0] if names and names[0].lower() == _COUNT else None
    return TextTable(
        file,
        names=names,
        units=tuple(printable(unit) for unit in second[:count]),
        preamble=("",) * 3,
        sample=(tuple(sample),),
        separator=",",
        first_line=2,
        header=lines[0],
        is_ended=lines[-1].rstrip().endswith(","),
        clock=SampleClock(start_s, step_s, counter),
    )


def expand_waveform(table: TextTable) -> TextTable:
    """Add what the settings above a waveform say of it: the time of its rows, names and units.

    Args:
        table: The rows of an export; any other table is returned as it is.

    Returns:
        The table with the sampling of its rows where it has no column of time, and with the names and
        units of the traces where the settings give them.

    Raises:
        InputError: The sampling rate is not a number above zero.
    """
    settings = [settings_of(line, table.separator) for line in table.preamble]
    width = len(table.names)
    if time_columns(table) is not None:
        return replace(table, units=table.units or tuple(_row(settings, PATTERNS["units"], width)))
    period_s = _period_s(table.path, settings)
    if period_s is None:
        return table
    names = unique_names(_row(settings, PATTERNS["traces"], width) or table.names)
    units = tuple(_row(settings, PATTERNS["units"], width)) or table.units
    return replace(table, names=names, units=units, header=" ", clock=SampleClock(0.0, period_s))


def _period_s(path: Path, settings: list[list[str]]) -> float | None:
    for cells in settings:
        is_rate = PATTERNS["rate"].fullmatch(_key(cells)) is not None
        if len(cells) < 2 or not (is_rate or PATTERNS["interval"].fullmatch(_key(cells))):
            continue
        try:
            value = float(next(cell for cell in cells[1:] if cell))
        except (ValueError, StopIteration):
            continue
        if not 0 < value < math.inf:
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

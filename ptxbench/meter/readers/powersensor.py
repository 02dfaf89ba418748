"""Dump files of PowerSensor (versions 2 and 3): one line a sample, the first word a marker."""

from __future__ import annotations

import re
from dataclasses import replace

from ptxbench.core.errors import InputError
from ptxbench.meter.readers.text import TextTable, read_text_table
from ptxbench.storage.text_file import TextFile

_HEADER = re.compile(r"marker\s+time\s")
_LINE = re.compile(r"[A-Za-z] +[0-9.eE+-]+ ")
_SENSOR = re.compile(r"(current|voltage|power)(\d+)")
_TOTAL = "power_total"
# Version 2 writes a mark as a line of its own, which is no torn sample.
_MARK = "M"


def is_powersensor(opening: str) -> bool:
    """Return whether a file that begins with `opening` is a dump."""
    lines = [line for line in opening.splitlines() if line and not line.startswith("#")]
    return bool(lines) and (
        _HEADER.match(lines[0]) is not None or all(_LINE.match(line) for line in lines[:3])
    )


def read_powersensor(file: TextFile) -> TextTable:
    """Return the table of a dump.

    Version 3 names its columns: marker, time (s, since the start or 1970), dt_micro,
    device_timestamp, then current, voltage and power of each sensor and power_total. A
    user's marker stands in place of the "S" on an ordinary sample. Without that
    line the second word is the time in s and the last the total in W.

    Raises:
        InputError: The lines are no samples.
    """
    table = read_text_table(file, " ")
    if not table.header:
        names = ("marker", "time", *table.names[2:-1], _TOTAL)
        return replace(table, names=names, header=" ".join(names), mark=_MARK)
    written = table.header.split()
    if len(set(written)) < len(written) or not {"time", _TOTAL} <= set(written):
        raise InputError(f"{file.path}: a dump names its columns once each, time and {_TOTAL} among them")
    names = tuple(_SENSOR.sub(r"sensor\2 \1", name) for name in table.names)
    return replace(table, names=names, mark=_MARK)

"""Dump files of PowerSensor (versions 2 and 3): one line a sample, the first word a marker."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.meter.capture import MeterCapture, make_capture, require_forward
from ptxbench.meter.readers.stamps import numbers_to_ns
from ptxbench.meter.readers.table import wrap_notes
from ptxbench.meter.readers.text import as_numbers
from ptxbench.sensors.trace import Float64s

_HEADER = re.compile(r"marker\s+time\s")
_LINE = re.compile(r"[A-Za-z] +[0-9.eE+-]+ ")
# A marker, a time and a power.
_MIN_WORDS = 3
_CHANNEL = re.compile(r"power(\d+)")


def is_powersensor(head: str) -> bool:
    """Return whether a file that begins with `head` is a dump."""
    lines = [line for line in head.splitlines() if line and not line.startswith("#")]
    return bool(lines) and (
        _HEADER.match(lines[0]) is not None or all(_LINE.match(line) for line in lines[:3])
    )


def read_powersensor(path: Path, text: str) -> MeterCapture:
    """Read a dump.

    Version 3 names its columns: marker, time (s, since the start or 1970), dt_micro,
    device_timestamp, then current, voltage and power of each sensor and power_total. A
    user's marker stands in place of the "S" on an ordinary sample. Without that
    line the second word is the time in s and the last the total in W.

    Args:
        path: File.
        text: Its contents.

    Raises:
        InputError: The lines are no samples.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    names = [printable(name) for name in lines.pop(0).split()] if _HEADER.match(lines[0]) else None
    if names is not None and (len(set(names)) < len(names) or not {"time", "power_total"} <= set(names)):
        raise InputError(f"{path}: a dump names its columns once each, time and power_total among them")
    words = np.fromiter((line.count(" ") + 1 for line in lines), np.int64, len(lines))
    if not len(words):
        raise InputError(f"{path} holds a header but no sample")
    width = len(names) if names is not None else int(np.bincount(words).argmax())
    whole = [line for line, count in zip(lines, words.tolist(), strict=True) if count == width]
    # Version 2 writes a mark as a line of its own, which is no torn sample.
    marks = sum(
        count != width and line.startswith("M") for line, count in zip(lines, words.tolist(), strict=True)
    )
    if not whole or width < _MIN_WORDS:
        raise InputError(f"{path}: no line has the {max(width, _MIN_WORDS)} words of a sample")
    # Without names the second word is the time and the last the total.
    columns = names or ["marker", "time", *(f"word{i}" for i in range(3, width)), "power_total"]
    try:
        frame = pd.read_csv(
            io.StringIO("\n".join(whole)), sep=" ", header=None, names=columns, quoting=csv.QUOTE_NONE
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} cannot be read as a dump: {printable(str(error))}") from error
    time_s, total_w = _column(frame, "time"), _column(frame, "power_total")
    rails = tuple(f"sensor{m[1]}" for m in map(_CHANNEL.fullmatch, names or ()) if m is not None) or (
        "total",
    )
    time_ns, readable, wraps = numbers_to_ns(time_s, 1.0)
    total_w[~readable] = np.nan
    require_forward(path, [(name, _column(frame, name)) for name in columns if _CHANNEL.fullmatch(name)])
    return make_capture(
        path,
        time_ns,
        total_w,
        rails=rails,
        origin="PowerSensor dump",
        torn=len(lines) - len(whole) - marks,
        notes=((f"{marks} lines are marks",) if marks else ()) + wrap_notes(wraps),
    )


def _column(frame: pd.DataFrame, name: str) -> Float64s:
    return as_numbers(frame[name])

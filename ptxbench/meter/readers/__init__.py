"""Readers of what external meters log, behind one function."""

from __future__ import annotations

import re
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.readers.mapping import Mapping, read_mapping
from ptxbench.meter.readers.pmd import read_pmd
from ptxbench.meter.readers.powersensor import is_powersensor, read_powersensor
from ptxbench.meter.readers.scope import expand_waveform, is_rigol, read_rigol
from ptxbench.meter.readers.table import table_to_capture
from ptxbench.meter.readers.text import TextTable, read_bytes, read_text_table

__all__ = ["Mapping", "MeterCapture", "read_mapping", "read_meter"]

_HEAD_BYTES = 4096
# Names and units; an instrument writes its settings above them.
_MAX_HEADER_LINES = 2
_NVML_HEADER = re.compile(r"power[._]draw|utilization[._]|power[._]instant", re.IGNORECASE)
_WINDOWS_HEADER = re.compile(r"start_\w+[,;\t]\s*end_")


def read_meter(path: Path, mapping: Mapping | None = None) -> MeterCapture:
    """Read the file of an external meter, whatever its format.

    Args:
        path: CSV or text (also gzip), a PowerSensor dump, a raw PMD-USB capture, an
            oscilloscope's or a power analyser's export.
        mapping: What its columns are, where the header does not say it.

    Returns:
        The capture, by the meter's own clock.

    Raises:
        InputError: The file is none of these, or its power is not a GPU's.
    """
    mapping = mapping or Mapping()
    data = read_bytes(path)
    if not data.strip():
        raise InputError(f"{path} is empty")
    head = data[:_HEAD_BYTES]
    if b"\x00" in head and head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return read_pmd(path, data)
    opening = head.decode("utf-8", errors="replace")
    _refuse_other(path, opening)
    if is_powersensor(opening) and not mapping.rails:
        return read_powersensor(path, data.decode("utf-8", errors="replace"))
    if is_rigol(opening):
        table = read_rigol(path, data.decode("utf-8", errors="replace"))
    else:
        table = expand_waveform(path, read_text_table(path, data, mapping.separator, mapping.decimal))
    return table_to_capture(path, table, mapping, _origin(table))


def _refuse_other(path: Path, opening: str) -> None:
    if _NVML_HEADER.search(opening):
        raise InputError(f"{path} is an NVML log, not a meter's; give it as --nvml")
    if _WINDOWS_HEADER.match(opening.lstrip("\ufeff")):
        raise InputError(f"{path} holds kernel windows, not a meter's readings; give it as --windows")


def _origin(table: TextTable) -> str:
    return "instrument export" if len(table.preamble) > _MAX_HEADER_LINES else "CSV"

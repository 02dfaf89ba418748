"""Readers of what external meters log, behind one function."""

from __future__ import annotations

from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.readers.mapping import Mapping, read_mapping
from ptxbench.meter.readers.names import OPENINGS
from ptxbench.meter.readers.pmd import read_pmd
from ptxbench.meter.readers.powersensor import is_powersensor, read_powersensor
from ptxbench.meter.readers.scope import expand_waveform, is_rigol, read_rigol
from ptxbench.meter.readers.table import table_to_capture
from ptxbench.meter.readers.text import open_text, read_text_table

__all__ = ["Mapping", "MeterCapture", "read_mapping", "read_meter"]

# Names and units; an instrument writes its settings above them.
_MAX_HEADER_LINES = 2


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
    file = open_text(path)
    if not file.head.strip():
        raise InputError(f"{path} is empty")
    if not file.is_text:
        return read_pmd(file)
    _refuse_other(path, file.opening)
    if is_powersensor(file.opening) and not mapping.rails:
        return table_to_capture(read_powersensor(file), mapping, "PowerSensor dump")
    if is_rigol(file.opening):
        table = read_rigol(file)
    else:
        table = expand_waveform(read_text_table(file, mapping.separator, mapping.decimal))
    origin = "instrument export" if len(table.preamble) > _MAX_HEADER_LINES else "CSV"
    return table_to_capture(table, mapping, origin)


def _refuse_other(path: Path, opening: str) -> None:
    if OPENINGS["nvml"].match(opening):
        raise InputError(f"{path} is an NVML log, not a meter's; give it as `nvml`")
    if OPENINGS["windows"].match(opening):
        raise InputError(f"{path} holds kernel windows, not a meter's readings; give it as `windows`")

"""`temperature`: no power, but static power follows it, so that it is recorded beside the power."""

from __future__ import annotations

from typing import Any

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.query_reader import QueryReader


def _reader(library: Any, handle: Any) -> QueryReader:
    """Return the reader of whole degrees Celsius."""
    # nvmlDeviceGetTemperature is the only query in drivers before 565; NVML drops it with CUDA 14.
    query = getattr(library, "nvmlDeviceGetTemperatureV", None) or library.nvmlDeviceGetTemperature
    return QueryReader("temperature", lambda: float(query(handle, library.NVML_TEMPERATURE_GPU)), library)


# No document gives its figures.
SOURCE = PowerSource(
    unit=Unit.CELSIUS, rank=9, documented=lambda _capability: Figures(averaging_s=0.0), reader=_reader
)

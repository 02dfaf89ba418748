"""`temperature`: no power, but static power follows it, so that it is recorded beside the power."""

from __future__ import annotations

from typing import Any

from ptxbench.sensors.base import Figures, PowerSource, Reading, SourceName, Unit, failed_reading


class TemperatureReader:
    """Reads the GPU's temperature in whole degrees Celsius."""

    name = SourceName.TEMPERATURE

    def __init__(self, library: Any, handle: Any) -> None:
        # nvmlDeviceGetTemperature is the only query in drivers before 565; NVML drops it with CUDA 14.
        self._query = getattr(library, "nvmlDeviceGetTemperatureV", None) or library.nvmlDeviceGetTemperature
        self._sensor = library.NVML_TEMPERATURE_GPU
        self._error = library.NVMLError
        self._handle = handle

    def read(self) -> tuple[Reading, ...]:
        """Read once: degrees Celsius."""
        try:
            return (Reading(float(self._query(self._handle, self._sensor))),)
        except self._error as error:
            return failed_reading(error.value)


def _documented(_capability: int) -> Figures:
    """Return its figures; no document gives any."""
    return Figures(averaging_s=0.0)


SOURCE = PowerSource(unit=Unit.CELSIUS, rank=9, documented=_documented, reader=TemperatureReader)

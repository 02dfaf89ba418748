"""`clock`: no power, but the SM clock, which tells why power moves; recorded beside a program."""

from __future__ import annotations

from typing import Any

from ptxbench.sensors.base import Figures, PowerSource, Reading, SourceName, Unit, failed_reading


class ClockReader:
    """Reads the SM clock in MHz."""

    name = SourceName.CLOCK

    def __init__(self, library: Any, handle: Any) -> None:
        self._query = library.nvmlDeviceGetClockInfo
        self._kind = library.NVML_CLOCK_SM
        self._error = library.NVMLError
        self._handle = handle

    def read(self) -> tuple[Reading, ...]:
        """Read once: MHz."""
        try:
            return (Reading(float(self._query(self._handle, self._kind))),)
        except self._error as error:
            return failed_reading(error.value)


def _documented(_capability: int) -> Figures:
    """Return its figures; no document gives any."""
    return Figures(averaging_s=0.0)


SOURCE = PowerSource(unit=Unit.MEGAHERTZ, rank=10, documented=_documented, reader=ClockReader)

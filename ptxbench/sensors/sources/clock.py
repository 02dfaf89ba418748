"""`clock`: no power, but the SM clock, which tells why power moves; recorded beside a program."""

from __future__ import annotations

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.query_reader import QueryReader

SOURCE = PowerSource(
    unit=Unit.MEGAHERTZ,
    rank=10,
    # No document gives its figures.
    documented=lambda _capability: Figures(averaging_s=0.0),
    reader=lambda library, handle: QueryReader(
        "clock", lambda: float(library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)), library
    ),
)

"""`counter`: nvmlDeviceGetTotalEnergyConsumption, joules since the driver was loaded."""

from __future__ import annotations

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.query_reader import in_milli

SOURCE = PowerSource(
    unit=Unit.JOULE,
    rank=2,
    # Seen on an H200 to be refreshed every 100 ms, in steps of 1 mJ.
    documented=lambda _capability: Figures(averaging_s=0.0),
    reader=lambda library, handle: in_milli(
        "counter", library, library.nvmlDeviceGetTotalEnergyConsumption, handle
    ),
)

"""`counter`: nvmlDeviceGetTotalEnergyConsumption, joules since the driver was loaded."""

from __future__ import annotations

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.call_reader import CallReader


def _documented(_capability: int) -> Figures:
    """Return its figures: seen on an H200 to be refreshed every 100 ms, in steps of 1 mJ."""
    return Figures(averaging_s=0.0)


SOURCE = PowerSource(
    unit=Unit.JOULE,
    rank=2,
    documented=_documented,
    reader=lambda library, handle: CallReader(
        "counter", library.nvmlDeviceGetTotalEnergyConsumption, library, handle
    ),
)

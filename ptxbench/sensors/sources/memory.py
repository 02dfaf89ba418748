"""`memory`: the field value NVML_FI_DEV_POWER_AVERAGE in the scope of the memory."""

from __future__ import annotations

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.query_reader import power_field

SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=6,
    # Seen to be a 1 s mean on an H200.
    documented=lambda _capability: Figures(averaging_s=1.0),
    reader=lambda library, handle: power_field(
        "memory", library, handle, library.NVML_FI_DEV_POWER_AVERAGE, library.NVML_POWER_SCOPE_MEMORY
    ),
    whole_board=False,
)

"""`average`: the field value NVML_FI_DEV_POWER_AVERAGE."""

from __future__ import annotations

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.query_reader import power_field

SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=5,
    # The NVML API reference names it as the 1 s average of nvmlDeviceGetPowerUsage.
    documented=lambda _capability: Figures(averaging_s=1.0),
    reader=lambda library, handle: power_field(
        "average", library, handle, library.NVML_FI_DEV_POWER_AVERAGE, library.NVML_POWER_SCOPE_GPU
    ),
)

"""`average`: the field value NVML_FI_DEV_POWER_AVERAGE."""

from __future__ import annotations

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.field_reader import FieldReader


def _documented(_capability: int) -> Figures:
    """Return its figures: the NVML API reference names it as the 1 s average of nvmlDeviceGetPowerUsage."""
    return Figures(averaging_s=1.0)


SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=5,
    documented=_documented,
    reader=lambda library, handle: FieldReader(
        "average", library.NVML_FI_DEV_POWER_AVERAGE, library.NVML_POWER_SCOPE_GPU, library, handle
    ),
)

"""`memory`: the field value NVML_FI_DEV_POWER_AVERAGE in the scope of the memory."""

from __future__ import annotations

from ptxbench.sensors.base import Figures, PowerSource, Unit
from ptxbench.sensors.field_reader import FieldReader


def _documented(_capability: int) -> Figures:
    """Return its figures: seen to be a 1 s mean on an H200."""
    return Figures(averaging_s=1.0)


SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=6,
    documented=_documented,
    reader=lambda library, handle: FieldReader(
        "memory", library.NVML_FI_DEV_POWER_AVERAGE, library.NVML_POWER_SCOPE_MEMORY, library, handle
    ),
    whole_board=False,
)

"""`instant`: the field value NVML_FI_DEV_POWER_INSTANT."""

from __future__ import annotations

from ptxbench.sensors.base import GA100, Figures, PowerSource, Unit
from ptxbench.sensors.query_reader import power_field


def _documented(capability: int) -> Figures:
    """Return its figures.

    Yang et al., "Part-time Power Measurements" (arXiv:2312.02741): A100 and H100 sense 25% of the run time;
    an H200 was seen to sense about 25 ms of each 100 ms.
    """
    return Figures(averaging_s=0.025 if capability >= GA100 else 0.0)


SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=3,
    documented=_documented,
    reader=lambda library, handle: power_field(
        "instant", library, handle, library.NVML_FI_DEV_POWER_INSTANT, library.NVML_POWER_SCOPE_GPU
    ),
)

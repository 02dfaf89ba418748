"""`usage`: nvmlDeviceGetPowerUsage, what nvidia-smi shows."""

from __future__ import annotations

from ptxbench.sensors.base import GA100, Figures, PowerSource, Unit
from ptxbench.sensors.query_reader import in_milli


def _documented(capability: int) -> Figures:
    """Return its figures.

    NVML API reference, nvmlDeviceGetPowerUsage: a 1 s average on Ampere (except GA100) and newer,
    instantaneous on GA100 and older. "Instantaneous" on GA100 is 25 ms of each 100 ms (Yang et al.,
    "Part-time Power Measurements", arXiv:2312.02741).
    """
    if capability == GA100:
        return Figures(averaging_s=0.025)
    return Figures(averaging_s=1.0 if capability > GA100 else 0.0)


SOURCE = PowerSource(
    unit=Unit.WATT,
    rank=4,
    documented=_documented,
    reader=lambda library, handle: in_milli("usage", library, library.nvmlDeviceGetPowerUsage, handle),
)

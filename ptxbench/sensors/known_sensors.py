"""What is documented about NVML's power sources, before anything was measured on a GPU."""

from __future__ import annotations

from ptxbench.catalogue.architecture import architecture_of, capability_of
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import ALIKE, SensorDescription, Shape
from ptxbench.sensors.sources import source_of

# NVML returns whole mW and mJ.
_QUANTUM = 1e-3


def sensor_for(source: SourceName, target: str) -> SensorDescription:
    """Return what is documented about `source` on GPUs of one target.

    Refresh and averaging are documented with the source (`ptxbench/sensors/sources`), what the GPU's own
    regulation does to the power with the generation (`ptxbench/catalogue/architectures`). No document gives
    the lag; where it was not measured on boards alike it is 0. Measure it with `ptxbench doctor sensor`.

    Args:
        source: Which source.
        target: PTX and SASS target of the GPU, such as "sm_90a".

    Raises:
        InputError: `target` is not of the form "sm_90" or "sm_90a".
    """
    figures = source_of(source).documented(capability_of(target))
    architecture = architecture_of(target)
    return SensorDescription(
        source=source,
        refresh_s=figures.refresh_s,
        averaging_s=figures.averaging_s,
        lag_s=figures.lag_s,
        quantum=_QUANTUM,
        origin=ALIKE if figures.is_measured else "documented",
        shape=Shape.EXPONENTIAL if figures.is_low_pass else Shape.BOXCAR,
        regulation_s=architecture.regulation_s.value,
        excursion=architecture.excursion_rise(source),
    )

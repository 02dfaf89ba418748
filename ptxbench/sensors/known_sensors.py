"""What is documented about NVML's power sources, before anything was measured on a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptxbench.core.errors import InputError
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription

_GA100 = 80
_HOPPER = 90


@dataclass(frozen=True)
class _Figures:
    refresh_s: float
    averaging_s: float


_AVERAGE_1S = _Figures(refresh_s=0.1, averaging_s=1.0)
_QUARTER_OF_100MS = _Figures(refresh_s=0.1, averaging_s=0.025)
_POINT = _Figures(refresh_s=0.1, averaging_s=0.0)
# Steps of about one percent that a launch brings are over after two ticks of a clock of 100 ms.
_HOPPER_REGULATION_S = 0.2
# Above 400 W power may rise by more than this within a kernel; readings scatter by a tenth of it.
_HOPPER_EXCURSION = 0.013
# NVML returns whole mW and mJ.
_QUANTUM = 1e-3

_SINCE_AMPERE = {
    SourceName.USAGE: _AVERAGE_1S,
    SourceName.INSTANT: _QUARTER_OF_100MS,
    SourceName.AVERAGE: _AVERAGE_1S,
    SourceName.MEMORY: _AVERAGE_1S,
    SourceName.SAMPLES: _Figures(refresh_s=0.02, averaging_s=0.06),
    SourceName.COUNTER: _POINT,
}
_GA100_FIGURES = _SINCE_AMPERE | {SourceName.USAGE: _QUARTER_OF_100MS}
_BEFORE_AMPERE = _SINCE_AMPERE | {SourceName.USAGE: _POINT, SourceName.INSTANT: _POINT}

# Sources best for the power of a steady kernel first; the others keep NVML's order.
PREFERENCE = (
    SourceName.SAMPLES,
    SourceName.COUNTER,
    SourceName.INSTANT,
    SourceName.USAGE,
    SourceName.AVERAGE,
    SourceName.MEMORY,
)


def sensor_for(source: SourceName, target: str) -> SensorDescription:
    """Return what is documented about `source` on GPUs of one target.

    Where the figures come from:
        `usage`: NVML API reference, nvmlDeviceGetPowerUsage: a 1 s average on Ampere
            (except GA100) and newer, instantaneous on GA100 and older.
        `average`, `memory`: the same page points to NVML_FI_DEV_POWER_AVERAGE for that
            average; the memory scope was seen to be a 1 s mean on an H200.
        `instant` (and `usage` on GA100): Yang et al., "Part-time Power Measurements"
            (arXiv:2312.02741): A100 and H100 sense 25% of the run time; an H200 was
            seen to sense about 25 ms of each 100 ms.
        `samples`: seen on an H200: a new sample every 20.0 ms, which follows a step of
            power to 1% only after 60 ms. What a sample averages over is not documented;
            those 60 ms are taken.
        `counter`: seen on an H200: refreshed every 100 ms, in steps of 1 mJ.
        Refresh of everything else: no document gives it; 100 ms, the slowest seen, so
            that a reading is never taken for settled too early.
        Regulation: seen on H200s: after a launch the power of a kernel may lie one percent lower until
            a tick of some clock of 100 ms (studies/h200/power.md).
        Excursions: seen on H200s in `samples`, the only source that is fast enough to show them.
        Lag: no document gives it; 0. Measure it with `ptxbench sensor`.

    Args:
        source: Which source.
        target: PTX and SASS target of the GPU, such as "sm_90a".

    Raises:
        InputError: `target` is not of the form "sm_90" or "sm_90a".
    """
    match = re.fullmatch(r"sm_(\d+)[af]?", target)
    if match is None:
        raise InputError(f"target {target!r} is not known: give it as sm_90 or sm_90a")
    capability = int(match.group(1))
    if capability == _GA100:
        figures = _GA100_FIGURES[source]
    else:
        figures = (_SINCE_AMPERE if capability > _GA100 else _BEFORE_AMPERE)[source]
    is_hopper = capability == _HOPPER
    return SensorDescription(
        source=source,
        refresh_s=figures.refresh_s,
        averaging_s=figures.averaging_s,
        lag_s=0.0,
        quantum=_QUANTUM,
        origin="documented",
        regulation_s=_HOPPER_REGULATION_S if is_hopper else 0.0,
        excursion=_HOPPER_EXCURSION if is_hopper and source is SourceName.SAMPLES else 0.0,
    )

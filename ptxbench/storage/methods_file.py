"""How far each method is off on each source, as `ptxbench doctor methods` keeps it (methods.json)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription

METHODS_FILE = "methods.json"


class LoadKind(StrEnum):
    """How power goes within a kernel."""

    CONSTANT = "constant"
    RAMPED = "ramped"
    BURSTY = "bursty"


@dataclass(frozen=True)
class SourceLevels:
    """What one source reads of long loads.

    Attributes:
        source: Source.
        idle_w: Power of the idle GPU.
        steady_w: Power at full load.
        ratio: `steady_w` over that of the best source, 1 where their gains agree.
    """

    source: SourceName
    idle_w: float
    steady_w: float
    ratio: float


@dataclass(frozen=True)
class MethodPoint:
    """One method on one source, for one kind of load and one duration; NaN where there is nothing.

    Attributes:
        kind: Load.
        requested_s: Requested duration.
        duration_s: Mean duration as it came, first begin to last end.
        method: "sma", "papi", "mtsm", "collector", "median", "capacitance", "corrected", "counter" or
            "difference".
        source: Source.
        runs: Runs.
        answered: Runs for which the method gave an energy.
        reference_j: Mean energy by the long-window reference of the same source.
        bias_pct: Mean of 100 (energy / reference - 1).
        spread_pct: Standard deviation of it over the runs; NaN for fewer than two.
        predicted_pct: The bias predicted from the sensor's description.
        predicted_spread_pct: The spread that comes from the phase of the refresh, predicted.
    """

    kind: LoadKind
    requested_s: float
    duration_s: float
    method: str
    source: SourceName
    runs: int
    answered: int
    reference_j: float
    bias_pct: float
    spread_pct: float
    predicted_pct: float
    predicted_spread_pct: float


@dataclass(frozen=True)
class MethodsFile:
    """The comparison of all methods on one GPU.

    Attributes:
        gpu: The board.
        sensors: What its sources are like.
        levels: What each source reads of long loads.
        points: Every method, source, load and duration.
        recommendations: What to do, a sentence each.
        notes: What disturbed the measurement, a sentence each.
    """

    gpu: GpuInfo
    sensors: tuple[SensorDescription, ...]
    levels: tuple[SourceLevels, ...]
    points: tuple[MethodPoint, ...]
    recommendations: tuple[str, ...]
    notes: tuple[str, ...]

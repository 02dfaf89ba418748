"""What `ptxbench doctor` found out about a machine and a GPU (doctor.json)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ptxbench.core.gpu_info import GpuInfo
from ptxbench.energy.gate.verdict import SourceVerdict
from ptxbench.sensors.base import SourceName
from ptxbench.storage.document import read_document

DOCTOR_FILE = "doctor.json"


class State(StrEnum):
    """What a verdict comes to."""

    OK = "ok"
    NOTE = "note"
    BAD = "bad"
    MISSING = "missing"
    DO_NOT_USE = "do not use"


@dataclass(frozen=True)
class Verdict:
    """One line.

    Attributes:
        subject: What it is about: "driver", a power source, "counter".
        state: What it comes to. Where anything is MISSING, nothing can be measured.
        text: What was found, and what to do.
    """

    subject: str
    state: State
    text: str


@dataclass(frozen=True)
class MethodError:
    """How far off a method is for kernels of one duration.

    Attributes:
        duration_s: The duration.
        bias: Mean of (energy / true energy - 1); NaN where there is no answer.
        error: Root of the mean square of the same, with what noise adds; infinite where there is not always
            an answer.
    """

    duration_s: float
    bias: float
    error: float


@dataclass(frozen=True)
class MethodReach:
    """What one method makes of one source, for a kernel of even power between idle times.

    Attributes:
        method: "papi", "mtsm", "corrected" or "counter".
        short: What it does for a kernel of 100 ms.
        long: What it does for a kernel of 3 s.
        serves_from_s: Duration from which on its error stays under 2%; infinite where no tried one is.
    """

    method: str
    short: MethodError
    long: MethodError
    serves_from_s: float


@dataclass(frozen=True)
class SourceReach:
    """What can be measured with one source.

    Attributes:
        source: Which source.
        methods: What each method makes of it.
    """

    source: SourceName
    methods: tuple[MethodReach, ...]


@dataclass(frozen=True)
class CounterCheck:
    """The energy counter beside the integral of a power source, over one stretch of even power.

    Attributes:
        load: "idle" or "under load".
        span_s: Time between the counter's steps that are compared.
        counter_j: Energy of that time by the counter.
        integral_j: Energy by the source.
        error_j: Standard error of their difference.
        source: Which source.
    """

    load: str
    span_s: float
    counter_j: float
    integral_j: float
    error_j: float
    source: SourceName


@dataclass(frozen=True)
class DoctorFile:
    """Everything that was found.

    Attributes:
        gpu: The GPU, None where there is none.
        verdicts: Every line, in order.
        sources: What can be measured with each source that followed the load.
        counter: The counter beside the best other source.
        power: What the counter says of that source; None in files of before this was kept.
    """

    gpu: GpuInfo | None
    verdicts: tuple[Verdict, ...]
    sources: tuple[SourceReach, ...] = ()
    counter: tuple[CounterCheck, ...] = ()
    power: SourceVerdict | None = None

    @property
    def states(self) -> frozenset[State]:
        """What its verdicts come to."""
        return frozenset(verdict.state for verdict in self.verdicts)


def known_difference(sensor: Path, info: GpuInfo) -> float:
    """Return by how much power source and energy counter of a board are known to differ, as a fraction.

    Args:
        sensor: What `--sensor` names: `ptxbench doctor` keeps it in its own folder, beside doctor.json.
        info: The board.

    Returns:
        0 where `ptxbench doctor` did not compare them, or not on this board.

    Raises:
        InputError: doctor.json is there and cannot be read.
    """
    folders = (sensor, sensor.parent, sensor.parent.parent)
    path = next((folder / DOCTOR_FILE for folder in folders if (folder / DOCTOR_FILE).exists()), None)
    if path is None:
        return 0.0
    document = read_document(path, DoctorFile, "doctor_version")
    is_same = document.gpu is not None and document.gpu.uuid_hash == info.uuid_hash
    return document.power.scale_uncertainty if is_same and document.power is not None else 0.0

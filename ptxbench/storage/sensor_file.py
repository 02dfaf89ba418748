"""The description of a GPU's power sources that `ptxbench doctor sensor` keeps (sensor.json)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuInfo
from ptxbench.sensors.characterize.probe import SensorCharacterization
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.document import read_document

SENSOR_FILE = "sensor.json"
# The folder below that of `ptxbench doctor`.
DOCTOR_SENSOR = "sensor"
RULE = (
    "the default source gives the steady power of the shortest kernel to 0.5%: "
    "time to settle, plus readings until their noise is averaged out; memory is no board power"
)


@dataclass(frozen=True)
class SensorFile:
    """Every source of one GPU, measured.

    Attributes:
        gpu: The board.
        sources: What was found, best for steady power first.
        documented: What is documented of the same sources.
        rule: How the first of them was chosen.
        notes: What disturbed the measurement, a sentence each.
    """

    gpu: GpuInfo
    sources: tuple[SensorCharacterization, ...]
    documented: tuple[SensorDescription, ...]
    rule: str
    notes: tuple[str, ...]

    @property
    def sensors(self) -> tuple[SensorDescription, ...]:
        """The descriptions alone, best for steady power first."""
        return tuple(source.sensor for source in self.sources)

    @property
    def best(self) -> SensorDescription:
        """The default source."""
        return self.sources[0].sensor


def read_sensor_file(path: Path) -> SensorFile:
    """Read a description by the name of its file, or of the folder that holds it, perhaps that of `doctor`.

    Raises:
        InputError: It cannot be read, is of a newer version, or does not fit.
    """
    file = path / SENSOR_FILE if path.is_dir() else path
    of_doctor = path / DOCTOR_SENSOR / SENSOR_FILE
    file = of_doctor if of_doctor.exists() else file
    document = read_document(file, SensorFile, "sensor_version")
    if not document.sources:
        raise InputError(f"{file} describes no power source; measure again with `ptxbench doctor sensor`")
    return document


def sensors_of(
    path: Path, info: GpuInfo, known: Sequence[SensorDescription]
) -> tuple[SensorDescription, ...]:
    """Return the measured descriptions, best first, of the sources in `known`.

    Args:
        path: The file, or the folder that holds it.
        info: The GPU that they are to be used for.
        known: Descriptions of the sources that it answers.

    Raises:
        InputError: The file cannot be read, is of another GPU model or driver, or shares no source.
    """
    document = read_sensor_file(path)
    for key in ("name", "driver"):
        old, new = getattr(document.gpu, key), getattr(info, key)
        if old != new:
            raise InputError(
                f"{path} describes the sensors of {key} {old}, and this is {new}: "
                "run `ptxbench doctor sensor` here"
            )
    answering = {sensor.source for sensor in known}
    sensors = tuple(sensor for sensor in document.sensors if sensor.source in answering)
    if not sensors:
        raise InputError(f"{path} describes no power source that this GPU answers")
    return sensors

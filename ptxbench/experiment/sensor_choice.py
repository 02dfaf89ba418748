"""Which power source a run measures with, and how long a kernel must run for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptxbench.core.errors import InputError
from ptxbench.devices.base import Gpu
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.storage.sensor_file import sensors_of

# Fresh readings that the settled part of a window should hold: of a single kernel, and of one that is
# run again in every round.
_READINGS = 20
_ROUND_READINGS = 7
_MIN_WINDOW_S = 0.5


def sensors_for(path: Path, gpu: Gpu) -> tuple[SensorDescription, ...]:
    """Return the measured descriptions of the sources that a GPU answers; see `sensors_of`."""
    return sensors_of(path, gpu.info, gpu.sensors)


def choose_sensor(
    gpu: Gpu, source: SourceName | None, sensors: Sequence[SensorDescription] = ()
) -> SensorDescription:
    """Return the power source to measure with.

    Args:
        gpu: The GPU; its `sensors` are best for steady power first.
        source: The source to use, or None for the best.
        sensors: What `ptxbench doctor sensor` found about them, best first; none: as the GPU describes them.

    Raises:
        InputError: The GPU does not answer that source.
    """
    known = tuple(sensors) or gpu.sensors
    if source is None:
        return known[0]
    for sensor in known:
        if sensor.source == source:
            return sensor
    names = ", ".join(sensor.source for sensor in known)
    raise InputError(f"{gpu.info.name} does not answer the power source '{source}'; it answers: {names}")


def board_sensor(sensors: Sequence[SensorDescription]) -> SensorDescription:
    """Return the first, which is the best, power source that speaks of the whole board."""
    return next(s for s in sensors if s.is_of_board)


def default_window_s(sensor: SensorDescription) -> float:
    """Return a kernel duration that leaves the sensor time to settle and some readings after it."""
    return max(_MIN_WINDOW_S, sensor.settle_s + _READINGS * max(sensor.refresh_s, 0.001))


def short_window_s(sensor: SensorDescription) -> float:
    """Return a kernel duration for rounds: time to settle, and a few readings.

    Rounds scatter by what changes between them more than by the sensor's noise within them, so that
    another round tells more than a longer window. The GPU's regulation is waited for as far as half of the
    kernel is left (`settled_after_s`).
    """
    readings_s = _ROUND_READINGS * max(sensor.refresh_s, 0.001)
    return max(sensor.settle_s, min(sensor.regulation_s, readings_s)) + readings_s

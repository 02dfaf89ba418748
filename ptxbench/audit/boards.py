"""What is known of a board and its sensors: as measured on it, on boards alike, or by documents."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from ptxbench.audit.claim import Span
from ptxbench.core.gpu_info import ANY_BOARD_W
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import ALIKE, SensorDescription, Shape
from ptxbench.sensors.known_sensors import sensor_for
from ptxbench.storage.sensor_file import read_sensor_file

# Of a board that no file names: it draws no less than nothing and no more than any board, and what is
# documented since Ampere holds.
_ANY_TARGET = "sm_86"
_UNNAMED = "what is documented since Ampere, as the file does not name its GPU (`gpu_name`)"
# Boards of before Ampere, whose power NVML does not call a mean over 1 s.
_OLDER = re.compile(
    r"\b(GTX|TITAN|QUADRO|20[6-8]0|[KMP]\d{1,3}\w?|V100S?|T4|T[4-6][05]0|T1[02]00|T2000)\b", re.I
)
_OLDER_TARGET = "sm_75"
# A mean power is above the limit for short: by 3% over windows of a second.
_OVER_LIMIT = 1.03
# Between a board at rest and one that has just worked, beside the idle power that was measured.
_AT_REST = 0.5
_JUST_WORKED = 1.15


@dataclass(frozen=True)
class KnownBoard:
    """What an audit goes by.

    Attributes:
        name: Name of the GPU, or a part of it.
        target: Its target.
        limit_w: Power limit; infinite where it is not known.
        most_w: The most that it draws for a second or longer.
        idle_w: Power at rest and just after work.
        sensors: Those that were measured, on the board or on boards alike.
        origin: Where all this comes from.
    """

    name: str
    target: str
    limit_w: float
    most_w: float
    idle_w: Span
    sensors: tuple[SensorDescription, ...]
    origin: str

    def sensor(self, source: SourceName) -> SensorDescription:
        """Return what is known of a source: measured on the board, on boards alike, or documented."""
        found = next((one for one in self.sensors if one.source == source), None)
        return found if found is not None else sensor_for(source, self.target)


def measured_board(path: Path) -> KnownBoard:
    """Return the board that `ptxbench doctor` measured.

    Args:
        path: Folder or file of `ptxbench doctor` or `ptxbench doctor sensor`.

    Raises:
        InputError: It cannot be read.
    """
    document = read_sensor_file(path)
    idle_w = [one.idle_w.value for one in document.sources if one.sensor.is_of_board]
    idle = Span(_AT_REST * min(idle_w), _JUST_WORKED * max(idle_w)) if idle_w else Span(0.0, 0.0)
    gpu = document.gpu
    limit_w = gpu.power_limit_w
    origin = f"measured on this board ({path})"
    return KnownBoard(gpu.name, gpu.target, limit_w, _OVER_LIMIT * limit_w, idle, document.sensors, origin)


def board_named(name: str) -> KnownBoard:
    """Return what is known of boards of a name; what is documented where that is nothing.

    Args:
        name: As NVML gives it, or a part of it; "" where it is not known.
    """
    known = next((one for one in _boards() if _is_named(one.name, name)), None)
    if known is not None:
        return known
    is_older = _OLDER.search(name) is not None
    when = "before Ampere" if is_older else "since Ampere"
    origin = f"what is documented {when}, as nothing is kept of {name}" if name else _UNNAMED
    target = _OLDER_TARGET if is_older else _ANY_TARGET
    return KnownBoard(name, target, math.inf, ANY_BOARD_W, Span(0.0, ANY_BOARD_W), (), origin)


def with_limit(board: KnownBoard, limit_w: float) -> KnownBoard:
    """Return a board at the limit that a file says, 0 where it says none."""
    return replace(board, limit_w=limit_w, most_w=_OVER_LIMIT * limit_w) if limit_w > 0 else board


def _is_named(model: str, name: str) -> bool:
    """Return whether a name has a model in it as words of its own: an A4000 is no A40."""
    return re.search(rf"(?<![a-z0-9]){re.escape(model.lower())}(?![a-z0-9])", name.lower()) is not None


@cache
def _boards() -> tuple[KnownBoard, ...]:
    text = files("ptxbench.audit").joinpath("boards.toml").read_text(encoding="utf-8")
    return tuple(
        KnownBoard(
            one["name"],
            one["target"],
            float(one.get("limit_w", math.inf)),
            float(one.get("most_w", _OVER_LIMIT * one.get("limit_w", math.inf))),
            Span(*map(float, one["idle_w"])),
            tuple(
                SensorDescription(
                    source=SourceName(sensor["source"]),
                    refresh_s=sensor["refresh_s"],
                    averaging_s=sensor["averaging_s"],
                    lag_s=sensor["lag_s"],
                    quantum=1e-3,
                    origin=ALIKE,
                    shape=Shape(sensor.get("shape", Shape.BOXCAR)),
                )
                for sensor in one.get("sensors", ())
            ),
            one["origin"],
        )
        for one in tomllib.loads(text)["boards"]
    )

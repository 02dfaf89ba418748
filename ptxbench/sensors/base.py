"""What a power source is, and one reading of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from ptxbench.core.plugins import plugin_names

# nvmlReturn_t: an error that says no more, and those of a GPU that is gone (GPU_IS_LOST, RESET_REQUIRED).
UNKNOWN_CODE = 999
LOST_CODES = (15, 16)
# Compute capabilities, times ten, from which on or for which alone power sources are documented otherwise.
GA100, HOPPER = 80, 90


def further_sources(
    named: Mapping[str, object], folder: Path = Path(__file__).parent / "sources"
) -> Iterable[tuple[str, str]]:
    """Return the sources of the folder that no code has to name, as members of `SourceName`.

    Args:
        named: The members that are there already.
        folder: A file a source.
    """
    return [(name.upper(), name) for name in plugin_names([str(folder)]) if name.upper() not in named]


class SourceName(StrEnum):
    """The readings that ptxbench records, of NVML and of meters: the files of `ptxbench/sensors/sources`.

    Those that other code names stand here; any other file of the folder is a member as well.
    """

    USAGE = "usage"
    INSTANT = "instant"
    AVERAGE = "average"
    MEMORY = "memory"
    SAMPLES = "samples"
    COUNTER = "counter"
    TEMPERATURE = "temperature"
    CLOCK = "clock"
    vars().update(further_sources(vars()))


# What is recorded beside the power.
_BESIDE = (SourceName.TEMPERATURE, SourceName.CLOCK)
POWER_SOURCES = tuple(name for name in SourceName if name not in _BESIDE)


class Unit(StrEnum):
    """What a source's values are in."""

    WATT = "W"
    JOULE = "J"
    CELSIUS = "C"
    MEGAHERTZ = "MHz"


@dataclass(frozen=True, slots=True)
class Reading:
    """One value as the source gave it.

    Attributes:
        value: In the unit of its source; NaN where the read failed.
        stamp_epoch_ns: The driver's own time stamp (UTC, ns), or -1 where it gives none.
        code: The nvmlReturn code; 0 is success.
    """

    value: float
    stamp_epoch_ns: int = -1
    code: int = 0


def failed_reading(code: int = 0) -> tuple[Reading, ...]:
    """Return what a read that failed gives.

    Args:
        code: nvmlReturn; 0: NVML gave none, or a value of a type that is not known.
    """
    return (Reading(math.nan, code=code or UNKNOWN_CODE),)


class Reader(Protocol):
    """Reads one source of one GPU."""

    @property
    def name(self) -> SourceName:
        """Which source this is."""
        ...

    def read(self) -> tuple[Reading, ...]:
        """Read once.

        Returns:
            One reading, or for `samples` every buffered reading that is newer than
            the last call's. A failed read is one reading with NaN and its code: a
            source never raises, so that one bad read does not end a measurement.
        """
        ...


@dataclass(frozen=True)
class Figures:
    """What is documented of a source on one kind of GPU.

    Attributes:
        averaging_s: Length of the running mean that one value is (0: a point).
        refresh_s: Time between two new values. Hardly a document gives it; 100 ms is the slowest seen, so
            that a reading is never taken for settled too early.
        lag_s: Age of the newest instant that a fresh value covers. No document gives it.
        is_low_pass: Whether a value is a low-pass of that mean age, and no running mean.
        is_measured: Whether the figures were measured on boards of this model.
    """

    averaging_s: float
    refresh_s: float = 0.1
    lag_s: float = 0.0
    is_low_pass: bool = False
    is_measured: bool = False


@dataclass(frozen=True)
class PowerSource:
    """One way of reading a GPU, without a GPU.

    Attributes:
        unit: What its values are in. One in joules counts energy up, the others tell the moment.
        rank: Its place where the best for the power of a steady kernel comes first.
        documented: What is documented of it, given the compute capability times ten.
        reader: Opens it, given pynvml (or what stands in for it) and an nvmlDevice_t.
        whole_board: Whether it is of the whole board's power, not of a part of it.
        is_stamped: Whether the driver stamps its readings.
        is_external: Whether it is a meter outside of the GPU, which is there where the user named one.
    """

    unit: Unit
    rank: int
    documented: Callable[[int], Figures]
    reader: Callable[[Any, Any], Reader]
    whole_board: bool = True
    is_stamped: bool = False
    is_external: bool = False

"""One way of reading the GPU's power or energy, as a protocol."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class SourceName(StrEnum):
    """The NVML readings that ptxbench records.

    `COUNTER` is in joules and `TEMPERATURE` in degrees Celsius; the others are in watts. The
    temperature is no power source, but static power follows it, so it is recorded beside them.
    """

    USAGE = "usage"
    INSTANT = "instant"
    AVERAGE = "average"
    MEMORY = "memory"
    SAMPLES = "samples"
    COUNTER = "counter"
    TEMPERATURE = "temperature"


POWER_SOURCES = tuple(name for name in SourceName if name is not SourceName.TEMPERATURE)


@dataclass(frozen=True, slots=True)
class Reading:
    """One value as the source gave it.

    Attributes:
        value: In the unit of its source (`SourceName`); NaN where the read failed.
        stamp_epoch_ns: The driver's own time stamp (UTC, ns), or -1 where it gives none.
        code: The nvmlReturn code; 0 is success.
    """

    value: float
    stamp_epoch_ns: int = -1
    code: int = 0


class PowerSource(Protocol):
    """A reader of one source on one GPU."""

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

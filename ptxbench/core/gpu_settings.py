"""What can be set on a GPU: SM clock, memory clock and power limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ptxbench.core.errors import GpuError

_T = TypeVar("_T")

# Step of the SM clocks that NVML lists on H100 and H200, and assumed of other GPUs: closer ones count as one.
CLOCK_STEP_MHZ = 15
# No clock of a GPU is outside.
CLOCKS_MHZ = (1, 100_000)
_WORDS = {
    "sm_clock_mhz": "SM clock {:g} MHz",
    "memory_clock_mhz": "memory clock {:g} MHz",
    "power_limit_w": "power limit {:g} W",
}
_TAGS = {"sm_clock_mhz": "sm", "memory_clock_mhz": "mem", "power_limit_w": "cap"}


class LocksMissingError(GpuError):
    """The clocks of this board, or by this driver, cannot be locked; no lock of it is left."""


@dataclass(frozen=True)
class GpuSettings:
    """Clocks and power limit; None where NVML does not tell, or where nothing is to be set.

    Attributes:
        sm_clock_mhz: SM clock, MHz.
        memory_clock_mhz: Memory clock, MHz.
        power_limit_mw: Power limit in the unit of NVML, mW.
    """

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_mw: int | None = None

    def __str__(self) -> str:
        """Return what is known or set, in words."""
        return ", ".join(_WORDS[axis].format(value) for axis, value in self.by_axis.items()) or "nothing"

    @property
    def tag(self) -> str:
        """Return what is set in short, such as "sm1005,mem2619,cap500"; "" for nothing."""
        return ",".join(f"{_TAGS[axis]}{value:g}" for axis, value in self.by_axis.items())

    @property
    def by_axis(self) -> dict[str, int | float]:
        """Return what is set by the name of its axis: clocks in MHz, the limit in W."""
        limit_w = None if self.power_limit_mw is None else self.power_limit_mw / 1000
        values = {
            "sm_clock_mhz": self.sm_clock_mhz,
            "memory_clock_mhz": self.memory_clock_mhz,
            "power_limit_w": limit_w,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class ClockChoice:
    """SM clocks that go with one memory clock.

    Attributes:
        memory_clock_mhz: Memory clock, MHz.
        sm_clocks_mhz: SM clocks in ascending order, MHz.
    """

    memory_clock_mhz: int
    sm_clocks_mhz: tuple[int, ...]


@dataclass(frozen=True)
class SettingChoices:
    """What a GPU can be set to.

    Attributes:
        clocks: Supported clocks, empty where the GPU has none to set.
        power_limits_mw: Lowest and highest power limit, None where it cannot be set.
    """

    clocks: tuple[ClockChoice, ...]
    power_limits_mw: tuple[int, int] | None


def evenly(values: Sequence[_T], count: int, now: _T | None = None) -> tuple[_T, ...]:
    """Return so many values, spread evenly from the first to the last; all where there are fewer.

    Args:
        values: What there is to choose from.
        count: How many.
        now: A value that comes in addition, if it is one of them.
    """
    if count < 2 or not values:
        steps = {len(values) - 1} if values else set()
    else:
        steps = {round(n * (len(values) - 1) / (count - 1)) for n in range(count)}
    return tuple(value for n, value in enumerate(values) if n in steps or value == now)

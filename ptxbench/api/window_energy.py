"""The energy of a window of a program, of each GPU and of all together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.status import Status


@dataclass(frozen=True)
class GpuEnergy:
    """What one GPU drew in a window.

    Attributes:
        gpu: Name and index.
        energy_j: Energy of the whole board, J; NaN where it is not known.
        interval_j: Low and high end of its 95% interval, J.
        source: NVML reading that it comes from, such as "samples".
        status: "ok"; "window_too_short" where the interval is only what the GPU can have drawn at all;
            "sensor_implausible" with an energy where two sources contradict each other, and the interval
            holds both; another code, or no energy, where nothing is known.
        reason: Why the status is not "ok".
        notes: What else to know, a sentence each.
        is_lost: Whether the GPU stopped answering.
        left_out: Readings around the window that cannot be true, or failed, and do not count.
    """

    gpu: str
    energy_j: float
    interval_j: tuple[float, float]
    source: str
    status: Status = Status.OK
    reason: str = ""
    notes: tuple[str, ...] = ()
    is_lost: bool = False
    left_out: int = 0


@dataclass(frozen=True)
class WindowEnergy:
    """What the GPUs of a monitor drew in a window.

    Attributes:
        name: Name of the window.
        time_s: Its length, s.
        gpus: What each GPU drew.
        method: How the energy was found.
        counts: How many of each unit, such as tokens, were counted within it (`ptxbench.count`).
        idle_w: What the GPUs draw when idle, W (`EnergyMonitor.measure_idle`); NaN where it was not measured.
        idle_half_w: Half-width of its 95% interval.
    """

    name: str
    time_s: float
    gpus: tuple[GpuEnergy, ...]
    method: str
    counts: Mapping[str, float] = field(default_factory=dict)
    idle_w: float = math.nan
    idle_half_w: float = math.nan

    @property
    def energy_j(self) -> float:
        """Energy of all GPUs, J, idle power included; NaN where that of one is not known."""
        return sum(gpu.energy_j for gpu in self.gpus)

    @property
    def energy_above_idle_j(self) -> float:
        """The same above what the GPUs draw when idle, J; NaN where that was not measured."""
        return self.energy_j - self.idle_w * self.time_s

    @property
    def above_idle_interval_j(self) -> tuple[float, float]:
        """Low and high end of the 95% interval of `energy_above_idle_j`, J."""
        low_j, high_j = self.interval_j
        half_j, above_j = self.idle_half_w * self.time_s, self.energy_above_idle_j
        return (
            above_j - math.hypot(self.energy_j - low_j, half_j),
            above_j + math.hypot(high_j - self.energy_j, half_j),
        )

    def per(self, unit: str, *, above_idle: bool = False) -> float:
        """Return the energy of one of a unit that was counted within the window, J.

        Args:
            unit: The unit, as `ptxbench.count` was told it.
            above_idle: Whether idle power is taken off.

        Raises:
            InputError: None of it was counted within the window.
        """
        if not self.counts.get(unit):
            raise InputError(
                f"no {unit!r} was counted within window {self.name!r}: call ptxbench.count({unit!r}, n)"
            )
        return (self.energy_above_idle_j if above_idle else self.energy_j) / self.counts[unit]

    @property
    def interval_j(self) -> tuple[float, float]:
        """Low and high end of the 95% interval of `energy_j`, J.

        It holds what the sensors scatter, miss and smear, not their gain, which only an external meter tells.
        """
        below_j, above_j = (
            math.hypot(*(gpu.energy_j - gpu.interval_j[end] for gpu in self.gpus)) for end in (0, 1)
        )
        return self.energy_j - below_j, self.energy_j + above_j

    @property
    def mean_power_w(self) -> float:
        """Mean power of all GPUs together, W."""
        return self.energy_j / self.time_s if self.time_s > 0 else math.nan

    @property
    def is_resolved(self) -> bool:
        """Whether the energy of every GPU is known by a source that could resolve the window."""
        return all(gpu.status is Status.OK for gpu in self.gpus)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before the energy is used, a sentence each."""
        sentences = [(gpu, text) for gpu in self.gpus for text in (gpu.reason, *gpu.notes) if text]
        return tuple(f"{gpu.gpu}: {text}" for gpu, text in sentences)

    def __repr__(self) -> str:
        return f"<WindowEnergy {self}>"

    def __str__(self) -> str:
        text = f"{self.name}: {energy_text(self.energy_j, self.interval_j, self.time_s)}"
        reasons = [f"{gpu.gpu}: {gpu.reason}" for gpu in self.gpus if gpu.reason]
        return "; ".join((text, *reasons[:1]))


def energy_text(energy_j: float, interval_j: tuple[float, float], time_s: float, digits: int = 4) -> str:
    """Return an energy with its interval and mean power, or that it is not known.

    Args:
        energy_j: The energy, J; NaN where it is not known.
        interval_j: Its 95% interval, J.
        time_s: The time in which it was drawn, s.
        digits: How many digits of an energy are shown.
    """
    if not math.isfinite(energy_j):
        return f"energy not known, in {time_s:.4g} s"
    low_j, high_j = (f"{end:.{digits}g}" for end in interval_j)
    mean_power = f", {energy_j / time_s:.4g} W" if time_s > 0 else ""
    return f"{energy_j:.{digits}g} J (95%: {low_j} to {high_j}) in {time_s:.4g} s{mean_power}"


class GpuLostError(GpuError):
    """A GPU stopped answering within a window.

    Attributes:
        measured: What the window is known to have taken; the energy of the lost GPU is NaN.
    """

    def __init__(self, message: str, measured: WindowEnergy) -> None:
        super().__init__(message)
        self.measured = measured

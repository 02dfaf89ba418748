"""Clocks and the power limit as axes of a search: which values, and the GPU set to each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_settings import GpuSettings, SettingChoices, evenly
from ptxbench.devices.base import Gpu
from ptxbench.devices.select import open_settable
from ptxbench.devices.settings import applied
from ptxbench.tune.candidate import DEFAULT_SETTINGS

_MW_PER_W = 1000


@dataclass(frozen=True)
class Values:
    """Values of one axis, MHz or W.

    Attributes:
        named: Those that the user named.
        even: Or else how many, spread evenly over all that the GPU has.
    """

    named: tuple[int, ...] = ()
    even: int = 0

    @property
    def by_model(self) -> bool:
        """Whether there are none: the estimator ranks all that the GPU has, and nothing is set."""
        return not self.named and not self.even


@dataclass(frozen=True)
class SettingAxes:
    """The axes of a search that are settings; None: left as it is.

    Attributes:
        sm_clocks: SM clocks, MHz.
        memory_clocks: Memory clocks, MHz.
        power_limits: Power limits, W.
    """

    sm_clocks: Values | None = None
    memory_clocks: Values | None = None
    power_limits: Values | None = None

    @property
    def given(self) -> bool:
        """Whether anything is to be set."""
        return self != SettingAxes()

    def combinations(
        self, choices: SettingChoices, now: GpuSettings = DEFAULT_SETTINGS
    ) -> tuple[GpuSettings, ...]:
        """Return every combination of values, the fastest first and the power limit changing fastest.

        Args:
            choices: What the GPU can be set to; where it has none, named values are for `applied` to refuse.
            now: What is set before: its clocks are among the values, so that what a search saves is known.

        Raises:
            InputError: Values are to be spread, and the GPU has none.
        """
        memory_mhz = [choice.memory_clock_mhz for choice in choices.clocks]
        sm_mhz = choices.clocks[-1].sm_clocks_mhz if choices.clocks else ()
        low_mw, high_mw = choices.power_limits_mw or (0, -1)
        limits_w = tuple(range(-(-low_mw // _MW_PER_W), high_mw // _MW_PER_W + 1))
        axes = (
            _picked(self.sm_clocks, sm_mhz, "SM clocks", now.sm_clock_mhz),
            _picked(self.memory_clocks, memory_mhz, "memory clocks", now.memory_clock_mhz),
            _picked(self.power_limits, limits_w, "power limits"),
        )
        return tuple(
            GpuSettings(sm, memory, None if limit_w is None else _MW_PER_W * limit_w)
            for sm, memory, limit_w in product(*axes)
        )


def _picked(
    values: Values | None, every: tuple[int, ...] | list[int], what: str, now: int | None = None
) -> tuple[int | None, ...]:
    if values is None:
        return (None,)
    if values.named:
        before = {mhz for mhz in every if mhz == now}
        return tuple(sorted({*values.named, *before}, reverse=True))
    if not every:
        raise InputError(f"this GPU has no {what} to set; leave the option out")
    return evenly(tuple(every), values.even, now)[::-1]


@dataclass(frozen=True)
class SetGpu:
    """A GPU that is being set.

    Attributes:
        settings: What it will be set to.
        apply: Sets one of them; the same again changes nothing.
        supported_mhz: SM clocks that the GPU has at its highest memory clock, in ascending order.
        full_memory_mhz: Its highest memory clock, NaN where it is not known.
    """

    settings: tuple[GpuSettings, ...]
    apply: Callable[[GpuSettings], None]
    supported_mhz: tuple[int, ...] = ()
    full_memory_mhz: float = math.nan


@contextmanager
def settings_of(
    gpu: Gpu, axes: SettingAxes, say: Callable[[str], None], *, allowed: bool
) -> Iterator[SetGpu]:
    """Let a GPU be set to the values of axes within the block, and restore it on every way out.

    Args:
        gpu: The GPU.
        axes: The values.
        say: Told when the GPU is set and restored.
        allowed: Whether the user gave --allow-settings.

    Raises:
        InputError: It is not allowed, or the GPU does not have such a clock or limit. Nothing was changed.
        GpuError: Another process is on the GPU, or NVML refuses. What was there before is restored.
    """
    if not axes.given:
        yield SetGpu((DEFAULT_SETTINGS,), lambda _: None)
        return
    if not allowed:
        raise InputError("clocks and power limits change the GPU for all its users; add `allow_settings`")
    with open_settable(gpu) as settable:
        choices = settable.choices()
        every = axes.combinations(choices, settable.settings())
        highest = choices.clocks[-1] if choices.clocks else None
        supported_mhz = highest.sm_clocks_mhz if highest else ()
        memory_mhz = float(highest.memory_clock_mhz) if highest else math.nan
        now = [every[0]]
        with applied(settable, every[0], say, allowed=allowed, later=every[1:]) as set_other:

            def apply(wanted: GpuSettings) -> None:
                if wanted != now[0]:
                    set_other(wanted)
                    now[0] = wanted

            yield SetGpu(every, apply, supported_mhz, memory_mhz)

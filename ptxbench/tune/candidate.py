"""What is tried: a variant of a kernel at settings of the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.tune.configuration import Configuration
from ptxbench.tune.expression import Value
from ptxbench.tune.variant import Variant

DEFAULT_SETTINGS = GpuSettings()


@dataclass(frozen=True)
class Candidate:
    """One variant at the settings that the GPU gets for it.

    Attributes:
        variant: Its parameters.
        settings: Clocks and power limit; what is None stays as it is.
    """

    variant: Variant | Configuration
    settings: GpuSettings = DEFAULT_SETTINGS

    @property
    def name(self) -> str:
        """Name of the variant, and its settings in short where there are any."""
        return name_of(self.variant, self.settings)

    @property
    def values(self) -> tuple[Value, ...]:
        """Its parameters, then its settings in the order of `GpuSettings.by_axis`."""
        return (*self.variant.values, *self.settings.by_axis.values())


def name_of(variant: Variant | Configuration, settings: GpuSettings) -> str:
    """Return what a variant at some settings is called, such as "bx=32 @sm1005,cap500"."""
    return f"{variant.name} @{settings.tag}" if settings.tag else variant.name

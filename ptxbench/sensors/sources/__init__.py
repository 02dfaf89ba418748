"""The power sources: one file each, found by being in this folder.

A file defines `SOURCE`, a `PowerSource`: its unit, its reader, and what is documented of it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from ptxbench.sensors.base import POWER_SOURCES, PowerSource, SourceName


@cache
def source_of(name: SourceName) -> PowerSource:
    """Return what is known of a source."""
    source = import_module(f"{__name__}.{name}").SOURCE
    assert isinstance(source, PowerSource)  # noqa: S101
    return source


@cache
def best_first() -> tuple[SourceName, ...]:
    """Return the sources, best for the power of a steady kernel first; what is no power is last."""
    return tuple(sorted(SourceName, key=lambda name: source_of(name).rank))


@cache
def nvml_sources() -> tuple[SourceName, ...]:
    """Return the power sources that are readings of NVML, without meters outside of the GPU."""
    return tuple(name for name in POWER_SOURCES if not source_of(name).is_external)

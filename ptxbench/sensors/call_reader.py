"""Reads a source that is one NVML call which returns one number in thousandths (mW, mJ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxbench.sensors.base import Reading, SourceName, failed_reading

_MILLI = 1000


class CallReader:
    """Makes the call.

    Args:
        name: Of the source.
        query: The NVML function.
        library: pynvml, or what stands in for it.
        handle: nvmlDevice_t as pynvml gives it.
    """

    def __init__(self, name: str, query: Callable[[Any], int], library: Any, handle: Any) -> None:
        self.name = SourceName(name)
        self._query = query
        self._error = library.NVMLError
        self._handle = handle

    def read(self) -> tuple[Reading, ...]:
        """Read once: W, or J for an energy counter."""
        try:
            return (Reading(self._query(self._handle) / _MILLI),)
        except self._error as error:
            return failed_reading(error.value)

"""The NVML power sources, each behind `PowerSource`; a failed call becomes NaN and its code."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from ptxbench.sensors.base import PowerSource, Reading, SourceName

MILLI = 1000
_NS_PER_US = 1000
_UNKNOWN_CODE = 999
# Reads without news after which the whole buffer is looked at: seconds, at the rate of a recording.
_SILENT_READS = 5000
# Member of nvmlValue_t that holds the value, by nvmlValueType_t.
_VALUE_MEMBER = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


def _failed(code: int) -> tuple[Reading, ...]:
    return (Reading(math.nan, code=code or _UNKNOWN_CODE),)


class ScalarSource:
    """A source that is one NVML call which returns one number in thousandths.

    Serves `usage` (nvmlDeviceGetPowerUsage, mW) and `counter`
    (nvmlDeviceGetTotalEnergyConsumption, mJ).
    """

    def __init__(self, name: SourceName, function: str, library: Any, handle: Any) -> None:
        self._name = name
        self._query = getattr(library, function)
        self._error = library.NVMLError
        self._handle = handle

    @property
    def name(self) -> SourceName:
        """Which source this is."""
        return self._name

    def read(self) -> tuple[Reading, ...]:
        """Read once: W, or J for the counter."""
        try:
            return (Reading(self._query(self._handle) / MILLI),)
        except self._error as error:
            return _failed(error.value)


class FieldSource:
    """A source that is one NVML field value in mW: `instant`, `average` or `memory`.

    The time stamp of a field value is ignored: NVML sets it when it is asked, so it
    says nothing about when the sensor measured.
    """

    def __init__(self, name: SourceName, field_id: int, scope_id: int, library: Any, handle: Any) -> None:
        self._name = name
        self._fields = [(field_id, scope_id)]
        self._query = library.nvmlDeviceGetFieldValues
        self._error = library.NVMLError
        self._handle = handle

    @property
    def name(self) -> SourceName:
        """Which source this is."""
        return self._name

    def read(self) -> tuple[Reading, ...]:
        """Read once: W."""
        try:
            (field,) = self._query(self._handle, self._fields)
        except self._error as error:
            return _failed(error.value)
        # The call succeeds even where this field does not; its value is then undefined.
        if field.nvmlReturn != 0:
            return _failed(field.nvmlReturn)
        member = _VALUE_MEMBER.get(field.valueType)
        if member is None:
            return _failed(_UNKNOWN_CODE)
        return (Reading(getattr(field.value, member) / MILLI),)


class TemperatureSource:
    """The GPU's temperature in whole degrees Celsius."""

    name = SourceName.TEMPERATURE

    def __init__(self, library: Any, handle: Any) -> None:
        # nvmlDeviceGetTemperature is the only query in drivers before 565; NVML drops it with CUDA 14.
        self._query = getattr(library, "nvmlDeviceGetTemperatureV", None) or library.nvmlDeviceGetTemperature
        self._sensor = library.NVML_TEMPERATURE_GPU
        self._error = library.NVMLError
        self._handle = handle

    def read(self) -> tuple[Reading, ...]:
        """Read once: degrees Celsius."""
        try:
            return (Reading(float(self._query(self._handle, self._sensor))),)
        except self._error as error:
            return _failed(error.value)


class SamplesSource:
    """The driver's own buffer of time-stamped power samples, read incrementally.

    The first read returns the whole buffer, seconds of it before this process asked. Where the system's
    clock is set back, nothing would be newer than the last read until it caught up: after a long silence
    reading goes on from the newest sample there is.
    """

    name = SourceName.SAMPLES

    def __init__(self, library: Any, handle: Any) -> None:
        self._nvml = library
        self._query = library.nvmlDeviceGetSamples
        self._handle = handle
        self._kind = library.NVML_TOTAL_POWER_SAMPLES
        self._not_found = library.NVML_ERROR_NOT_FOUND
        self._last_us = 0
        self._silent_reads = 0

    def read(self) -> tuple[Reading, ...]:
        """Read every sample that is newer than the last read's, oldest first: W."""
        try:
            value_type, samples = self._query(self._handle, self._kind, self._last_us)
        except self._nvml.NVMLError as error:
            if error.value != self._not_found:
                return _failed(error.value)
            # NVML says "not found" where there is nothing newer, which is no failure.
            self._note_silence()
            return ()
        member = _VALUE_MEMBER.get(value_type)
        if member is None:
            return _failed(_UNKNOWN_CODE)
        newer = sorted(
            (int(s.timeStamp), getattr(s.sampleValue, member)) for s in samples if s.timeStamp > self._last_us
        )
        if newer:
            self._last_us = newer[-1][0]
            self._silent_reads = 0
        return tuple(Reading(value / MILLI, stamp_us * _NS_PER_US) for stamp_us, value in newer)

    def _note_silence(self) -> None:
        self._silent_reads += 1
        if self._silent_reads < _SILENT_READS:
            return
        self._silent_reads = 0
        with suppress(self._nvml.NVMLError):
            _, samples = self._query(self._handle, self._kind, 0)
            self._last_us = min(self._last_us, max((int(s.timeStamp) for s in samples), default=0))


def make_source(name: SourceName, library: Any, handle: Any) -> PowerSource:
    """Return the reader of `name` for an open NVML device handle.

    Args:
        name: Which source.
        library: pynvml, or what stands in for it.
        handle: nvmlDevice_t as pynvml gives it.
    """
    if name is SourceName.SAMPLES:
        return SamplesSource(library, handle)
    if name is SourceName.TEMPERATURE:
        return TemperatureSource(library, handle)
    if name is SourceName.USAGE:
        return ScalarSource(name, "nvmlDeviceGetPowerUsage", library, handle)
    if name is SourceName.COUNTER:
        return ScalarSource(name, "nvmlDeviceGetTotalEnergyConsumption", library, handle)
    field_id, scope_id = {
        SourceName.INSTANT: (library.NVML_FI_DEV_POWER_INSTANT, library.NVML_POWER_SCOPE_GPU),
        SourceName.AVERAGE: (library.NVML_FI_DEV_POWER_AVERAGE, library.NVML_POWER_SCOPE_GPU),
        SourceName.MEMORY: (library.NVML_FI_DEV_POWER_AVERAGE, library.NVML_POWER_SCOPE_MEMORY),
    }[name]
    return FieldSource(name, field_id, scope_id, library, handle)

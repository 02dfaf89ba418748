"""Reads a source that is one NVML field value in mW."""

from __future__ import annotations

from typing import Any

from ptxbench.sensors.base import Reading, SourceName, failed_reading

_MILLI = 1000
# Member of nvmlValue_t that holds the value, by nvmlValueType_t.
VALUE_MEMBER = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


class FieldReader:
    """Reads the field.

    The time stamp of a field value is ignored: NVML sets it at the query, not when the sensor measured.

    Args:
        name: Of the source.
        field_id: NVML_FI_DEV_... of the field.
        scope_id: NVML_POWER_SCOPE_... of the field.
        library: pynvml, or what stands in for it.
        handle: nvmlDevice_t as pynvml gives it.
    """

    def __init__(self, name: str, field_id: int, scope_id: int, library: Any, handle: Any) -> None:
        self.name = SourceName(name)
        self._fields = [(field_id, scope_id)]
        self._query = library.nvmlDeviceGetFieldValues
        self._error = library.NVMLError
        self._handle = handle

    def read(self) -> tuple[Reading, ...]:
        """Read once: W."""
        try:
            (field,) = self._query(self._handle, self._fields)
        except self._error as error:
            return failed_reading(error.value)
        # The call succeeds even where this field does not; its value is then undefined.
        if field.nvmlReturn != 0:
            return failed_reading(field.nvmlReturn)
        member = VALUE_MEMBER.get(field.valueType)
        if member is None:
            return failed_reading()
        return (Reading(getattr(field.value, member) / _MILLI),)

"""Reads a source that is one query, as of NVML, which gives one number or fails with a code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxbench.sensors.base import UNKNOWN_CODE, Reading, SourceName, failed_reading

_MILLI = 1000
# Member of nvmlValue_t that holds the value, by nvmlValueType_t.
VALUE_MEMBER = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


class QueryReader:
    """Makes the query.

    Args:
        name: Of the source.
        query: Returns the number in the unit of the source, or raises the library's error.
        library: pynvml, or what stands in for it; None: the query never fails.
    """

    def __init__(self, name: str, query: Callable[[], float], library: Any = None) -> None:
        self.name = SourceName(name)
        self._query = query
        self._error = () if library is None else library.NVMLError

    def read(self) -> tuple[Reading, ...]:
        """Read once."""
        try:
            return (Reading(self._query()),)
        except self._error as error:
            return failed_reading(error.value)


def in_milli(name: str, library: Any, function: Callable[[Any], int], handle: Any) -> QueryReader:
    """Return the reader of a function that gives mW or mJ."""
    return QueryReader(name, lambda: function(handle) / _MILLI, library)


def power_field(name: str, library: Any, handle: Any, field_id: int, scope_id: int) -> QueryReader:
    """Return the reader of a field value in mW.

    Its time stamp is ignored: NVML sets it at the query, not when the sensor measured.

    Args:
        name: Of the source.
        library: pynvml, or what stands in for it.
        handle: nvmlDevice_t as pynvml gives it.
        field_id: NVML_FI_DEV_... of the field.
        scope_id: NVML_POWER_SCOPE_... of the field.
    """
    fields = [(field_id, scope_id)]

    def watts() -> float:
        (field,) = library.nvmlDeviceGetFieldValues(handle, fields)
        # The call succeeds even where this field does not; its value is then undefined.
        member = VALUE_MEMBER.get(field.valueType)
        if field.nvmlReturn != 0 or member is None:
            raise library.NVMLError(field.nvmlReturn or UNKNOWN_CODE)
        return float(getattr(field.value, member)) / _MILLI

    return QueryReader(name, watts, library)

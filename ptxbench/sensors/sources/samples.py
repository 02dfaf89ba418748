"""`samples`: nvmlDeviceGetSamples, the driver's own buffer of time-stamped power samples."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ptxbench.sensors.base import HOPPER, Figures, PowerSource, Reading, SourceName, Unit, failed_reading
from ptxbench.sensors.query_reader import VALUE_MEMBER

_MILLI = 1000
_NS_PER_US = 1000
# Reads without news after which the whole buffer is looked at: seconds, at the rate of a recording.
_SILENT_READS = 5000


class SamplesReader:
    """Reads the buffer incrementally.

    The first read returns the whole buffer, seconds of it before this process began. Where the system's
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
                return failed_reading(error.value)
            # NVML says "not found" where there is nothing newer, which is no failure.
            self._note_silence()
            return ()
        member = VALUE_MEMBER.get(value_type)
        if member is None:
            return failed_reading()
        newer = sorted(
            (int(s.timeStamp), getattr(s.sampleValue, member)) for s in samples if s.timeStamp > self._last_us
        )
        if newer:
            self._last_us = newer[-1][0]
            self._silent_reads = 0
        return tuple(Reading(value / _MILLI, stamp_us * _NS_PER_US) for stamp_us, value in newer)

    def _note_silence(self) -> None:
        self._silent_reads += 1
        if self._silent_reads < _SILENT_READS:
            return
        self._silent_reads = 0
        with suppress(self._nvml.NVMLError):
            _, samples = self._query(self._handle, self._kind, 0)
            self._last_us = min(self._last_us, max((int(s.timeStamp) for s in samples), default=0))


def _documented(capability: int) -> Figures:
    """Return its figures.

    On two H100s and an H200 (results/, studies/sampling/seen.md) a sample is a low-pass with a time
    constant of 13.5 to 14.1 ms, its newest moment 3.4 to 4.0 ms before it was made, every 20.0 ms. Elsewhere
    what a sample averages over is not documented: 60 ms, after which it follows a step of power to 1%.
    """
    if capability == HOPPER:
        return Figures(averaging_s=0.0275, refresh_s=0.02, lag_s=0.0038, is_low_pass=True, is_measured=True)
    return Figures(averaging_s=0.06, refresh_s=0.02)


SOURCE = PowerSource(unit=Unit.WATT, rank=1, documented=_documented, reader=SamplesReader, is_stamped=True)

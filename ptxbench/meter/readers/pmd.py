"""Raw serial captures of an ElmorLabs PMD-USB (binary frames, continuous transmission)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError
from ptxbench.meter.capture import CaptureRows, MeterCapture
from ptxbench.sensors.trace import Int64s
from ptxbench.storage.file_errors import read_text
from ptxbench.storage.text_file import TextFile

# A frame: a 16-bit tick counter, then volts and amperes of four channels as 12-bit numbers in the
# upper bits of 16, little-endian (ElmorLabs' serial interface, 2 time-stamp bytes, all channels).
_FRAME = np.dtype([("ticks", "<u2"), ("channels", "<i2", (4, 2))])
_VOLTS_PER_COUNT = 0.007568
_AMPERES_PER_COUNT = 0.0488
# Calibrated by Yang, Adamek and Armour (10.5281/zenodo.13313030); the timer is nominally 3 MHz.
_TICKS_PER_S = 2_933_500.0
_COUNTER_SPAN = 1 << 16
_RAILS = ("channel1", "channel2", "channel3", "channel4")
# What a 12 V rail can be; anything else means that the frames are out of step.
_VOLTS = (10.0, 14.0)
_START_STAMP = "PMD_start_ts.txt"
_MAX_START_US = 4 * 10**15


def read_pmd(file: TextFile) -> MeterCapture:
    """Read a raw capture.

    The counter wraps every 22 ms. Its first tick becomes the host time in the file
    `PMD_start_ts.txt` (us since 1970) beside it, or 0.

    Raises:
        InputError: These are no frames of a PMD-USB.
    """
    # How often each of the channels read each count of volts.
    seen = np.zeros((len(_RAILS), 1 << 12), dtype=np.int64)
    for frames in _frames(file):
        for channel, counts in enumerate(frames["channels"][:, :, 0].T >> 4):
            seen[channel] += np.bincount(counts + (1 << 11), minlength=1 << 12)
    live = [i for i in range(len(_RAILS)) if _VOLTS[0] < _median(seen[i]) * _VOLTS_PER_COUNT < _VOLTS[1]]
    if not live:
        raise InputError(
            f"{file.path} is neither text nor a raw PMD-USB capture (18-byte frames, 12 V rails)"
        )
    rows = CaptureRows(file.path, [_RAILS[i] for i in live])
    start_ns, ticks = _start_ns(file.path), np.zeros(1, dtype=np.int64)
    before = None
    for frames in _frames(file):
        # Ticks only go forward: a step back is a wrap, also where frames were lost before it.
        counter = frames["ticks"].astype(np.int64)
        steps = np.mod(np.diff(counter, prepend=counter[0] if before is None else before), _COUNTER_SPAN)
        ticks, before = ticks[-1] + np.cumsum(steps), counter[-1]
        counts = (frames["channels"] >> 4).astype(np.float64)
        volts, amperes = counts[:, :, 0] * _VOLTS_PER_COUNT, counts[:, :, 1] * _AMPERES_PER_COUNT
        time_ns = start_ns + np.round(ticks / _TICKS_PER_S * 1e9).astype(np.int64)
        rows.add(time_ns, [volts[:, i] * amperes[:, i] for i in live])
    left = sum(map(len, file.blocks())) % _FRAME.itemsize
    notes = (f"{left} bytes of an unfinished frame at the end are left out",) if left else ()
    return rows.capture(origin="PMD-USB raw", notes=notes)


def _frames(file: TextFile) -> Iterator[npt.NDArray[np.void]]:
    """Yield the frames in pieces."""
    rest = b""
    for block in file.blocks():
        data = rest + block
        count = len(data) // _FRAME.itemsize
        rest = data[count * _FRAME.itemsize :]
        if count:
            yield np.frombuffer(data, _FRAME, count)


def _median(seen: Int64s) -> float:
    return float(np.searchsorted(np.cumsum(seen), seen.sum() / 2)) - (1 << 11)


def _start_ns(path: Path) -> int:
    stamp = path.parent / _START_STAMP
    if not stamp.exists():
        return 0
    try:
        start_us = int(read_text(stamp).strip())
    except ValueError as error:
        raise InputError(f"{stamp} holds no start time in us: {error}") from error
    if not 0 <= start_us < _MAX_START_US:
        raise InputError(f"{stamp} holds {start_us}, which is no time in us since 1970")
    return start_us * 1_000

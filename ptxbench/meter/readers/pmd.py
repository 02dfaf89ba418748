"""Raw serial captures of an ElmorLabs PMD-USB (binary frames, continuous transmission)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.meter.capture import MeterCapture, make_capture, require_forward
from ptxbench.storage.file_errors import read_text

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


def read_pmd(path: Path, data: bytes) -> MeterCapture:
    """Read a raw capture.

    The counter wraps every 22 ms. Its first tick becomes the host time in the file
    `PMD_start_ts.txt` (us since 1970) beside it, or 0.

    Args:
        path: File.
        data: Its contents.

    Raises:
        InputError: These are no frames of a PMD-USB.
    """
    count = len(data) // _FRAME.itemsize
    frames = np.frombuffer(data[: count * _FRAME.itemsize], _FRAME)
    counts = (frames["channels"] >> 4).astype(np.float64)
    volts, amperes = counts[:, :, 0] * _VOLTS_PER_COUNT, counts[:, :, 1] * _AMPERES_PER_COUNT
    live = [i for i in range(len(_RAILS)) if count and _VOLTS[0] < np.median(volts[:, i]) < _VOLTS[1]]
    if not live:
        raise InputError(f"{path} is neither text nor a raw PMD-USB capture (18-byte frames, 12 V rails)")
    # Ticks only go forward: a step back is a wrap, also where frames were lost before it.
    steps = np.mod(np.diff(frames["ticks"].astype(np.int64)), _COUNTER_SPAN)
    ticks = np.concatenate([[0], np.cumsum(steps)])
    time_ns = _start_ns(path) + np.round(ticks / _TICKS_PER_S * 1e9).astype(np.int64)
    left = len(data) - count * _FRAME.itemsize
    notes: tuple[str, ...] = (f"{left} bytes of an unfinished frame at the end are left out",) if left else ()
    notes += require_forward(path, [(_RAILS[i], volts[:, i] * amperes[:, i]) for i in live])
    power_w = (volts[:, live] * amperes[:, live]).sum(axis=1)
    rails = tuple(_RAILS[i] for i in live)
    return make_capture(path, time_ns, power_w, rails=rails, origin="PMD-USB raw", notes=notes)


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

"""Reads a meter in a thread, and gives its samples as readings with the host's time.

The meter's clock is not the host's. Bytes are late by what the port and the host take, never early: the least
difference between the time of arrival and the meter's own in the first half second is the offset between
the two. It then changes slowly, so that a clock that drifts by 100 ppm is followed and no reading is dated
before the one that it follows. Samples are averaged over a millisecond.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import cache

import numpy as np

from ptxbench.core.errors import SensorError
from ptxbench.sensors.base import LOST_CODES, Figures, PowerSource, Reading, SourceName, Unit, failed_reading
from ptxbench.sensors.meters.decoders import Decoder
from ptxbench.sensors.meters.port import ADDRESS, Port, open_port
from ptxbench.sensors.trace import Float64s

# How often its readings come is not known before it is measured: a guess (`meter_source`).
_PERIOD_S = 1e-3
# A slow port is looked at so often.
_WAIT_S = 0.05
# How fast the offset may change: more than any quartz drifts.
_DRIFT = 2e-4
# For so long the least delay is looked for before there are readings.
_WARM_S = 0.5
# Ten minutes of a meter of 1 kHz that nobody reads.
_MOST_KEPT = 600_000


def meter_source(name: str, decoder: Callable[[], Decoder], rank: int) -> PowerSource:
    """Return an external meter as a power source.

    Its own averaging is not known: what is given is that of its readings, a millisecond. `ptxbench doctor
    sensor` measures it.

    Args:
        name: Name of the source.
        decoder: Makes what reads its bytes.
        rank: Its place among the sources.
    """

    @cache
    def reader() -> MeterReader:
        """Return the reader of this process: the bytes of a port come once."""
        return MeterReader(name, decoder())

    return PowerSource(
        unit=Unit.WATT,
        rank=rank,
        documented=lambda _capability: Figures(averaging_s=_PERIOD_S, refresh_s=_PERIOD_S),
        reader=lambda _library, _handle: reader(),
        is_stamped=True,
        is_external=True,
    )


def is_named() -> bool:
    """Return whether a meter is named for this process."""
    return bool(os.environ.get(ADDRESS))


class MeterReader:
    """A meter as a power source.

    Args:
        name: Of the source.
        decoder: What its bytes mean.
        port: Its bytes; None: of the address in `PTXBENCH_METER`, opened at the first read.
        epoch_ns: The host's time since 1970.
    """

    def __init__(
        self,
        name: str,
        decoder: Decoder,
        port: Port | None = None,
        epoch_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.name = SourceName(name)
        self._decoder = decoder
        self._port = port
        self._epoch_ns = epoch_ns
        self._offset_ns: float | None = None
        self._first_s = self._latest_s = 0.0
        self._pending: list[tuple[Float64s, Float64s]] = []
        self._kept: deque[Reading] = deque(maxlen=_MOST_KEPT)
        self._lost = False
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self) -> tuple[Reading, ...]:
        """Return the samples that came since the last call, oldest first: W; it never raises."""
        if self._thread is None and not self._start():
            return failed_reading(LOST_CODES[0])
        with self._lock:
            found = tuple(self._kept)
            self._kept.clear()
        return failed_reading(LOST_CODES[0]) if self._lost and not found else found

    def _start(self) -> bool:
        """Open the meter and the thread; whether that worked."""
        try:
            self._port = self._port if self._port is not None else open_port(os.environ.get(ADDRESS, ""))
            self._decoder.begin(self._port)
        except (OSError, SensorError):
            return False
        me = weakref.ref(self)
        self._thread = threading.Thread(target=_follow, args=(me, self._port, self._stopped), daemon=True)
        weakref.finalize(self, _stop, self._stopped, self._port, self._decoder)
        self._thread.start()
        return True

    def take(self, data: bytes) -> None:
        """Keep the samples of bytes that have just come."""
        arrived_ns = self._epoch_ns()
        time_s, power_w = self._decoder.feed(data)
        if not len(time_s):
            return
        self._follow_clock(arrived_ns, float(time_s[-1]))
        self._pending.append((time_s, power_w))
        self._average()

    def lose(self) -> None:
        """Note that the meter is gone."""
        self._lost = True

    def _follow_clock(self, arrived_ns: int, latest_s: float) -> None:
        seen_ns = arrived_ns - latest_s * 1e9
        if self._offset_ns is None or latest_s < self._latest_s:
            self._offset_ns, self._first_s = seen_ns, latest_s  # the first, or a meter that began anew
            self._pending = []
        elif not self._is_warm:
            self._offset_ns = min(self._offset_ns, seen_ns)
        else:
            most_ns = _DRIFT * (latest_s - self._latest_s) * 1e9
            self._offset_ns += min(max(seen_ns - self._offset_ns, -most_ns), most_ns)
        self._latest_s = latest_s

    @property
    def _is_warm(self) -> bool:
        return self._latest_s - self._first_s >= _WARM_S

    def _average(self) -> None:
        """Make readings of whole milliseconds, each dated at their middle."""
        time_s, power_w = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        block = np.floor(time_s / _PERIOD_S + 1e-6).astype(np.int64)
        whole = block != block[-1]
        if len(time_s) > 1 and (time_s[-1] - time_s[0]) / (len(time_s) - 1) >= _PERIOD_S:
            whole[:] = True  # a meter that is slower than that: each sample counts by itself
            block = np.arange(len(time_s))
        self._pending = [(time_s[~whole], power_w[~whole])] if not whole.all() else []
        if not whole.any() or self._offset_ns is None or not self._is_warm:
            return
        starts = np.flatnonzero(np.diff(block[whole], prepend=block[0] - 1))
        counts = np.diff(starts, append=int(whole.sum()))
        at_s = np.add.reduceat(time_s[whole], starts) / counts
        mean_w = np.add.reduceat(power_w[whole], starts) / counts
        stamps_ns = np.round(self._offset_ns + at_s * 1e9).astype(np.int64)
        made = [Reading(float(w), int(ns)) for w, ns in zip(mean_w, stamps_ns, strict=True)]
        with self._lock:
            self._kept.extend(made)


def _follow(reader: weakref.ref[MeterReader], port: Port, stopped: threading.Event) -> None:
    """Give a reader the bytes of its port, as long as it is there."""
    while not stopped.is_set():
        try:
            data = port.read(_WAIT_S)
        except (OSError, ValueError):
            if (found := reader()) is not None:
                found.lose()
            return
        found = reader()
        if found is None:
            return
        if data:
            found.take(data)
        del found


def _stop(stopped: threading.Event, port: Port, decoder: Decoder) -> None:
    stopped.set()
    try:
        decoder.end(port)
        port.close()
    except OSError:
        return  # it is gone already

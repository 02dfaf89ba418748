"""Reads power sources again and again, and keeps every reading with its time."""

from __future__ import annotations

import random
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

from ptxbench.core.clock import Clock
from ptxbench.core.errors import SensorError
from ptxbench.sensors.base import Reader, Reading
from ptxbench.sensors.trace import KernelWindow, Series, Trace


class _Log:
    """Readings of one source; flat arrays, because a flat-out recording holds millions.

    Args:
        source: The source.
        is_compact: Keep only the first and the last of several readings of one value.
    """

    def __init__(self, source: Reader, *, is_compact: bool) -> None:
        self.source = source
        self._is_compact = is_compact
        self.begin_ns = array("q")
        self.end_ns = array("q")
        self.value = array("d")
        self.stamp_epoch_ns = array("q")
        self.code = array("q")

    def add(self, begin_ns: int, end_ns: int, readings: tuple[Reading, ...]) -> None:
        for reading in readings:
            if self._is_compact and self._repeats(reading):
                self.begin_ns[-1], self.end_ns[-1] = begin_ns, end_ns
                continue
            self.begin_ns.append(begin_ns)
            self.end_ns.append(end_ns)
            self.value.append(reading.value)
            self.stamp_epoch_ns.append(reading.stamp_epoch_ns)
            self.code.append(reading.code)

    def forget(self, before_ns: int) -> None:
        """Drop the readings whose calls ended before a moment."""
        count = bisect_left(self.end_ns, before_ns)
        for column in (self.begin_ns, self.end_ns, self.value, self.stamp_epoch_ns, self.code):
            del column[:count]

    def _repeats(self, reading: Reading) -> bool:
        """Return whether a reading without a stamp equals the last two."""
        same = self.value[-2:] == array("d", [reading.value, reading.value])
        return same and reading.stamp_epoch_ns < 0 and reading.code == self.code[-1] == 0

    def series(self, epoch_offset_ns: int, since_ns: int) -> Series:
        first = bisect_left(self.end_ns, since_ns)
        stamp = np.array(self.stamp_epoch_ns[first:], dtype=np.int64)
        # A stamp from before the clock's zero is still a stamp, which -1 would deny.
        moved = np.maximum(stamp - epoch_offset_ns, 0)
        return Series(
            source=self.source.name,
            begin_ns=np.array(self.begin_ns[first:], dtype=np.int64),
            end_ns=np.array(self.end_ns[first:], dtype=np.int64),
            value=np.array(self.value[first:], dtype=np.float64),
            stamp_ns=np.where(stamp >= 0, moved, -1),
            code=np.array(self.code[first:], dtype=np.int64),
        )


class Sampler:
    """Records one trace; the recording begins when the sampler is made.

    Args:
        sources: What to read, no source twice.
        clock: Host clock of the trace.
        interval_s: Mean time between two polls for whoever drives `poll` (`wait_s`); 0: flat out.
        throttle_poll: Read at every poll, a bit mask of clocks event reasons.
        exactly_s: Time between two polls, kept, instead of that mean.
        is_compact: Keep of several readings of one value the first and the last, for recordings of hours.
    """

    def __init__(
        self,
        sources: Sequence[Reader],
        clock: Clock,
        interval_s: float,
        throttle_poll: Callable[[], int] | None = None,
        *,
        exactly_s: float | None = None,
        is_compact: bool = False,
    ) -> None:
        self._lock = threading.Lock()
        self._interval_s = interval_s
        self._exactly_s = exactly_s
        self._clock = clock
        self._throttle_poll = throttle_poll
        self._throttle_ns = array("q")
        self._throttle_mask = array("Q")
        self._logs = [_Log(source, is_compact=is_compact) for source in sources]
        self._begin_ns = clock.now_ns()
        self._chance = random.Random(self._begin_ns)  # noqa: S311
        epoch_ns = clock.epoch_ns()
        # Halfway between two looks at the monotonic clock, in case the process was paused.
        self._epoch_offset_ns = epoch_ns - (self._begin_ns + clock.now_ns()) // 2

    def wait_s(self) -> float:
        """Return how long to wait for the next poll: by chance half the interval to one and a half of it.

        A step of an energy counter is seen late by what passes until the next poll. Polls in step with the
        counter would see all steps of a run late alike, and no scatter would show the error of its powers.
        """
        if self._exactly_s is not None:
            return self._exactly_s
        return self._interval_s * (0.5 + self._chance.random())

    def poll(self) -> None:
        """Read each source once and keep every reading that it gives."""
        now_ns = self._clock.now_ns
        for log in self._logs:
            begin_ns = now_ns()
            readings = log.source.read()
            with self._lock:
                log.add(begin_ns, now_ns(), readings)
        if self._throttle_poll is not None:
            mask = self._throttle_poll()
            self._throttle_ns.append(now_ns())
            self._throttle_mask.append(mask)

    def throttle_reasons(self, window: KernelWindow) -> int:
        """Return the bitwise or of the clocks event reasons polled in `window`; 0 where none was."""
        at_ns = np.array(self._throttle_ns, dtype=np.int64)
        mask = np.array(self._throttle_mask, dtype=np.uint64)
        inside = (at_ns >= window.start_ns) & (at_ns <= window.end_ns)
        return int(np.bitwise_or.reduce(mask[inside]))

    def forget(self, before_ns: int) -> None:
        """Drop the readings that were made before a moment of the host's clock."""
        with self._lock:
            for log in self._logs:
                log.forget(before_ns)

    @property
    def begin_ns(self) -> int:
        """Host time at which the recording began."""
        return self._begin_ns

    def finish(self, since_ns: int = 0) -> Trace:
        """Return what was read so far; any thread may ask.

        Driver stamps are moved from UTC to the host's monotonic time by the offset
        between the two clocks when the recording began.

        Args:
            since_ns: Host time; readings of calls that ended before it are left out.
        """
        with self._lock:
            return Trace(
                begin_ns=self._begin_ns,
                end_ns=self._clock.now_ns(),
                series=tuple(log.series(self._epoch_offset_ns, since_ns) for log in self._logs),
            )


class SamplerThread:
    """Polls a sampler from a thread of its own, from before a launch until after its end.

    A poll takes no lock that the launching thread holds or waits for.

    Args:
        sampler: What to poll; what it has read stays in it, also when the thread fails.
        answer_timeout_s: How long `start` and `stop` wait for a poll to return.
    """

    def __init__(self, sampler: Sampler, answer_timeout_s: float = 10.0) -> None:
        self._sampler = sampler
        self._answer_timeout_s = answer_timeout_s
        self._polled = threading.Event()
        self._asked_to_stop = threading.Event()
        self._failure: BaseException | None = None
        # A daemon, so that an NVML call that never returns cannot keep the process alive.
        self._thread = threading.Thread(target=self._run, name="ptxbench-sampler", daemon=True)

    def start(self) -> None:
        """Begin to poll, and return once the first poll is complete.

        Raises:
            SensorError: A poll failed already, or the first one did not return.
        """
        self._thread.start()
        if not self._polled.wait(self._answer_timeout_s):
            self._asked_to_stop.set()
            raise self._silent()
        self._raise_failure()

    def stop(self) -> Trace:
        """Poll once more, end the thread and return the trace.

        Raises:
            SensorError: A poll failed or did not return; `Sampler.finish` gives what was read.
        """
        self._asked_to_stop.set()
        self._thread.join(self._answer_timeout_s)
        if self._thread.is_alive():
            raise self._silent()
        self._raise_failure()
        return self._sampler.finish()

    def _run(self) -> None:
        try:
            self._sampler.poll()
            self._polled.set()
            while not self._asked_to_stop.wait(self._sampler.wait_s()):
                self._sampler.poll()
            self._sampler.poll()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._polled.set()

    def _silent(self) -> SensorError:
        return SensorError(
            f"a power reading did not return for {self._answer_timeout_s:g} s:"
            " the GPU or its driver hangs; see whether `nvidia-smi` answers"
        )

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise SensorError(
                f"reading power failed ({type(self._failure).__name__}: {self._failure});"
                " see whether `nvidia-smi` answers"
            ) from self._failure

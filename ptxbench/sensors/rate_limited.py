"""A reader whose queries are too slow to be made at every poll."""

from __future__ import annotations

from ptxbench.core.clock import Clock
from ptxbench.sensors.base import Reader, Reading

# Temperature and clock move slowly, and their queries cost time.
_EVERY_NS = 50_000_000


class RateLimitedReader:
    """A reader that reads at most every 50 ms.

    Args:
        reader: What reads.
        clock: Tells the time.
    """

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader, self.name = reader, reader.name
        self._clock = clock
        self._next_ns = 0

    def read(self) -> tuple[Reading, ...]:
        """Read, or return nothing where the last time was not long ago."""
        now_ns = self._clock.now_ns()
        if now_ns < self._next_ns:
            return ()
        self._next_ns = now_ns + _EVERY_NS
        return self._reader.read()

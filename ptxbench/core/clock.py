"""Time as a dependency: the host's monotonic clock, or a virtual one that moves only by command."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol


class Clock(Protocol):
    """Monotonic host time in nanoseconds, and a way to wait."""

    def now_ns(self) -> int:
        """Return monotonic time in ns."""
        ...

    def sleep_s(self, duration_s: float) -> None:
        """Wait for `duration_s` seconds of this clock."""
        ...

    def epoch_ns(self) -> int:
        """Return UTC time in ns since 1970, read beside `now_ns`."""
        ...


class HostClock:
    """The real clock: CLOCK_MONOTONIC and CLOCK_REALTIME."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC in ns."""
        return time.monotonic_ns()

    def sleep_s(self, duration_s: float) -> None:
        """Block this thread."""
        time.sleep(duration_s)

    def epoch_ns(self) -> int:
        """Return CLOCK_REALTIME in ns."""
        return time.time_ns()


@dataclass
class _Ticker:
    """A call that is due again and again."""

    call: Callable[[], None]
    wait_s: Callable[[], float]
    next_ns: int


class VirtualClock:
    """A clock that moves only by `sleep_s`, and calls tickers on the way.

    The simulated GPU runs the very sampler of a real run from a ticker, so that
    a minute of measuring takes a moment.
    """

    def __init__(self, start_ns: int = 1_000_000_000, epoch_offset_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._epoch_offset_ns = epoch_offset_ns
        self._tickers: list[_Ticker] = []

    def now_ns(self) -> int:
        """Return virtual time in ns."""
        return self._now_ns

    def epoch_ns(self) -> int:
        """Return virtual time plus the fixed offset."""
        return self._now_ns + self._epoch_offset_ns

    def sleep_s(self, duration_s: float) -> None:
        """Move time on, with the ticks that fall into it."""
        end_ns = self._now_ns + round(duration_s * 1e9)
        while self._tickers:
            due = min(self._tickers, key=attrgetter("next_ns"))
            if due.next_ns > end_ns:
                break
            self._now_ns = max(self._now_ns, due.next_ns)
            due.next_ns += max(1, round(due.wait_s() * 1e9))
            due.call()
        self._now_ns = max(self._now_ns, end_ns)

    def start_ticker(self, ticker: Callable[[], None], wait_s: Callable[[], float]) -> None:
        """Call `ticker` now, and again after each `wait_s` until `stop_ticker`."""
        self._tickers.append(_Ticker(ticker, wait_s, self._now_ns))

    def stop_ticker(self, ticker: Callable[[], None]) -> None:
        """Stop calling a ticker."""
        self._tickers = [one for one in self._tickers if one.call != ticker]

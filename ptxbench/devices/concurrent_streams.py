"""Kernels at once, each in a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ptxbench.devices.device_buffer import Call

# CU_STREAM_NON_BLOCKING: such a stream waits for no other unless it is told to.
_NON_BLOCKING = 1
# The stream that a GPU's timer records its events in.
_MAIN = 0

Start = Callable[[Any], object]


class ConcurrentStreams:
    """Streams and their events, made when they are needed in the context that is current.

    Args:
        call: Calls a function of the driver by name.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._begin: Any = None
        self._streams: list[tuple[Any, Any]] = []
        self._used = 0

    def play(self, starts: Sequence[Start]) -> None:
        """Give a round of launches to the GPU; it begins when the one before has ended.

        Args:
            starts: Each launches one kernel in the stream that it is given.

        Raises:
            LaunchError: A kernel could not be launched.
        """
        call = self._call
        self._reserve(len(starts))
        call("cuEventRecord", self._begin, _MAIN)
        used = list(zip(starts, self._streams, strict=False))
        for start, (stream, end) in used:
            call("cuStreamWaitEvent", stream, self._begin, 0)
            start(stream)
            call("cuEventRecord", end, stream)
        for _, (_, end) in used:
            call("cuStreamWaitEvent", _MAIN, end, 0)

    def ends_s(self) -> tuple[float, ...]:
        """Return when each kernel of the last round ended after its beginning, s; the GPU has ended all."""
        ends = (end for _, end in self._streams[: self._used])
        return tuple(float(self._call("cuEventElapsedTime", self._begin, end)) * 1e-3 for end in ends)

    def _reserve(self, count: int) -> None:
        if self._begin is None:
            self._begin = self._call("cuEventCreate", 0)
        while len(self._streams) < count:
            self._streams.append(
                (self._call("cuStreamCreate", _NON_BLOCKING), self._call("cuEventCreate", 0))
            )
        self._used = count

"""The device memory of launches, whatever parameters their kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxbench.devices.argument_buffers import ArgumentBuffers
from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.device_buffer import Call, DeviceBuffer
from ptxbench.devices.loop_buffers import LoopBuffers, Stamps


class LaunchBuffers:
    """Buffers of ptxbench's own kernels, and of kernels with scalars.

    Args:
        call: Calls a function of the driver by name.
        scratch: What loads and stores of ptxbench's own kernels work on.
    """

    def __init__(self, call: Call, scratch: DeviceBuffer) -> None:
        self._loop = LoopBuffers(call, scratch)
        self._arguments = ArgumentBuffers(call)

    def prepare(self, launches: Sequence[Launch]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Make room for every launch and upload the operands of the first one.

        Returns:
            The parameters of each launch: values and types.

        Raises:
            LaunchError: The threads of a block are no power of two, or too few to have stamps each.
        """
        own, other = _own(launches), [launch for launch in launches if launch.scalars is not None]
        of_own = iter(self._loop.prepare(own) if own else ())
        of_other = iter(self._arguments.prepare(other) if other else ())
        return [next(of_own if launch.scalars is None else of_other) for launch in launches]

    def upload(self, launch: Launch) -> None:
        """Fill the input buffer of one of ptxbench's own kernels; others have theirs filled by `prepare`."""
        if launch.scalars is None:
            self._loop.upload(launch.operands[0])

    def stamps(self, launches: Sequence[Launch]) -> list[Stamps]:
        """Return the stamps of each launch's blocks (`LoopBuffers.stamps`); none of kernels with scalars."""
        own = _own(launches)
        of_own = iter(self._loop.stamps(own) if own else ())
        none = np.zeros((0, 4), np.int64)
        return [next(of_own) if launch.scalars is None else none for launch in launches]

    def clear(self, launch: Launch) -> None:
        """Set the output to 0xFF, which is NaN in every float format."""
        (self._loop if launch.scalars is None else self._arguments).clear(launch)

    def output(self, launch: Launch, size: int) -> Bytes:
        """Return the first bytes of a launch's output, shape (size,)."""
        if launch.parameters is not None and size:
            return self._arguments.written(launch)[:size]
        return (self._loop if launch.scalars is None else self._arguments).output(size)

    def release(self) -> None:
        """Give all memory back."""
        self._loop.release()
        self._arguments.release()


def _own(launches: Sequence[Launch]) -> list[Launch]:
    return [launch for launch in launches if launch.scalars is None]

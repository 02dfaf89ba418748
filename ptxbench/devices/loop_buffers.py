"""The device memory of ptxbench's own kernels: operands, output, scratch and stamps."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import LaunchError
from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.device_buffer import CLEARED, Call, DeviceBuffer

_STAMPS = 4
_STAMPS_BYTES = 8 * _STAMPS
_PARAMETER_TYPES = (*[ctypes.c_uint64] * 4, ctypes.c_uint32)

Stamps = npt.NDArray[np.int64]


def _stamps_bytes(launch: Launch) -> int:
    """Return how much room the stamps of a launch take: a block's begin at a byte for each thread before it.

    So a kernel finds the place by the one register that tells its thread, and without a division.

    Raises:
        LaunchError: The kernel would not find it so.
    """
    if launch.block & (launch.block - 1) or (launch.grid > 1 and launch.block < _STAMPS_BYTES):
        raise LaunchError(
            f"{launch.kernel} in {launch.grid} blocks of {launch.block} threads: give a power of two, and "
            f"{_STAMPS_BYTES} or more where there are several blocks"
        )
    return max(launch.grid * launch.block, _STAMPS_BYTES)


class LoopBuffers:
    """The four buffers of a context; each block of each launch of a sequence has stamps of its own.

    Args:
        call: Calls a function of the driver by name.
        scratch: What loads and stores work on; None: memory like the others.
    """

    def __init__(self, call: Call, scratch: DeviceBuffer | None = None) -> None:
        self._call = call
        self._input, self._output, self._stamps = (DeviceBuffer(call) for _ in range(3))
        self._scratch = scratch or DeviceBuffer(call)
        self._uploaded: Bytes | None = None

    def release(self) -> None:
        """Give all memory back."""
        for buffer in (self._input, self._output, self._scratch, self._stamps):
            buffer.release()
        self._uploaded = None

    def prepare(self, launches: Sequence[Launch]) -> list[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """Make room for every launch and upload the first one's operands.

        Returns:
            The parameters of each launch: values and types.

        Raises:
            LaunchError: The threads of a block are no power of two, or too few to have stamps each.
        """
        self._input.reserve(max(max(launch.operands[0].nbytes, 1) for launch in launches))
        self._output.reserve(max(8 * launch.grid * launch.block for launch in launches))
        self._scratch.reserve(max(max(launch.scratch_bytes, 1) for launch in launches))
        begins = [0, *accumulate(map(_stamps_bytes, launches))]
        self._stamps.reserve(begins[-1])
        self._call("cuMemsetD8", self._stamps.address, 0, begins[-1])
        self._uploaded = None  # the buffer may have moved, and the array may have changed
        self.upload(launches[0].operands[0])
        common = (self._input.address, self._output.address, self._scratch.address)
        return [
            ((*common, self._stamps.address + begin, launch.iterations), _PARAMETER_TYPES)
            for launch, begin in zip(launches, begins, strict=False)
        ]

    def clear(self, launch: Launch) -> None:
        """Set the output of a launch, which was prepared, to `CLEARED`."""
        self._call("cuMemsetD8", self._output.address, CLEARED, 8 * launch.grid * launch.block)

    def upload(self, operands: Bytes) -> None:
        """Fill the input buffer, unless it was filled from this very array."""
        if operands is not self._uploaded:
            self._input.write(operands)
            self._uploaded = operands

    def stamps(self, launches: Sequence[Launch]) -> list[Stamps]:
        """Return %globaltimer and %clock64 at begin, then at end, of the blocks that were stamped.

        Args:
            launches: Those that were prepared.

        Returns:
            For each launch an array of shape (blocks, 4): of all, or the first alone (`Target.every_block`).
        """
        begins = [0, *accumulate(map(_stamps_bytes, launches))]
        data = self._stamps.read(begins[-1])
        parts = [data[begin:end].view(np.int64) for begin, end in pairwise(begins)]
        of_blocks = [
            part.reshape(launch.grid, -1)[:, :_STAMPS] for launch, part in zip(launches, parts, strict=True)
        ]
        return [stamps[stamps.any(axis=1)] for stamps in of_blocks]

    def output(self, size: int) -> Bytes:
        """Return the first bytes of the output, shape (size,)."""
        return self._output.read(size)

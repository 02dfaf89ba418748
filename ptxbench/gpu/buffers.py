"""The device memory that a kernel of ptxbench takes: operands, output, scratch and stamps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.gpu.protocol import Launch

# Calls a function of the CUDA driver by name and returns its result.
Call = Callable[..., Any]
_STAMPS = 4
_STAMPS_BYTES = 8 * _STAMPS
_PARAMETER_TYPES = (*[ctypes.c_uint64] * 4, ctypes.c_uint32)

Bytes = npt.NDArray[np.uint8]


@dataclass
class DeviceBuffer:
    """Device memory that grows when more is asked for."""

    call: Call
    address: int = 0
    size: int = 0

    def reserve(self, size: int) -> None:
        """Make room for at least `size` bytes."""
        if size > self.size:
            self.release()
            self.address, self.size = int(self.call("cuMemAlloc", size)), size

    def release(self) -> None:
        """Give the memory back."""
        if self.size:
            self.call("cuMemFree", self.address)
        self.address, self.size = 0, 0


class KernelBuffers:
    """The four buffers of a context; each launch of a sequence has stamps of its own.

    Args:
        call: Calls a function of the driver by name.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._input, self._output, self._scratch, self._stamps = (DeviceBuffer(call) for _ in range(4))
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
        """
        self._input.reserve(max(max(launch.operands.nbytes, 1) for launch in launches))
        self._output.reserve(max(8 * launch.grid * launch.block for launch in launches))
        self._scratch.reserve(max(max(launch.scratch_bytes, 1) for launch in launches))
        self._stamps.reserve(_STAMPS_BYTES * len(launches))
        self._uploaded = None  # the buffer may have moved, and the array may have changed
        self.upload(launches[0].operands)
        common = (self._input.address, self._output.address, self._scratch.address)
        return [
            ((*common, self._stamps.address + _STAMPS_BYTES * number, launch.iterations), _PARAMETER_TYPES)
            for number, launch in enumerate(launches)
        ]

    def upload(self, operands: Bytes) -> None:
        """Fill the input buffer, unless it was filled from this very array."""
        if operands is self._uploaded:
            return
        data = np.ascontiguousarray(operands)
        if data.nbytes:
            self._call("cuMemcpyHtoD", self._input.address, data.ctypes.data, data.nbytes)
        self._uploaded = operands

    def stamps(self, launches: int) -> npt.NDArray[np.int64]:
        """Return %globaltimer and %clock64 at begin, then at end, of each launch, shape (launches, 4)."""
        data = self._download(self._stamps.address, _STAMPS_BYTES * launches)
        return data.view(np.int64).reshape(launches, _STAMPS)

    def output(self, size: int) -> Bytes:
        """Return the first bytes of the output, shape (size,)."""
        return self._download(self._output.address, size)

    def _download(self, address: int, size: int) -> Bytes:
        data = np.zeros(size, np.uint8)
        if size:
            self._call("cuMemcpyDtoH", data.ctypes.data, address, size)
        return data

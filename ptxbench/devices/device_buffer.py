"""A piece of device memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxbench.devices.base import Bytes

# Calls a function of the CUDA driver by name and returns its result.
Call = Callable[..., Any]
# What an output holds before a kernel that is compared writes it: NaN in every float format.
CLEARED = 0xFF


@dataclass
class DeviceBuffer:
    """Device memory that grows on demand."""

    call: Call
    address: int = 0
    size: int = 0

    def reserve(self, size: int) -> None:
        """Make room for at least `size` bytes."""
        if size > self.size:
            self.release()
            self.address, self.size = int(self.call("cuMemAlloc", size)), size

    def write(self, data: Bytes) -> None:
        """Fill its begin with an array."""
        source = np.ascontiguousarray(data)
        if source.nbytes:
            self.call("cuMemcpyHtoD", self.address, source.ctypes.data, source.nbytes)

    def read(self, size: int) -> Bytes:
        """Return its first bytes, shape (size,)."""
        data = np.zeros(size, np.uint8)
        if size:
            self.call("cuMemcpyDtoH", data.ctypes.data, self.address, size)
        return data

    def release(self) -> None:
        """Give the memory back."""
        if self.size:
            self.call("cuMemFree", self.address)
        self.address, self.size = 0, 0


class L2Flush:
    """Writes so much memory that nothing else is left in L2; in the default stream.

    Args:
        call: Calls a function of the driver by name.
        l2_bytes: Size of L2.
    """

    def __init__(self, call: Call, l2_bytes: int) -> None:
        self._buffer = DeviceBuffer(call)
        self._buffer.reserve(2 * l2_bytes)

    def __call__(self) -> None:
        """Write it."""
        self._buffer.call("cuMemsetD8Async", self._buffer.address, 0, self._buffer.size, 0)

    def close(self) -> None:
        """Give the memory back."""
        self._buffer.release()

"""The device memory of kernels with parameters of their own."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxbench.devices.base import Bytes, Launch
from ptxbench.devices.device_buffer import Call, DeviceBuffer

# Inputs that stay on the GPU: those of a large and of a small problem, and some to spare.
_HELD = 8
_CLEARED = 0xFF


class ArgumentBuffers:
    """Inputs by the array that they were copied from, and one output.

    Args:
        call: Calls a function of the driver by name.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        # The array is kept beside its copy, so that its identity stays its own.
        self._inputs: OrderedDict[int, tuple[Bytes, DeviceBuffer]] = OrderedDict()
        self._output = DeviceBuffer(call)

    def prepare(self, launches: Sequence[Launch]) -> list[tuple[tuple[int, ...], tuple[Any, ...]]]:
        """Copy what is not on the GPU yet.

        Returns:
            The parameters of each launch: values and types.
        """
        self._output.reserve(max((launch.result_bytes for launch in launches), default=0) or 1)
        wanted = {id(data): data for launch in launches for data in launch.operands}
        missing = [key for key in wanted if key not in self._inputs]
        for key in wanted.keys() - missing:
            self._inputs.move_to_end(key)
        for key in missing:
            # Those that are wanted stand at the end.
            while len(self._inputs) >= max(_HELD, len(wanted)):
                self._inputs.popitem(last=False)[1][1].release()
            self._inputs[key] = (wanted[key], self._copied(wanted[key]))
        return [self._parameters(launch) for launch in launches]

    def clear(self, size: int) -> None:
        """Set the first bytes of the output to 0xFF, which is NaN in every float format."""
        self._call("cuMemsetD8", self._output.address, _CLEARED, size)

    def output(self, size: int) -> Bytes:
        """Return the first bytes of the output, shape (size,)."""
        data = np.zeros(size, np.uint8)
        if size:
            self._call("cuMemcpyDtoH", data.ctypes.data, self._output.address, size)
        return data

    def release(self) -> None:
        """Give all memory back."""
        for _, buffer in self._inputs.values():
            buffer.release()
        self._inputs.clear()
        self._output.release()

    def _copied(self, data: Bytes) -> DeviceBuffer:
        buffer = DeviceBuffer(self._call)
        buffer.reserve(max(1, data.nbytes))
        source = np.ascontiguousarray(data)
        self._call("cuMemcpyHtoD", buffer.address, source.ctypes.data, source.nbytes)
        return buffer

    def _parameters(self, launch: Launch) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        scalars = launch.scalars or ()
        addresses = (*(self._inputs[id(data)][1].address for data in launch.operands), self._output.address)
        types = (*[ctypes.c_uint64] * len(addresses), *[ctypes.c_uint32] * len(scalars))
        return (*addresses, *scalars), types

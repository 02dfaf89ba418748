"""The device memory of kernels with buffers of their own."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from typing import Any

import numpy as np

from ptxbench.devices.buffers import Call, DeviceBuffer
from ptxbench.devices.calls import Bytes, KernelCall

# Inputs that stay on the GPU: those of a large and of a small problem, and some to spare.
_HELD = 8
_CLEARED = 0xFF


class CallBuffers:
    """Inputs by the array that they were copied from, and one output.

    Args:
        call: Calls a function of the driver by name.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        # The array is kept beside its copy, so that its identity stays its own.
        self._inputs: OrderedDict[int, tuple[Bytes, DeviceBuffer]] = OrderedDict()
        self._output = DeviceBuffer(call)

    def prepare(self, call: KernelCall) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """Copy what is not on the GPU yet; return the kernel's parameters: values and types."""
        self._output.reserve(max(1, call.output_bytes))
        addresses = (*(self._address(data) for data in call.inputs), self._output.address)
        types = (*[ctypes.c_uint64] * len(addresses), *[ctypes.c_uint32] * len(call.scalars))
        return (*addresses, *call.scalars), types

    def clear(self, size: int) -> None:
        """Set the first bytes of the output to 0xFF, which is NaN in every float format."""
        self._call("cuMemsetD8", self._output.address, _CLEARED, size)

    def output(self, size: int) -> Bytes:
        """Return the first bytes of the output, shape (size,)."""
        data = np.zeros(size, np.uint8)
        self._call("cuMemcpyDtoH", data.ctypes.data, self._output.address, size)
        return data

    def release(self) -> None:
        """Give all memory back."""
        for _, buffer in self._inputs.values():
            buffer.release()
        self._inputs.clear()
        self._output.release()

    def _address(self, data: Bytes) -> int:
        if id(data) not in self._inputs:
            while len(self._inputs) >= _HELD:
                self._inputs.popitem(last=False)[1][1].release()
            buffer = DeviceBuffer(self._call)
            buffer.reserve(max(1, data.nbytes))
            source = np.ascontiguousarray(data)
            self._call("cuMemcpyHtoD", buffer.address, source.ctypes.data, source.nbytes)
            self._inputs[id(data)] = (data, buffer)
        self._inputs.move_to_end(id(data))
        return self._inputs[id(data)][1].address

"""The device memory of kernels with parameters of their own."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxbench.devices.base import Bytes, Launch, Parameter
from ptxbench.devices.device_buffer import CLEARED, Call, DeviceBuffer

# Inputs that stay on the GPU: those of a large and of a small problem, and some to spare.
_HELD = 8
_NUMBERS: dict[str, Any] = {
    "i8": ctypes.c_int8,
    "u8": ctypes.c_uint8,
    "i16": ctypes.c_int16,
    "u16": ctypes.c_uint16,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


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

    def prepare(self, launches: Sequence[Launch]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Copy what is not on the GPU yet.

        Returns:
            The parameters of each launch: values and types.
        """
        sizes = [launch.result_bytes for launch in launches if launch.parameters is None]
        self._output.reserve(max(sizes, default=0) or 1)
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

    def clear(self, launch: Launch) -> None:
        """Set the output to 0xFF, NaN in every float format, and written arrays to their contents."""
        if launch.parameters is None:
            self._call("cuMemsetD8", self._output.address, CLEARED, launch.result_bytes)
        for data in _written(launch):
            self._inputs[id(data)][1].write(data)

    def written(self, launch: Launch) -> Bytes:
        """Return the arrays that a launch writes, one after the other."""
        found = [self._inputs[id(data)][1].read(data.nbytes) for data in _written(launch)]
        return np.concatenate(found) if found else np.zeros(0, np.uint8)

    def output(self, size: int) -> Bytes:
        """Return the first bytes of the output, shape (size,)."""
        return self._output.read(size)

    def release(self) -> None:
        """Give all memory back."""
        for _, buffer in self._inputs.values():
            buffer.release()
        self._inputs.clear()
        self._output.release()

    def _copied(self, data: Bytes) -> DeviceBuffer:
        buffer = DeviceBuffer(self._call)
        buffer.reserve(max(1, data.nbytes))
        buffer.write(data)
        return buffer

    def _parameters(self, launch: Launch) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        if launch.parameters is not None:
            return self._given(launch, launch.parameters)
        scalars = launch.scalars or ()
        addresses = (*(self._inputs[id(data)][1].address for data in launch.operands), self._output.address)
        types = (*[ctypes.c_uint64] * len(addresses), *[ctypes.c_uint32] * len(scalars))
        return (*addresses, *scalars), types

    def _given(
        self, launch: Launch, parameters: Sequence[Parameter]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        values: list[Any] = []
        types: list[Any] = []
        for one in parameters:
            if one.operand >= 0:
                values.append(self._inputs[id(launch.operands[one.operand])][1].address)
                types.append(ctypes.c_uint64)
            else:
                values.append(one.value if one.kind.startswith("f") else int(one.value))
                types.append(_NUMBERS[one.kind])
        return tuple(values), tuple(types)


def _written(launch: Launch) -> list[Bytes]:
    """Return the contents of the arrays that a launch writes, in the order of its parameters."""
    return [launch.operands[one.operand] for one in launch.parameters or () if one.written]

"""Arrays and numbers of a kernel that says all of its parameters, on memory that is only pretended."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.devices.base import Launch, Parameter
from ptxbench.devices.launch_buffers import LaunchBuffers


class Memory:
    """Device memory as bytes by address."""

    def __init__(self):
        self.held = {}
        self._next = 4096

    def __call__(self, name, *arguments):
        return getattr(self, name)(*arguments)

    def cuMemAlloc(self, size):  # noqa: N802
        self._next += 1 << 20
        self.held[self._next] = bytearray(size)
        return self._next

    def cuMemFree(self, address):  # noqa: N802
        del self.held[address]

    def cuMemcpyHtoD(self, address, source, size):  # noqa: N802
        self.held[address][:size] = ctypes.string_at(source, size)

    def cuMemcpyDtoH(self, target, address, size):  # noqa: N802
        ctypes.memmove(target, bytes(self.held[address][:size]), size)


def launch(*parameters, operands):
    return Launch(
        *("t", Cubin(b"", "sm_90a", OptLevel.O3, ""), "k", 1, 32, 1, operands, "random"),
        scalars=(),
        parameters=parameters,
        result_bytes=sum(operands[p.operand].nbytes for p in parameters if p.written),
    )


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def buffers(memory):
    return LaunchBuffers(memory, None)


def test_parameters_come_in_their_order_and_types(memory, buffers):
    data = np.arange(8, dtype=np.uint8), np.full(4, 0xFF, np.uint8)
    one = launch(
        Parameter(1, written=True),
        Parameter(kind="i32", value=-3),
        Parameter(0),
        Parameter(kind="f64", value=0.5),
        operands=data,
    )
    ((values, types),) = buffers.prepare([one])
    assert values[1::2] == (-3, 0.5)
    assert types == (ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64, ctypes.c_double)
    assert bytes(memory.held[values[2]]) == data[0].tobytes()
    assert bytes(memory.held[values[0]]) == data[1].tobytes()


def test_what_a_kernel_wrote_is_put_back_before_the_next_comparison(memory, buffers):
    data = np.zeros(4, np.uint8), np.arange(4, dtype=np.uint8)
    one = launch(Parameter(0), Parameter(1, written=True), operands=data)
    ((values, _),) = buffers.prepare([one])
    memory.held[values[1]][:] = b"abcd"
    assert buffers.output(one, one.result_bytes).tobytes() == b"abcd"
    buffers.clear(one)
    assert buffers.output(one, one.result_bytes).tobytes() == bytes(range(4))
    assert bytes(memory.held[values[0]]) == bytes(4)

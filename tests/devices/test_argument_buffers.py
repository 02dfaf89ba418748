"""Launches of any kernel by the CUDA driver, which a fake plays: memory, copies and what is launched."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.nvml import FakeDevice, FakeNvml

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import GpuError, LaunchError
from ptxbench.devices.base import Launch
from ptxbench.sensors.nvml import NvmlDevice

cuda = pytest.importorskip("ptxbench.devices.cuda", exc_type=GpuError)


class FakeDriver:
    """A driver whose device memory is host memory, and whose kernels copy their first input to the output."""

    def __init__(self, device):
        self.device = device
        self.memory = {}
        self.made = []
        self.fails = ""

    def __call__(self, function, *arguments):
        self.made.append((function, arguments))
        if function == self.fails:
            raise LaunchError(f"{function}: CUDA_ERROR_INVALID_VALUE")
        handler = getattr(self, f"_{function}", None)
        return handler(*arguments) if handler else 0

    def calls(self, function):
        return [arguments for name, arguments in self.made if name == function]

    def _cuMemGetAllocationGranularity(self, *_):  # noqa: N802
        raise LaunchError("this driver cannot place memory")

    def _cuMemAlloc(self, size):  # noqa: N802
        held = np.zeros(size, np.uint8)
        self.memory[held.ctypes.data] = held
        return held.ctypes.data

    def _cuMemFree(self, address):  # noqa: N802
        del self.memory[address]

    def _cuMemcpyHtoD(self, to, source, size):  # noqa: N802
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoH(self, to, source, size):  # noqa: N802
        ctypes.memmove(to, source, size)

    def _cuMemsetD8(self, address, value, size):  # noqa: N802
        ctypes.memset(address, value, size)

    def _cuLaunchKernel(self, *arguments):  # noqa: N802
        values, _types = arguments[-2]
        ctypes.memmove(values[2], values[0], 4)

    def _cuEventElapsedTime(self, _start, _stop):  # noqa: N802
        return 8.0

    def _cuDeviceGetCount(self):  # noqa: N802
        return 1

    def _cuDeviceGetUuid(self, _device):  # noqa: N802
        return SimpleNamespace(bytes=bytes.fromhex(self.device.uuid.removeprefix("GPU-")))

    def _cuDeviceGetAttribute(self, attribute, _device):  # noqa: N802
        return {"MAJOR": 9, "MINOR": 0, "COUNT": 132}.get(attribute.name.rpartition("_")[2], 2048)


@pytest.fixture
def driver(monkeypatch):
    device = FakeDevice()
    driver = FakeDriver(device)
    library = FakeNvml(device)
    monkeypatch.setattr(cuda, "NvmlDevice", lambda index: NvmlDevice(index, library))
    monkeypatch.setattr(cuda, "_call", driver)
    return driver


def launch(*inputs, shared_bytes=1024, times=1):
    cubin = Cubin(b"machine code", "sm_90a", OptLevel.O3, "a test")
    return Launch(
        trial_id="t",
        cubin=cubin,
        kernel="gemm",
        grid=4,
        grid_y=2,
        block=256,
        iterations=3,
        operands=inputs,
        pattern="random",
        scalars=(64, 32, 16),
        result_bytes=16,
        shared_bytes=shared_bytes,
        times=times,
    )


def data(value):
    return np.full(8, value, np.uint8)


def test_a_kernel_is_launched_as_its_launch_says(driver):
    gpu = cuda.CudaGpu(0)
    assert gpu.time_s(launch(data(1), data(2), times=5)) == pytest.approx(8e-3)
    launched = driver.calls("cuLaunchKernel")
    assert len(launched) == 5
    _function, *shape, _stream, (values, types), _extra = launched[0]
    assert shape == [4, 2, 1, 256, 1, 1, 1024]
    assert values[3:] == (64, 32, 16)
    assert types == (*[ctypes.c_uint64] * 3, *[ctypes.c_uint32] * 3)


def test_the_output_is_nan_where_the_kernel_writes_nothing(driver):
    output = cuda.CudaGpu(0).compute(launch(data(7), data(2)))
    assert output[:4].tolist() == [7, 7, 7, 7]
    assert output[4:].tolist() == [0xFF] * 12


def test_an_array_that_is_there_is_not_copied_again(driver):
    gpu = cuda.CudaGpu(0)
    a, b, small = data(1), data(2), [data(n) for n in range(20)]
    for one in small:
        gpu.time_s(launch(a, b))
        gpu.time_s(launch(one, b))
    # a and b once each, and the others once each, however many there were in between.
    assert len(driver.calls("cuMemcpyHtoD")) == 2 + len(small)
    gpu.close()
    assert driver.memory == {}


def test_much_shared_memory_is_asked_for(driver):
    gpu = cuda.CudaGpu(0)
    gpu.time_s(launch(data(1), data(2), shared_bytes=48 * 1024))
    assert driver.calls("cuFuncSetAttribute") == []
    gpu.time_s(launch(data(1), data(2), shared_bytes=100_000))
    ((_function, attribute, size),) = driver.calls("cuFuncSetAttribute")
    assert attribute.name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
    assert size == 100_000


def test_a_recording_holds_the_window(driver):
    run = cuda.CudaGpu(0).run(launch(data(1), data(2), times=4))
    assert run.window.elapsed_s == pytest.approx(8e-3)
    assert run.window.end_ns - run.window.start_ns == 8_000_000
    assert run.trace.begin_ns <= run.window.end_ns <= run.trace.end_ns


def test_a_launch_that_the_driver_refuses_leaves_the_gpu_usable(driver):
    gpu = cuda.CudaGpu(0)
    driver.fails = "cuLaunchKernel"
    with pytest.raises(LaunchError, match="INVALID_VALUE"):
        gpu.time_s(launch(data(1), data(2)))
    driver.fails = ""
    assert gpu.time_s(launch(data(1), data(2))) == pytest.approx(8e-3)


def test_a_recording_does_not_fetch_what_nobody_asked_for(driver):
    run = cuda.CudaGpu(0).run(launch(data(1), data(2)))
    assert run.output.shape == (0,)
    assert driver.calls("cuMemcpyDtoH") == []


def test_inputs_of_one_sequence_stay_however_many_there_are(driver):
    gpu = cuda.CudaGpu(0)
    launches = [launch(data(n), data(n + 1)) for n in range(20)]
    gpu.run_sequence(launches, [0.0] * 19)
    addresses = [values[:2] for *_, (values, _types), _extra in driver.calls("cuLaunchKernel")]
    assert len({address for pair in addresses for address in pair}) == 40
    assert [driver.memory[first][0] for first, _second in addresses] == list(range(20))


def test_own_kernels_and_others_share_a_sequence(driver):
    own = replace(launch(data(9)), grid=1, grid_y=1, block=64, scalars=None)
    cuda.CudaGpu(0).run_sequence([launch(data(1), data(2)), own, launch(data(3), data(4))], [0.0, 0.0])
    parameters = [values for *_, (values, _types), _extra in driver.calls("cuLaunchKernel")]
    assert [len(values) for values in parameters] == [6, 5, 6]
    assert parameters[1][-1] == own.iterations
    assert driver.memory[parameters[1][0]][0] == 9

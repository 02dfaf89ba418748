"""A CUDA context by a driver that a fake plays: modules that it holds, and kernels that break it."""

import pytest

from ptxbench.core.condition import OptLevel
from ptxbench.core.cubin import Cubin
from ptxbench.core.errors import GpuError, LaunchError
from ptxbench.devices.context import Context


class Driver:
    """Counts the modules that are loaded; a kernel that breaks makes every later call fail."""

    def __init__(self):
        self.loaded = []
        self.most = 0
        self.broken = False

    def __call__(self, function, *arguments):
        if self.broken:
            raise LaunchError(f"{function}: CUDA_ERROR_ILLEGAL_ADDRESS")
        if function == "cuModuleLoadData":
            self.loaded.append(arguments[0])
            self.most = max(self.most, len(self.loaded))
            return arguments[0]
        if function == "cuModuleUnload":
            self.loaded.remove(arguments[0])
        return arguments


def cubin(number):
    return Cubin(b"code %d" % number, "sm_90a", OptLevel.O3, "a test")


def test_a_cubin_is_loaded_once_and_the_oldest_makes_room():
    driver = Driver()
    context = Context(driver, 0)
    for number in (*range(64), 0, 1):
        assert context.function(cubin(number), "target") == (cubin(number).image, b"target")
    assert driver.loaded == [cubin(number).image for number in range(64)]
    context.function(cubin(64), "target")
    assert driver.most == 64
    assert cubin(0).image not in driver.loaded


def test_a_refused_launch_leaves_it_whole():
    context = Context(Driver(), 0)
    with pytest.raises(LaunchError, match="INVALID_VALUE"), context.watched():
        raise LaunchError("cuLaunchKernel: CUDA_ERROR_INVALID_VALUE")
    assert not context.is_lost
    context.require()


def test_a_kernel_that_breaks_it_is_the_last():
    driver = Driver()
    context = Context(driver, 0)
    driver.broken = True
    with pytest.raises(LaunchError, match="cuEventSynchronize"), context.watched():
        driver("cuEventSynchronize")
    assert context.is_lost
    with pytest.raises(GpuError, match=r"cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS.*`resume`") as refused:
        context.require()
    assert not isinstance(refused.value, LaunchError)

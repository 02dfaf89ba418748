"""Waiting for the work of a process, with CUDA played by a fake."""

import pytest

from ptxbench.core.errors import GpuError, LaunchError

cuda = pytest.importorskip("ptxbench.devices.cuda", exc_type=GpuError)


class FakeDriver:
    """Two GPUs, of which some have an active primary context; `current` is another context."""

    def __init__(self, active=(), current=0, started=True):
        self.active, self.current, self.started = active, current, started
        self.pushed, self.synchronized, self.retained = [], [], 0

    def __call__(self, function, *arguments):
        if not self.started:
            raise LaunchError(f"{function}: CUDA_ERROR_NOT_INITIALIZED")
        return getattr(self, function)(*arguments)

    def cuDeviceGetCount(self):  # noqa: N802
        return 2

    def cuDevicePrimaryCtxGetState(self, device):  # noqa: N802
        return 0, int(device in self.active)

    def cuDevicePrimaryCtxRetain(self, device):  # noqa: N802
        assert device in self.active, "a context was made"
        self.retained += 1
        return 100 + device

    def cuDevicePrimaryCtxRelease(self, device):  # noqa: N802
        self.retained -= 1

    def cuCtxPushCurrent(self, context):  # noqa: N802
        self.pushed.append(context)

    def cuCtxPopCurrent(self):  # noqa: N802
        self.pushed.pop()

    def cuCtxGetCurrent(self):  # noqa: N802
        return self.current

    def cuCtxSynchronize(self):  # noqa: N802
        self.synchronized.append(self.pushed[-1] if self.pushed else self.current)


@pytest.mark.parametrize(
    ("driver", "waited"),
    [
        (FakeDriver(), []),
        (FakeDriver(started=False), []),
        (FakeDriver(active=(1,)), [101]),
        (FakeDriver(active=(0, 1), current=7), [100, 101, 7]),
    ],
)
def test_every_context_there_is_is_waited_for_and_none_is_made(monkeypatch, driver, waited):
    monkeypatch.setattr(cuda, "_call", driver)
    cuda.synchronize_contexts()
    assert driver.synchronized == waited
    assert driver.retained == 0
    assert driver.pushed == []


def test_a_kernel_that_failed_is_told(monkeypatch):
    driver = FakeDriver(active=(0,))

    def fail():
        raise LaunchError("cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS")

    driver.cuCtxSynchronize = fail
    monkeypatch.setattr(cuda, "_call", driver)
    with pytest.raises(GpuError, match="ILLEGAL_ADDRESS"):
        cuda.synchronize_contexts()
    assert driver.retained == 0

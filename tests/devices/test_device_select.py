"""Which GPU serves where none is named."""

import sys
from types import SimpleNamespace
from uuid import UUID

import pytest
from fakes.nvml import DRIVER_MISMATCH, NO_PERMISSION, FakeDevice, FakeNvml

from ptxbench.core.errors import GpuError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.driver_presence import driver_traces
from ptxbench.devices.select import open_gpu_or_simulated
from ptxbench.sensors.nvml import list_devices

FIRST, SECOND = (f"GPU-{UUID(int=n)}" for n in (1, 2))


def missing(name):
    raise OSError(f"{name}: cannot open shared object file: No such file or directory")


def broken(name):
    raise OSError(f"{name}: file too short")


def test_a_driver_leaves_traces_also_where_it_is_broken(tmp_path):
    assert driver_traces(tmp_path, missing) == ()
    assert driver_traces(tmp_path, broken) == ("libcuda.so.1", "libnvidia-ml.so.1")
    assert driver_traces(tmp_path, str) == ("libcuda.so.1", "libnvidia-ml.so.1")
    (tmp_path / "nvidia0").touch()
    assert driver_traces(tmp_path, missing) == (str(tmp_path / "nvidia0"),)


class Cuda:
    """CUDA's list of GPUs as the driver would give it."""

    def __init__(self, *uuids, failing=""):
        self.uuids = uuids
        self.failing = failing

    def __call__(self, function, *arguments):
        if function == self.failing:
            from ptxbench.core.errors import LaunchError

            raise LaunchError(f"{function}: CUDA_ERROR_NO_DEVICE")
        answers = {
            "cuInit": lambda flags: None,
            "cuDeviceGetCount": lambda: len(self.uuids),
            "cuDeviceGet": lambda ordinal: ordinal,
            "cuDeviceGetUuid": lambda n: SimpleNamespace(bytes=UUID(self.uuids[n][4:]).bytes),
        }
        return answers[function](*arguments)


@pytest.fixture
def machine(monkeypatch):
    """Make a machine with a driver; return what opens its default GPU, which is a UUID here."""
    cuda = pytest.importorskip("ptxbench.devices.cuda", exc_type=GpuError)

    def machine(nvml, calls):
        monkeypatch.setattr("ptxbench.devices.select.driver_traces", lambda: ("/dev/nvidia0",))
        monkeypatch.setattr("ptxbench.sensors.nvml.list_devices", lambda: list_devices(nvml))
        monkeypatch.setattr(cuda, "_call", calls)
        monkeypatch.setattr(cuda, "CudaGpu", lambda which: which)
        return open_gpu_or_simulated(None, pytest.fail)

    return machine


def test_the_first_gpu_that_cuda_sees_serves(machine, monkeypatch):
    nvml = FakeNvml(FakeDevice(uuid=FIRST), FakeDevice(uuid=SECOND))
    assert machine(nvml, Cuda(FIRST, SECOND)) == FIRST
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine(nvml, Cuda(SECOND)) == SECOND


@pytest.mark.parametrize("calls", [Cuda(), Cuda(failing="cuInit")], ids=["no GPU", "no device"])
def test_an_empty_list_of_visible_gpus_is_an_error(machine, monkeypatch, calls):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(GpuError, match="CUDA_VISIBLE_DEVICES is '': unset it, or name one by --gpu"):
        machine(FakeNvml(FakeDevice(uuid=FIRST)), calls)


@pytest.mark.parametrize(
    ("code", "cure"), [(DRIVER_MISMATCH, "restart the machine"), (NO_PERMISSION, "/dev/nvidia")]
)
def test_a_driver_that_does_not_start_is_an_error_with_its_cure(machine, code, cure):
    with pytest.raises(GpuError, match=cure):
        machine(FakeNvml(init_error=code), Cuda(FIRST))


def test_a_driver_without_cuda_bindings_is_an_error(monkeypatch):
    monkeypatch.setattr("ptxbench.devices.select.driver_traces", lambda: ("/dev/nvidia0",))
    monkeypatch.delitem(sys.modules, "ptxbench.devices.cuda", raising=False)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(GpuError, match=r"cuda-bindings is missing.*pip install cuda-bindings"):
        open_gpu_or_simulated(None, pytest.fail)


def test_without_a_driver_the_simulated_gpu_serves_and_says_so(monkeypatch):
    monkeypatch.setattr("ptxbench.devices.select.driver_traces", tuple)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    notices = []
    assert open_gpu_or_simulated(None, notices.append).info.kind is GpuKind.SIMULATED
    assert len(notices) == 1

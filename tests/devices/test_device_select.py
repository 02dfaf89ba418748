"""Which GPU serves where none is named."""

import os
import sys
from types import SimpleNamespace
from uuid import UUID

import pytest
from fakes.nvml import DRIVER_MISMATCH, LOST, NO_PERMISSION, FakeDevice, use_nvml

from ptxbench.core.errors import GpuError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.driver_presence import driver_traces, wants_gpus
from ptxbench.devices.select import list_gpus, named_gpus, open_gpu, open_gpu_or_simulated

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


FIRST_LOST = {"errors": {"nvmlDeviceGetHandleByIndex": LOST}}


@pytest.fixture
def machine(monkeypatch):
    """Make a machine of boards, on which to open a GPU tells what it is opened by, and what CUDA is shown."""
    cuda = pytest.importorskip("ptxbench.devices.cuda", exc_type=GpuError)

    def machine(*devices, order=(), **fault):
        monkeypatch.setattr("ptxbench.devices.select.driver_traces", lambda: ("/dev/nvidia0",))
        monkeypatch.setattr("ptxbench.devices.visible.cuda_order", lambda _environment: order)
        monkeypatch.setattr(cuda, "CudaGpu", lambda which: (which, os.environ.get("CUDA_VISIBLE_DEVICES")))
        return use_nvml(monkeypatch, *devices, **fault)

    return machine


def opened():
    return open_gpu_or_simulated(None, pytest.fail)


def test_the_first_gpu_that_cuda_sees_serves(machine, monkeypatch):
    boards = FakeDevice(uuid=FIRST), FakeDevice(uuid=SECOND)
    machine(*boards, order=(SECOND, FIRST))
    assert opened() == (SECOND, None)
    machine(*boards, order=(FIRST,))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert opened() == (FIRST, "1")


def test_beside_a_lost_gpu_the_first_that_works_serves_and_the_lost_one_is_named(machine, caplog):
    machine(FakeDevice(**FIRST_LOST), FakeDevice(uuid=SECOND))
    assert opened() == (SECOND, SECOND)
    assert open_gpu("1") == (1, SECOND)
    assert caplog.messages == 2 * [caplog.messages[0]]
    assert caplog.messages[0].startswith("ptxbench: GPU 0 left out: NVML says 'error text 15' (code 15)")


def test_where_every_gpu_is_lost_that_is_the_error(machine):
    machine(FakeDevice(**FIRST_LOST))
    with pytest.raises(GpuError, match=r"GPU 0 left out: NVML says .*code 15.*reset the GPU") as lost:
        opened()
    assert lost.value.exit_code == 3


def test_a_gpu_that_is_named_is_opened_or_refused_with_its_own_reason(machine, monkeypatch, caplog):
    machine(
        FakeDevice(uuid=FIRST),
        FakeDevice(**FIRST_LOST),
        FakeDevice(uuid=SECOND),
        FakeDevice(uuid="GPU-split", is_partitioned=True),
    )
    assert [gpu.spec for gpu in named_gpus("2,0")] == [SECOND, FIRST]
    assert [gpu.spec for gpu in named_gpus("all")] == [FIRST, SECOND]
    assert len(caplog.messages) == 4
    with pytest.raises(GpuError, match=r"GPU 1 cannot be opened: NVML says .*code 15"):
        named_gpus("0,1")
    with pytest.raises(GpuError, match=r"GPU 3 \(NVIDIA H200\) is split into MIG instances"):
        named_gpus("3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", SECOND)
    assert [gpu.spec for gpu in named_gpus("all")] == [SECOND]
    with pytest.raises(GpuError, match="which hides GPU 0"):
        named_gpus("0,2")


def test_real_gpus_are_listed_with_what_keeps_one_from_use(machine, monkeypatch):
    from ptxbench.devices import cuda

    machine(FakeDevice(uuid=FIRST), FakeDevice(**FIRST_LOST), FakeDevice(uuid=SECOND))
    closed = []

    def opens(index):
        if index == 2:
            raise GpuError("GPU 2 is hidden from CUDA")
        assert os.environ["CUDA_VISIBLE_DEVICES"] == f"{FIRST},{SECOND}"
        return SimpleNamespace(info="what it is", close=lambda: closed.append(index))

    monkeypatch.setattr(cuda, "CudaGpu", opens)
    works, lost, hidden = list_gpus()
    assert (works.info, works.fault, closed) == ("what it is", "", [0])
    assert (lost.index, lost.info) == (1, None)
    assert "code 15" in lost.fault
    assert (hidden.name, hidden.info, hidden.fault) == ("NVIDIA H200", None, "GPU 2 is hidden from CUDA")


def test_an_empty_list_of_visible_gpus_is_an_error(machine, monkeypatch):
    machine(FakeDevice(uuid=FIRST))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(GpuError, match=r"CUDA_VISIBLE_DEVICES is '', which shows none .*: unset it"):
        opened()


@pytest.mark.parametrize(
    ("code", "cure"), [(DRIVER_MISMATCH, "restart the machine"), (NO_PERMISSION, "/dev/nvidia")]
)
def test_a_driver_that_does_not_start_is_an_error_with_its_cure(machine, code, cure):
    machine(FakeDevice(uuid=FIRST), init_error=code)
    with pytest.raises(GpuError, match=cure):
        opened()


def test_a_driver_without_cuda_bindings_is_an_error(monkeypatch):
    monkeypatch.setattr("ptxbench.devices.select.driver_traces", lambda: ("/dev/nvidia0",))
    use_nvml(monkeypatch, FakeDevice(uuid=FIRST))
    monkeypatch.delitem(sys.modules, "ptxbench.devices.cuda", raising=False)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(GpuError, match=r"cuda-bindings is missing.*pip install cuda-bindings"):
        opened()


@pytest.fixture
def no_driver(monkeypatch):
    """A machine without a driver, and an environment that says nothing of GPUs or jobs."""
    monkeypatch.setattr("ptxbench.devices.select.driver_traces", tuple)
    monkeypatch.setattr("os.environ", {})
    return os.environ


def test_without_a_driver_the_simulated_gpu_serves_and_says_so(no_driver):
    no_driver["CUDA_VISIBLE_DEVICES"] = ""
    notices = []
    assert open_gpu_or_simulated(None, notices.append).info.kind is GpuKind.SIMULATED
    assert len(notices) == 1


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES is '0'"),
        ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": ""}, "a job of Slurm (SLURM_JOB_ID set)"),
        ({"PBS_JOBID": "7.host"}, "a job of PBS"),
        ({"LSB_JOBID": "7"}, "a job of LSF"),
        ({"JOB_ID": "7", "SGE_ROOT": "/opt/sge"}, "a job of Grid Engine (JOB_ID, SGE_ROOT set)"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": "all"}, "a job of Kubernetes"),
    ],
)
def test_where_there_should_be_gpus_a_missing_driver_is_exit_3_and_nothing_is_simulated(
    no_driver, variables, said
):
    no_driver.update(variables)
    with pytest.raises(GpuError) as refused:
        open_gpu_or_simulated(None, pytest.fail)
    assert refused.value.exit_code == 3
    assert str(refused.value).startswith("this machine has no NVIDIA driver, but ")
    assert said in str(refused.value)
    assert str(refused.value).endswith("simulate by `gpu` simulated")
    # Who names the simulated GPU gets it anywhere.
    assert open_gpu_or_simulated("simulated", pytest.fail).info.kind is GpuKind.SIMULATED


@pytest.mark.parametrize(
    "variables",
    [
        {"JOB_ID": "7"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NVIDIA_VISIBLE_DEVICES": "void"},
        {"NVIDIA_VISIBLE_DEVICES": "all"},
        {"SLURM_CONF": "/etc/slurm.conf", "SGE_ROOT": "/opt/sge"},
    ],
)
def test_what_does_not_say_that_there_should_be_gpus(variables):
    assert wants_gpus(variables) == ""

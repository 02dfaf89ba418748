"""What opening a real GPU makes of its driver, with NVML and CUDA played by fakes."""

from types import SimpleNamespace

import pytest
from fakes.nvml import AVERAGE, INSTANT, LOST, MEMORY, NOT_SUPPORTED, FakeDevice, FakeNvml

from ptxbench.core.errors import GpuError, InputError, LaunchError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.experiment.run_options import RunOptions
from ptxbench.experiment.sensor_choice import choose_sensor
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.nvml import NvmlDevice
from ptxbench.sensors.sources import nvml_sources

cuda = pytest.importorskip("ptxbench.devices.cuda", exc_type=GpuError)

NO_FIELDS = dict.fromkeys((INSTANT, AVERAGE, MEMORY), NOT_SUPPORTED)
NO_COUNTER = {"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED}
NO_SAMPLES = {"nvmlDeviceGetSamples": NOT_SUPPORTED}
NO_USAGE = {"nvmlDeviceGetPowerUsage": NOT_SUPPORTED}


class FakeCuda:
    """The calls of the CUDA driver that opening a GPU makes; CUDA numbers the GPUs backwards."""

    def __init__(self, *devices, hidden=False, failing=""):
        self.visible = [] if hidden else list(reversed(devices))
        self.failing = failing

    def __call__(self, function, *arguments):
        if function == self.failing:
            raise LaunchError(f"{function}: CUDA_ERROR_NO_DEVICE")
        attributes = {
            "COMPUTE_CAPABILITY_MAJOR": 9,
            "COMPUTE_CAPABILITY_MINOR": 0,
            "MULTIPROCESSOR_COUNT": 132,
            "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
            "L2_CACHE_SIZE": 52428800,
        }
        answers = {
            "cuDeviceGetCount": lambda: len(self.visible),
            "cuDeviceGet": lambda ordinal: ordinal,
            "cuDeviceGetUuid": lambda n: SimpleNamespace(
                bytes=bytes.fromhex(self.visible[n].uuid.removeprefix("GPU-"))
            ),
            "cuDevicePrimaryCtxRetain": lambda n: f"context of {self.visible[n].uuid}",
            "cuDeviceGetAttribute": lambda a, _n: attributes[a.name.removeprefix("CU_DEVICE_ATTRIBUTE_")],
        }
        return answers[function](*arguments) if function in answers else None


@pytest.fixture
def opened(monkeypatch):
    def opened(*devices, which=0, **faults):
        library = FakeNvml(*devices)
        monkeypatch.setattr(cuda, "NvmlDevice", lambda index: NvmlDevice(index, library))
        monkeypatch.setattr(cuda, "_call", FakeCuda(*devices, **faults))
        return cuda.CudaGpu(which)

    return opened


def sources(gpu):
    return [sensor.source for sensor in gpu.sensors]


def test_the_gpu_of_nvml_is_found_among_those_of_cuda(opened):
    gpu = opened(FakeDevice(uuid="GPU-0a"), FakeDevice(uuid="GPU-0b"), which=1)
    assert gpu._context._handle == "context of GPU-0b"
    assert (gpu.info.kind, gpu.info.index, gpu.info.target, gpu.info.sm_count) == (
        GpuKind.REAL,
        1,
        "sm_90a",
        132,
    )
    # Two transfers a clock of 3201 MHz, on a bus of 6144 bits.
    assert (gpu.info.l2_bytes, gpu.info.dram_bytes_per_s) == (50 * 2**20, pytest.approx(4.917e12, rel=1e-4))


def test_sources_are_best_for_steady_power_first(opened):
    gpu = opened(FakeDevice())
    assert sources(gpu)[:3] == [SourceName.SAMPLES, SourceName.COUNTER, SourceName.INSTANT]
    assert set(sources(gpu)) == set(nvml_sources())
    assert choose_sensor(gpu, None).source is SourceName.SAMPLES


@pytest.mark.parametrize(
    ("device", "left"),
    [
        (FakeDevice(field_errors=NO_FIELDS), ["samples", "counter", "usage"]),
        (FakeDevice(field_errors=NO_FIELDS, errors=NO_COUNTER), ["samples", "usage"]),
        (FakeDevice(field_errors=NO_FIELDS, errors=NO_COUNTER | NO_SAMPLES), ["usage"]),
        (FakeDevice(errors=NO_SAMPLES), ["counter", "instant", "usage", "average", "memory"]),
    ],
    ids=["no field values", "no counter", "usage only", "no samples"],
)
def test_what_the_driver_does_not_answer_is_left_out(opened, device, left):
    gpu = opened(device)
    assert sources(gpu) == left
    arguments = RunOptions().complete(gpu)
    assert choose_sensor(gpu, arguments.source).source == left[0]
    for source in set(SourceName) - set(left):
        with pytest.raises(
            InputError, match=f"does not answer the power source '{source}'; it answers: {left[0]}"
        ):
            RunOptions(source=source).complete(gpu)


def test_a_gpu_that_tells_no_power_at_all_is_refused(opened):
    device = FakeDevice(field_errors=NO_FIELDS, errors=NO_COUNTER | NO_SAMPLES | NO_USAGE)
    with pytest.raises(GpuError, match=r"GPU 0 \(NVIDIA H200\): no power source of NVML answers .*usage 3"):
        opened(device)


def test_a_gpu_in_mig_mode_is_refused(opened):
    with pytest.raises(GpuError, match=r"GPU 1 \(NVIDIA H200\) is split into MIG instances"):
        opened(FakeDevice(), FakeDevice(uuid="GPU-0b", is_partitioned=True), which=1)


def test_a_gpu_that_cuda_does_not_see_is_refused(opened):
    with pytest.raises(GpuError, match="GPU 0 is hidden from CUDA; see CUDA_VISIBLE_DEVICES"):
        opened(FakeDevice(), hidden=True)
    with pytest.raises(GpuError, match="CUDA_ERROR_NO_DEVICE") as refused:
        opened(FakeDevice(), failing="cuInit")
    assert type(refused.value) is GpuError


def test_a_gpu_that_is_gone_is_an_error_and_not_nan(opened):
    device = FakeDevice()
    gpu = opened(device)
    device.lost = True
    with pytest.raises(GpuError, match=f"code {LOST}"):
        gpu.telemetry()

import hashlib
import math
import os
import runpy
import subprocess
import sys

import pytest
from fakes.nvml import (
    AVERAGE,
    DOUBLE,
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    INSTANT,
    LIBRARY_NOT_FOUND,
    LOST,
    MEMORY,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    FakeDevice,
    FakeNvml,
)

from ptxbench.core.errors import GpuError
from ptxbench.sensors import nvml
from ptxbench.sensors.base import Reading, SourceName
from ptxbench.sensors.nvml import (
    DeviceEntry,
    NvmlDevice,
    available_sources,
    list_devices,
    no_source_error,
    silent_sources,
)
from ptxbench.sensors.sources import nvml_sources, source_of

ALL = set(nvml_sources())
SAMPLES_US = [(1_700_000_000_000_020, 101_000), (1_700_000_000_020_020, 102_500)]
FIELDS = {SourceName.INSTANT, SourceName.AVERAGE, SourceName.MEMORY}


def full_device(**changes) -> FakeDevice:
    return FakeDevice(**({"samples": list(SAMPLES_US)} | changes))


def opened(**changes) -> NvmlDevice:
    return NvmlDevice(0, library=FakeNvml(full_device(**changes)))


def one(device: NvmlDevice, name: SourceName) -> Reading:
    (reading,) = device.source(name).read()
    return reading


def test_a_gpu_tells_what_it_is():
    device = NvmlDevice(1, library=FakeNvml(FakeDevice(), full_device(uuid="GPU-1", name="NVIDIA L4")))
    assert (device.index, device.name, device.uuid) == (1, "NVIDIA L4", "GPU-1")
    assert device.uuid_hash == hashlib.sha256(b"GPU-1").hexdigest()[:12]
    assert (device.driver, device.cuda, device.vbios) == ("580.159.04", "13.1", "96.00")
    assert (device.power_limit_w, device.max_sm_clock_mhz) == (700.0, 1980.0)


def test_the_highest_limit_is_the_boards_own_and_not_the_one_that_a_user_lowered():
    device = opened(limit_mw=350_000)
    assert (device.power_limit_w, device.max_power_limit_w) == (350.0, 700.0)


def test_without_limits_the_highest_one_is_not_known():
    device = opened(errors={"nvmlDeviceGetPowerManagementLimitConstraints": NOT_SUPPORTED})
    assert math.isnan(device.max_power_limit_w)


def test_a_uuid_opens_the_same_gpu_as_its_index():
    library = FakeNvml(FakeDevice(uuid="GPU-a"), FakeDevice(uuid="GPU-b"))
    assert NvmlDevice("GPU-b", library=library).index == 1


def test_units_of_every_source():
    device = opened()
    assert one(device, SourceName.USAGE) == Reading(250.0)
    assert one(device, SourceName.INSTANT) == Reading(260.5)
    assert one(device, SourceName.AVERAGE) == Reading(240.0)
    assert one(device, SourceName.MEMORY) == Reading(43.0)
    assert one(device, SourceName.COUNTER) == Reading(7000.001)
    assert device.source(SourceName.SAMPLES).read() == (
        Reading(101.0, 1_700_000_000_000_020_000),
        Reading(102.5, 1_700_000_000_020_020_000),
    )


def test_a_field_is_read_by_its_own_value_type():
    assert one(opened(field_type=DOUBLE), SourceName.INSTANT) == Reading(260.5)


def test_a_field_of_unknown_type_is_a_failure_not_a_number():
    reading = one(opened(field_type=77), SourceName.INSTANT)
    assert math.isnan(reading.value)
    assert reading.code != 0


def test_samples_of_unknown_type_are_a_failure_not_numbers():
    class Newer(FakeNvml):
        def nvmlDeviceGetSamples(self, device, kind, last_us):  # noqa: N802
            return 77, super().nvmlDeviceGetSamples(device, kind, last_us)[1]

    (reading,) = NvmlDevice(0, library=Newer(full_device())).source(SourceName.SAMPLES).read()
    assert math.isnan(reading.value)
    assert reading.code != 0


LACKING = {
    "counter": (
        {"errors": {"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED}},
        ALL - {SourceName.COUNTER},
    ),
    "field values, old driver": ({"errors": {"nvmlDeviceGetFieldValues": FUNCTION_NOT_FOUND}}, ALL - FIELDS),
    "one field": ({"field_errors": {INSTANT: NOT_SUPPORTED}}, ALL - {SourceName.INSTANT}),
    "memory scope": ({"field_errors": {MEMORY: NOT_SUPPORTED}}, ALL - {SourceName.MEMORY}),
    "samples": ({"errors": {"nvmlDeviceGetSamples": NOT_SUPPORTED}}, ALL - {SourceName.SAMPLES}),
    "all power": (
        {
            "errors": {
                "nvmlDeviceGetPowerUsage": NOT_SUPPORTED,
                "nvmlDeviceGetSamples": NOT_SUPPORTED,
                "nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED,
            },
            "field_errors": {INSTANT: NOT_SUPPORTED, AVERAGE: NOT_SUPPORTED, MEMORY: NOT_SUPPORTED},
        },
        set(),
    ),
    "permission": ({"errors": {"nvmlDeviceGetPowerUsage": NO_PERMISSION}}, ALL - {SourceName.USAGE}),
    "nothing": ({}, ALL),
}


@pytest.mark.parametrize("lacking", LACKING)
def test_only_sources_that_answer_are_available(lacking):
    changes, expected = LACKING[lacking]
    device = opened(**changes)
    assert {source.name for source in available_sources(device)} == expected
    for name in ALL - expected:
        reading = one(device, name)
        assert math.isnan(reading.value)
        assert reading.code in (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND)


def test_an_empty_sample_buffer_still_answers():
    assert SourceName.SAMPLES in {s.name for s in available_sources(opened(samples=[]))}


def test_samples_are_given_once_in_order_and_nothing_new_is_no_failure():
    device = full_device()
    source = NvmlDevice(0, library=FakeNvml(device)).source(SourceName.SAMPLES)
    assert len(source.read()) == 2
    assert source.read() == ()
    device.samples += [(SAMPLES_US[-1][0] + 40, 5_000), (SAMPLES_US[-1][0] + 20, 4_000)]
    assert [reading.value for reading in source.read()] == [4.0, 5.0]
    assert source.read() == ()


def test_a_driver_that_repeats_old_samples_gives_none_twice():
    class Repeating(FakeNvml):
        def nvmlDeviceGetSamples(self, device, kind, last_us):  # noqa: N802
            return super().nvmlDeviceGetSamples(device, kind, 0)

    source = NvmlDevice(0, library=Repeating(full_device())).source(SourceName.SAMPLES)
    assert len(source.read()) == 2
    assert source.read() == ()


def test_samples_go_on_after_the_systems_clock_was_set_back():
    device = full_device()
    source = NvmlDevice(0, library=FakeNvml(device)).source(SourceName.SAMPLES)
    assert len(source.read()) == 2
    hour_us = 3_600_000_000
    device.samples = [(us - hour_us, mw) for us, mw in SAMPLES_US]
    for _ in range(5000):
        assert source.read() == ()  # what is older than the last sample is never taken for news
    device.samples.append((SAMPLES_US[-1][0] - hour_us + 20_000, 99_000))
    assert [reading.value for reading in source.read()] == [99.0]


class Hiccup(FakeNvml):
    """Fails the first calls of one function with one code."""

    def __init__(self, device, function, code, times):
        super().__init__(device)
        self._hiccup = function
        self._code = code
        self._left = times

    def _ask(self, function, device, answer):
        if function == self._hiccup and self._left:
            self._left -= 1
            raise self.NVMLError(self._code)
        return super()._ask(function, device, answer)


@pytest.mark.parametrize(("code", "kept"), [(999, True), (10, True), (NOT_SUPPORTED, False)])
def test_a_source_that_fails_once_while_the_gpu_is_opened_is_not_lost(code, kept):
    device = NvmlDevice(0, library=Hiccup(full_device(), "nvmlDeviceGetTotalEnergyConsumption", code, 1))
    assert (SourceName.COUNTER in {s.name for s in available_sources(device)}) is kept


def test_a_field_that_is_not_a_number_is_no_reading_of_anything():
    device = opened(fields_mw={INSTANT: math.nan, AVERAGE: 1.0, MEMORY: 1.0}, field_type=DOUBLE)
    assert math.isnan(one(device, SourceName.INSTANT).value)


@pytest.mark.parametrize("name", [name for name in SourceName if not source_of(name).is_external])
def test_a_gpu_lost_midway_gives_nan_and_its_code(name):
    device = full_device()
    source = NvmlDevice(0, library=FakeNvml(device)).source(name)
    assert source.read()[0].code == 0
    device.lost = True
    (reading,) = source.read()
    assert math.isnan(reading.value)
    assert reading.code == LOST


@pytest.mark.parametrize("code", [LOST, RESET_REQUIRED])
def test_telemetry_of_a_lost_gpu_is_an_error_not_nan(code):
    device = full_device()
    gpu = NvmlDevice(0, library=FakeNvml(device))
    device.errors["nvmlDeviceGetClockInfo"] = code
    with pytest.raises(GpuError, match="stopped answering") as caught:
        gpu.telemetry()
    assert_one_clear_line(caught.value)


def test_telemetry():
    gpu = opened(pids=[os.getpid(), 11, 12, 12])
    state = gpu.telemetry()
    assert (state.temperature_c, state.sm_clock_mhz, state.memory_clock_mhz) == (41.0, 1755.0, 3201.0)
    assert (state.throttle_reasons, state.other_processes) == (4, 2)


def test_telemetry_where_nothing_is_supported():
    queries = ["TemperatureV", "Temperature", "ClockInfo", "ComputeRunningProcesses"]
    queries += ["CurrentClocksEventReasons", "CurrentClocksThrottleReasons"]
    state = opened(errors={f"nvmlDeviceGet{query}": NOT_SUPPORTED for query in queries}).telemetry()
    assert math.isnan(state.temperature_c)
    assert math.isnan(state.sm_clock_mhz)
    assert math.isnan(state.memory_clock_mhz)
    assert (state.throttle_reasons, state.other_processes) == (0, -1)


def test_older_names_of_queries_serve_older_drivers():
    missing = ["nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"]
    state = opened(errors=dict.fromkeys(missing, FUNCTION_NOT_FOUND)).telemetry()
    assert (state.temperature_c, state.throttle_reasons) == (40.0, 8)


def test_a_binding_without_a_query_counts_as_not_supported():
    class Older(FakeNvml):
        nvmlDeviceGetTemperatureV = None  # noqa: N815

    assert NvmlDevice(0, library=Older(full_device())).telemetry().temperature_c == 40.0


def test_unsupported_facts_are_unknown():
    queries = ["VbiosVersion", "EnforcedPowerLimit", "MaxClockInfo", "ApplicationsClock"]
    device = opened(errors={f"nvmlDeviceGet{query}": NOT_SUPPORTED for query in queries})
    assert device.vbios == "unknown"
    assert math.isnan(device.power_limit_w)
    assert math.isnan(device.max_sm_clock_mhz)
    assert math.isnan(device.dram_bytes_per_s)
    assert device.clocks_locked is None


def test_a_driver_that_does_not_tell_its_version_is_unknown():
    library = FakeNvml(full_device(), version_error=NOT_SUPPORTED)
    device = NvmlDevice(0, library=library)
    assert (device.driver, device.cuda) == ("unknown", "unknown")


@pytest.mark.parametrize(
    ("application_mhz", "locked"), [((1980, 3201), False), ((1500, 3201), True), ((1980, 2600), True)]
)
def test_application_clocks(application_mhz, locked):
    assert opened(application_mhz=application_mhz).clocks_locked is locked


def assert_one_clear_line(error: GpuError) -> None:
    assert error.exit_code == 3
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("which", "library", "says"),
    [
        (0, FakeNvml(init_error=LIBRARY_NOT_FOUND), "libnvidia-ml.so.1"),
        (0, FakeNvml(init_error=DRIVER_NOT_LOADED), "load the NVIDIA driver"),
        (0, FakeNvml(init_error=999), "nvidia-smi"),
        (7, FakeNvml(FakeDevice()), "GPU 7 does not exist: this machine has 1"),
        (-1, FakeNvml(FakeDevice()), "GPU -1 does not exist"),
        (0, FakeNvml(), "NVML sees no GPU"),
        ("GPU-zz", FakeNvml(FakeDevice()), "GPU 'GPU-zz' is not on this machine (NVML code 6)"),
        (0, FakeNvml(FakeDevice(errors={"nvmlDeviceGetHandleByIndex": NO_PERMISSION})), "/dev/nvidia"),
        (0, FakeNvml(FakeDevice(lost=True)), "reset the GPU"),
        (0, FakeNvml(FakeDevice(errors={"nvmlDeviceGetUUID": LOST})), "reset the GPU"),
        (1, FakeNvml(FakeDevice(), FakeDevice(lost=True, name="b")), "GPU 1 cannot be opened: NVML says"),
        (0, FakeNvml(FakeDevice(errors={"nvmlDeviceGetName": 999})), "GPU 0 does not answer: NVML says"),
    ],
)
def test_what_cannot_be_opened_is_one_line_with_a_cure(which, library, says):
    with pytest.raises(GpuError) as caught:
        NvmlDevice(which, library=library)
    assert_one_clear_line(caught.value)
    assert says in str(caught.value)
    assert library.open_count == 0


def test_list_devices():
    library = FakeNvml(FakeDevice(uuid="GPU-a"), FakeDevice(uuid="GPU-b", name="NVIDIA L4", bus=7))
    assert list_devices(library) == (
        DeviceEntry(0, "NVIDIA H200", "GPU-a", (0, 0, 0)),
        DeviceEntry(1, "NVIDIA L4", "GPU-b", (0, 7, 0)),
    )
    assert library.open_count == 0


def test_a_board_that_does_not_answer_is_listed_with_its_fault_beside_the_others():
    library = FakeNvml(
        FakeDevice(uuid="GPU-a", errors={"nvmlDeviceGetHandleByIndex": NO_PERMISSION}),
        FakeDevice(uuid="GPU-b", errors={"nvmlDeviceGetUUID": LOST}),
        FakeDevice(uuid="GPU-c", is_partitioned=True),
        FakeDevice(uuid="GPU-d", errors={"nvmlDeviceGetPciInfo": 3, "nvmlDeviceGetMigMode": 3}),
    )
    forbidden, lost, split, works = list_devices(library)
    assert forbidden.fault.startswith("NVML says 'error text 4' (code 4); run as a user who may open /dev/nv")
    assert (forbidden.title, forbidden.uuid, forbidden.is_forbidden) == ("GPU 0", "", True)
    assert lost.fault.startswith("NVML says 'error text 15' (code 15); reset the GPU")
    assert (lost.title, lost.uuid, lost.is_forbidden) == ("GPU 1 (NVIDIA H200)", "", False)
    assert split.fault.startswith("it is split into MIG instances")
    assert (split.uuid, split.is_forbidden) == ("GPU-c", False)
    assert (works.uuid, works.bus, works.fault) == ("GPU-d", None, "")
    assert library.open_count == 0


def test_a_list_that_cannot_be_read_is_one_clear_line():
    class Uncounted(FakeNvml):
        def nvmlDeviceGetCount(self):  # noqa: N802
            raise self.NVMLError(999)

    library = Uncounted(FakeDevice())
    with pytest.raises(GpuError, match=r"the GPUs cannot be listed.*code 999") as caught:
        list_devices(library)
    assert_one_clear_line(caught.value)
    assert library.open_count == 0


def test_a_board_in_mig_mode_is_refused_by_name():
    opened().require_whole()
    with pytest.raises(
        GpuError, match=r"GPU 0 \(NVIDIA H200\) is split into MIG instances.*-mig 0"
    ) as caught:
        opened(is_partitioned=True).require_whole()
    assert_one_clear_line(caught.value)


def test_the_codes_of_silent_sources_are_told():
    device = opened(errors={"nvmlDeviceGetPowerUsage": NO_PERMISSION}, field_errors={MEMORY: NOT_SUPPORTED})
    assert silent_sources(device) == {SourceName.USAGE: NO_PERMISSION, SourceName.MEMORY: NOT_SUPPORTED}
    assert "no power source of NVML answers (NVML codes: usage 4, memory 3)" in str(no_source_error(device))


def test_close_releases_nvml():
    library = FakeNvml(FakeDevice())
    device = NvmlDevice(0, library=library)
    assert library.open_count == 1
    device.close()
    assert library.open_count == 0


def test_no_setting_is_changed():
    library = FakeNvml(full_device())
    device = NvmlDevice(0, library=library)
    available_sources(device)
    device.telemetry()
    assert {device.cuda, device.driver, device.vbios}
    assert isinstance(device.clocks_locked, bool)
    assert library.called
    assert all(name.startswith("nvmlDeviceGet") for name in library.called)


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_the_sensors_package_does_not_import_pynvml():
    modules = "sampler, known_sensors, sources, description, base, trace"
    code = f"import sys; from ptxbench.sensors import {modules}; print('pynvml' in sys.modules)"
    assert run_python(code).strip() == "False"


@pytest.mark.parametrize(
    ("owner", "cure"),
    [
        ("pynvml", "run 'pip uninstall pynvml' and 'pip install --upgrade --force-reinstall nvidia-ml-py'"),
        ("nvidia-ml-py3", "run 'pip uninstall nvidia-ml-py3' and 'pip install"),
        (None, "run 'pip install --upgrade --force-reinstall nvidia-ml-py'"),
    ],
)
def test_an_old_package_in_the_place_of_nvidia_ml_py_is_one_line_with_what_to_uninstall(
    tmp_path, monkeypatch, owner, cure
):
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("NVML_CLOCK_SM = 1\n")
    if owner is not None:
        described = tmp_path / f"{owner}-11.5.3.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {owner}\nVersion: 11.5.3\n")
        (described / "RECORD").write_text("pynvml/__init__.py,,\n")
        (described / "top_level.txt").write_text("pynvml\n")
    monkeypatch.delitem(sys.modules, "pynvml")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GpuError) as refused:
        runpy.run_path(nvml.__file__)
    assert "\n" not in str(refused.value)
    assert f"{tmp_path}/pynvml/__init__.py is imported for nvidia-ml-py" in str(refused.value)
    assert cure in str(refused.value)


def test_a_missing_binding_is_one_clear_line():
    code = """
import sys
sys.modules["pynvml"] = None
from ptxbench.cli.main import run
raise SystemExit(run(["run", "--no-kernels", "--", "true"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "pip install nvidia-ml-py" in line

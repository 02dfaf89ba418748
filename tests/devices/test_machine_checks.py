"""What a machine lacks is said in a line each, by a fake NVML whose devices lack things."""

import pytest
from fakes.nvml import INSTANT, LOST, NO_PERMISSION, NOT_SUPPORTED, FakeDevice, FakeNvml

from ptxbench.core.errors import GpuError, ToolError
from ptxbench.devices import machine_checks
from ptxbench.devices.machine_checks import (
    dcgm_verdict,
    device_verdicts,
    fault_verdicts,
    machine_verdicts,
)
from ptxbench.devices.pollers import poller_verdicts
from ptxbench.sensors.nvml import NvmlDevice, list_devices
from ptxbench.storage.doctor_file import State, Verdict


def missing(name):
    raise OSError(f"{name}: cannot open shared object file: No such file or directory")


def lines(verdicts):
    return {verdict.subject: verdict for verdict in verdicts}


def of_device(**lacks):
    device = NvmlDevice(0, FakeNvml(FakeDevice(**lacks)))
    found = lines(device_verdicts(device))
    device.close()
    return found


def test_a_machine_without_a_driver_still_has_its_tools_checked(tmp_path):
    found = lines(machine_verdicts(tmp_path, missing))
    assert found["driver"].state is State.MISSING
    assert "--gpu simulated" in found["driver"].text
    assert found["tools"].state is State.OK
    assert "permissions" not in found


def test_a_library_that_a_container_lacks_is_named(tmp_path):
    def only_nvml(name):
        return None if "nvidia-ml" in name else missing(name)

    (tmp_path / "nvidia0").touch()
    verdict = lines(machine_verdicts(tmp_path, only_nvml))["driver"]
    assert verdict.state is State.MISSING
    assert verdict.text.startswith("libcuda.so.1 cannot be found")


def test_a_device_file_that_may_not_be_opened_is_named(tmp_path, monkeypatch):
    (tmp_path / "nvidia0").touch()
    (tmp_path / "nvidiactl").touch()
    assert lines(machine_verdicts(tmp_path, str))["permissions"].state is State.OK
    monkeypatch.setattr(machine_checks.os, "access", lambda path, mode: path.name != "nvidia0")
    verdict = lines(machine_verdicts(tmp_path, str))["permissions"]
    assert (verdict.state, verdict.text.split()[0]) == (State.BAD, "nvidia0")


def test_a_missing_package_and_a_missing_tool_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_checks, "find_spec", lambda name: None if name == "pynvml" else object())

    def no_tool(_tool):
        raise ToolError("ptxas not found: run 'pip install nvidia-cuda-nvcc'")

    monkeypatch.setattr(machine_checks, "tool_version", no_tool)
    found = lines(machine_verdicts(tmp_path, str))
    assert found["packages"].state is found["tools"].state is State.MISSING
    assert "pip install nvidia-ml-py" in found["packages"].text


def test_boards_that_cannot_be_measured_have_a_line_each_and_a_lost_one_is_bad():
    boards = list_devices(
        FakeNvml(
            FakeDevice(),
            FakeDevice(name="lost", errors={"nvmlDeviceGetHandleByIndex": LOST}),
            FakeDevice(name="other's", errors={"nvmlDeviceGetHandleByIndex": NO_PERMISSION}),
            FakeDevice(name="split", is_partitioned=True),
        )
    )
    found = lines(fault_verdicts(boards))
    assert {subject: verdict.state for subject, verdict in found.items()} == {
        "GPU 1": State.BAD,
        "GPU 2": State.NOTE,
        "GPU 3 (split)": State.NOTE,
    }
    assert f"code {LOST}" in found["GPU 1"].text
    assert f"code {NO_PERMISSION}" in found["GPU 2"].text
    assert "nvidia-smi -mig 0" in found["GPU 3 (split)"].text


def test_an_old_package_in_the_place_of_nvidia_ml_py_is_missing_and_named(tmp_path, monkeypatch):
    def shadowed(_module):
        raise GpuError("pynvml is imported for nvidia-ml-py")

    monkeypatch.setattr(machine_checks, "import_module", shadowed)
    verdict = lines(machine_verdicts(tmp_path, str))["packages"]
    assert verdict == Verdict("packages", State.MISSING, "pynvml is imported for nvidia-ml-py")


def test_a_whole_device_has_a_line_of_its_driver_alone():
    assert set(of_device()) == {"driver"}


@pytest.mark.parametrize(
    ("lacks", "subject", "state", "words"),
    [
        (
            {"field_errors": {INSTANT: NOT_SUPPORTED}},
            "instant",
            State.NOTE,
            "does not answer: not supported on this GPU or driver, NVML code 3",
        ),
        (
            {"errors": {"nvmlDeviceGetPowerUsage": NO_PERMISSION}},
            "usage",
            State.NOTE,
            "no permission, NVML code 4",
        ),
        (
            {"errors": {"nvmlDeviceGetTotalEnergyConsumption": 99}},
            "counter",
            State.NOTE,
            "does not answer: NVML code 99",
        ),
        ({"pids": [1, 2]}, "processes", State.NOTE, "2 other processes"),
        ({"application_mhz": (1500, 3201)}, "clocks", State.NOTE, "application clocks"),
        ({"is_persistent": False}, "persistence", State.NOTE, "nvidia-smi -pm 1"),
        ({"has_ecc": False}, "ECC", State.NOTE, "compare boards of one setting"),
    ],
)
def test_what_a_device_lacks_has_its_line(lacks, subject, state, words):
    verdict = of_device(**lacks)[subject]
    assert verdict.state is state
    assert words in verdict.text


def test_short_intervals_of_dcgm_are_refused_on_hopper_with_the_reason():
    assert dcgm_verdict(90).state is State.DO_NOT_USE
    assert "100 ms is a hard limit" in dcgm_verdict(90).text
    assert dcgm_verdict(80).state is State.NOTE


@pytest.mark.parametrize(
    ("words", "state", "text"),
    [
        ("/usr/bin/dcgm-exporter -c 100 -f x.csv", State.NOTE, "dcgm-exporter reads every 0.1 s"),
        ("dcgm-exporter --collect-interval=30000", State.OK, "dcgm-exporter reads every 30 s"),
        ("dcgm-exporter", State.NOTE, "dcgm-exporter runs here"),
        ("nvidia-smi --query-gpu=power.draw --format=csv -lms 20", State.NOTE, "every 0.02 s"),
        ("nvidia-smi -l 5", State.OK, "nvidia-smi reads every 5 s"),
        ("nvidia-smi dmon -s p", State.OK, "nvidia-smi dmon reads every 1 s"),
        ("dcgmi dmon -e 155 -d 10", State.NOTE, "dcgmi dmon reads every 0.01 s"),
        ("nv-hostengine -n", State.NOTE, "nv-hostengine runs here"),
        ("nvidia-smi -q", None, ""),
        ("python train.py -c 100", None, ""),
    ],
)
def test_what_polls_the_gpus_is_named_with_how_often(tmp_path, words, state, text):
    for number in (7, 8):  # two of a kind are one line
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "cmdline").write_bytes(words.replace(" ", "\0").encode() + b"\0")
    found = list(poller_verdicts(tmp_path))
    assert [one.state for one in found] == ([] if state is None else [state])
    assert all(text in one.text for one in found)

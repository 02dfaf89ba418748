"""`ptxbench gpus`: what can be given to --gpu, and what cannot be used, with its reason."""

import json
from dataclasses import replace

import pytest

from ptxbench.cli.main import run
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.select import ListedGpu
from ptxbench.devices.simulated import SimulatedGpu

LOST = "NVML says 'GPU is lost' (code 15); reset the GPU or restart the machine"


@pytest.fixture(autouse=True)
def a_gpu_and_a_lost_one(monkeypatch):
    info = replace(SimulatedGpu().info, index=0, kind=GpuKind.REAL, name="NVIDIA H200")
    listed = (ListedGpu(0, info.name, info), ListedGpu(1, "", None, LOST))
    monkeypatch.setattr("ptxbench.devices.select.list_gpus", lambda: listed)


def test_a_gpu_that_cannot_be_used_is_listed_with_its_fault_below(capsys):
    assert run(["gpus"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["0", "NVIDIA", "H200", "sm_90a"]
    assert lines[2].split()[:2] == ["1", "-"]
    assert lines[3].startswith("simulated:a100")
    assert lines[-1] == f"GPU 1 cannot be used: {LOST}"


def test_as_json_it_has_a_fault_and_no_numbers(capsys):
    assert run(["gpus", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    works, lost = document["gpus"][:2]
    assert (works["gpu"], works["sm_count"], works.get("fault")) == ("0", 132, None)
    assert lost == {"gpu": "1", "index": 1, "kind": "real", "name": "", "fault": LOST}
    assert document["no_real_gpu"] == ""

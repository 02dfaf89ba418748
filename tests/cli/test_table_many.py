"""`ptxbench table` on several GPUs: one is killed and goes on, one is lost, and the others do not notice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes.nvml import FakeDevice, use_nvml

from ptxbench.cli.main import run
from ptxbench.core.errors import GpuError, InputError
from ptxbench.devices.select import named_gpus, names_several
from ptxbench.devices.simulated import SimulatedGpu, find_board
from ptxbench.storage.run_folder import RunFolder

NAMES = ("fma.rn.f32", "add.f32", "mul.f32")
QUICK = (
    "--protocol=dynamic",
    "--opt-level=O3",
    "--min-repeats=2",
    "--max-repeats=2",
    "--check-linearity=none",
)
BOARDS = ("simulated:h200@1", "simulated:h200@lost", "simulated:h200@2")


def folder_of(out, spec):
    return out / f"board-{named_gpus(spec)[0].board[:8]}"


def kill_once_it_measures(parent, folder, deadline_s=120):
    """Kill the worker of a run as soon as it has kept a trial."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end and parent.poll() is None:
        if list(folder.glob("partial/*")):
            for child in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split():
                if f"--out={folder}" in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                    os.kill(int(child), signal.SIGKILL)
                    return
        time.sleep(0.01)
    pytest.fail("no worker was seen at work")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    out = tmp_path_factory.mktemp("many") / "out"
    command = [sys.executable, "-m", "ptxbench", "table", *NAMES, *QUICK, "--json"]
    parent = subprocess.Popen(
        [*command, f"--gpu={','.join(BOARDS)}", f"--out={out}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    kill_once_it_measures(parent, folder_of(out, BOARDS[0]))
    printed, said = parent.communicate()
    return out, parent.returncode, json.loads(printed), said


def test_the_lost_gpu_alone_fails_and_makes_the_exit_code(measured):
    out, code, document, said = measured
    assert code == 1
    assert document["exit_codes"] == {
        folder_of(out, BOARDS[0]).name: 0,
        folder_of(out, BOARDS[1]).name: 3,
        folder_of(out, BOARDS[2]).name: 0,
    }
    assert "stopped answering" in said


def test_the_killed_worker_went_on_and_no_row_is_lost_or_there_twice(measured):
    with RunFolder.open(folder_of(measured[0], BOARDS[0])) as run_folder:
        assert sorted(row.instruction for row in run_folder.rows()) == sorted(NAMES)
        trials = [record.trial_id for record in run_folder.records()]
        assert len(run_folder.manifest.part.sessions) == 2
    assert len(trials) == len(set(trials))


def test_the_boards_are_compared_by_their_hidden_factors(measured):
    (model,) = measured[2]["models"]
    factors = {line["run"]: line["factor"] for line in model["boards"]}
    hidden = [find_board(spec.partition(":")[2])[0].chip.energy_scale for spec in (BOARDS[0], BOARDS[2])]
    found = [factors[folder_of(measured[0], spec).name] for spec in (BOARDS[0], BOARDS[2])]
    assert found[0] / found[1] == pytest.approx(hidden[0] / hidden[1], rel=0.005)
    assert "SIMULATED" in model["gpu"]
    assert [one["reason"] for one in measured[2]["left_out"]] == ["it has no valid row"]
    assert (measured[0] / "fleet.json").exists()


def test_a_list_is_resolved_and_what_it_cannot_name_is_refused():
    assert [gpu.spec for gpu in named_gpus("simulated:h200@1, simulated")] == [
        "simulated:h200@1",
        "simulated",
    ]
    assert names_several("all")
    assert names_several("0,2")
    assert not names_several("0")
    assert not names_several(None)
    assert not names_several("replay:a,b")
    with pytest.raises(InputError, match="twice"):
        named_gpus("simulated,simulated:h200")
    with pytest.raises(InputError, match="is no index"):
        named_gpus("simulated,nonsense")
    with pytest.raises(InputError, match="no board"):
        named_gpus("simulated:h200@x,simulated")


def test_boards_of_a_simulated_gpu_are_unlike_and_always_the_same():
    infos = {SimulatedGpu(*find_board(f"h200@{n}")).info.uuid_hash for n in range(5)}
    assert len(infos) == 5
    assert find_board("h200")[0].chip.energy_scale == 1.0
    scales = [find_board(f"h200@{n}")[0].chip.energy_scale for n in range(1, 9)]
    assert len(set(scales)) == 8
    assert all(0.96 <= scale <= 1.04 for scale in scales)
    assert find_board("h200@3") == find_board("h200@3")


def test_the_folder_is_checked_before_anything_is_measured(capsys, tmp_path, measured):
    two = "--gpu=simulated:h200@1,simulated:h200@2"
    assert run(["table", two]) == 2
    assert "needs --out" in capsys.readouterr().err
    assert run(["table", two, f"--out={measured[0]}"]) == 2
    assert "already holds runs" in capsys.readouterr().err
    assert run(["table", two, f"--out={tmp_path}", "--resume"]) == 2
    assert "no run to continue" in capsys.readouterr().err


def test_all_gpus_of_a_machine_are_those_that_cuda_shows(monkeypatch):
    use_nvml(monkeypatch, *(FakeDevice(uuid=f"GPU-{name}") for name in "abc"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-c,GPU-a")
    assert [gpu.spec for gpu in named_gpus("all")] == ["GPU-c", "GPU-a"]
    assert [gpu.spec for gpu in named_gpus("0,2")] == ["GPU-a", "GPU-c"]
    with pytest.raises(InputError, match="twice"):
        named_gpus("0,GPU-a")
    with pytest.raises(GpuError, match="does not exist"):
        named_gpus("0,7")

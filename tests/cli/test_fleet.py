"""`ptxbench table --cluster`: tasks over submitit's local executor, and what each of them runs."""

import json
import os
import sys

import pytest
from fakes.nvml import FakeDevice, use_nvml

from ptxbench.cli.main import run
from ptxbench.experiment import fleet
from ptxbench.experiment.supervise import Outcome
from ptxbench.experiment.table_options import TableOptions

QUICK = (
    "--protocol=dynamic",
    "--opt-level=O3",
    "--min-repeats=2",
    "--max-repeats=2",
    "--check-linearity=none",
)


def test_a_task_of_a_cluster_takes_the_gpu_that_it_is_shown_and_is_started_once(tmp_path, monkeypatch):
    use_nvml(monkeypatch, FakeDevice(uuid="GPU-a"), FakeDevice(uuid="GPU-b"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    seen = []

    def supervised(works):
        seen.extend(works)
        return (Outcome("x", 1, 0, 1.0, ""),)

    monkeypatch.setattr(fleet, "supervise", supervised)
    assert fleet.measure_task(TableOptions(instructions=("fma.rn.f32",)), tmp_path, None) == 1
    (work,) = seen
    assert "--gpu=GPU-b" in work.command(0.0)
    assert work.environment["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    assert work.restarts == 0


def test_two_simulated_boards_by_the_local_executor_one_of_which_is_lost(tmp_path, capsys):
    pytest.importorskip("submitit")
    out, boards = tmp_path / "out", ("simulated:h200@1", "simulated:h200@lost")
    words = ["--json", f"--gpu={','.join(boards)}", f"--out={out}"]
    assert run(["table", "--cluster=local", *words, "fma.rn.f32", *QUICK]) == 1
    document = json.loads(capsys.readouterr().out)
    assert sorted(document["exit_codes"].values()) == [0, 3]
    (model,) = document["models"]
    assert [line["rows"] for line in model["boards"]] == [1]
    assert [one["reason"] for one in document["left_out"]] == ["it has no valid row"]
    # What is finished is not measured again, and the report says the same.
    assert run(["table", "--cluster=local", *words, "fma.rn.f32", *QUICK]) == 2
    assert "already holds runs" in capsys.readouterr().err
    assert run(["report", "--boards", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == document["models"]


def test_slurm_is_given_one_array_of_tasks_with_one_gpu_each(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("srun", ""), ("sbatch", "cp $1 $KEPT; echo Submitted batch job 12")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("KEPT", str(tmp_path / "script"))
    monkeypatch.setattr("submitit.slurm.slurm.SlurmJob.done", lambda job, force_check=False: False)
    monkeypatch.setattr(fleet, "sleep", interrupt)
    words = ["--cluster=slurm", "--tasks=3", "--partition=gpu", "--minutes=40", "--sbatch=constraint=h100"]
    assert run(["table", f"--out={tmp_path / 'out'}", *words, "fma.rn.f32"]) == 130
    script = (tmp_path / "script").read_text()
    for line in ("--array=0-2", "--gpus-per-node=1", "--partition=gpu", "--time=40", "--constraint=h100"):
        assert f"#SBATCH {line}" in script


def interrupt(_time_s):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu=simulated", "fma.rn.f23"], "did you mean fma.rn.f32"),
        (["--gpu=simulated", "--tasks=2"], "--tasks is for --cluster slurm"),
        (["--cluster=slurm"], "needs --tasks"),
        (["--cluster=slurm", "--tasks=2", "--sbatch=exclusive"], "KEY=VALUE"),
        (["--gpu=simulated", "--resume"], "no run to continue"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_submitted(tmp_path, capsys, words, said):
    assert run(["table", "--cluster=local", f"--out={tmp_path / 'out'}", *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_submitit_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert run(["table", "--cluster=local", f"--out={tmp_path / 'out'}", "--gpu=simulated"]) == 2
    assert "pip install submitit" in capsys.readouterr().err


def test_a_report_of_a_folder_without_runs_is_refused(tmp_path, capsys):
    assert run(["report", "--boards", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_a_former_fleet_run_takes_the_options_of_table_behind_its_dashes(tmp_path, capsys):
    words = ["--cluster=slurm", "--tasks=2", "--gpu=0", f"--out={tmp_path / 'out'}"]
    assert run(["fleet", "run", *words, "--", "fma.rn.f32", *QUICK]) == 2
    assert "--cluster slurm needs --tasks, and takes no --gpu" in capsys.readouterr().err


def test_options_of_a_cluster_without_one_are_refused(capsys):
    assert run(["table", "fma.rn.f32", "--gpu=simulated", "--tasks=2"]) == 2
    assert "go with --cluster slurm" in capsys.readouterr().err

"""`ptxbench report` of a profile of a step."""

import json
import math
import shutil

import pytest
from fakes.simulated_step import HiddenLaunch, ReplayingGpu, SimulatedStep

from ptxbench.attribute.replay.plan import ReplaySettings
from ptxbench.attribute.replay.profiling import measure_step
from ptxbench.cli.main import run
from ptxbench.devices.step import NodeType, StepNode
from ptxbench.storage.folder_kind import Kind, kind_of

LAUNCHES = (
    HiddenLaunch(StepNode(NodeType.KERNEL, "norm"), 1e-3, 100),
    HiddenLaunch(StepNode(NodeType.KERNEL, "gemm"), 2e-3, 300),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("profile") / "run"
    step = SimulatedStep(ReplayingGpu(), LAUNCHES)
    measure_step(step.gpu, step, path, {"token": 2}, ReplaySettings(step_s=0.5, warm_s=0.1, graph_s=0.02))
    return path


def test_it_is_printed_as_a_table_of_kernels(folder, capsys):
    assert kind_of(folder)[0] is Kind.PROFILE
    assert run(["report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "gemm" in shown
    assert "J per token" in shown
    assert "2 rows, measured" in shown or "3 rows, measured" in shown


def test_json_has_every_row(folder, capsys):
    assert run(["report", str(folder), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in plain["rows"]} >= {"gemm", "norm"}
    assert plain["rows"][0]["name"] == "gemm"


def test_it_is_written_to_a_file_outside_of_the_run(folder, tmp_path, capsys):
    assert run(["report", str(folder), "--out", str(tmp_path / "profile.json")]) == 0
    assert json.loads((tmp_path / "profile.json").read_text())["is_closed"]
    assert run(["report", str(folder), "--out", str(folder / "profile.json")]) == 2
    assert "stays as it is" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--format", "latex"], ["--plot", "x.png"]])
def test_what_it_has_not_is_refused(folder, more, capsys):
    assert run(["report", str(folder), *more]) == 2
    assert "is a profile of a step" in capsys.readouterr().err


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("file", "keys", "value", "said"),
    [
        ("recordings.json", (0, "windows", 0, "launch_times_s"), [1e-3, math.inf], "has a launch of inf s"),
        ("recordings.json", (0, "windows", 0, "launch_times_s"), [-1.0], "has a launch of -1 s"),
        ("manifest.json", ("sensors",), [], "sensors must not be empty"),
    ],
)
def test_a_damaged_value_is_named_in_one_line(folder, tmp_path, capsys, file, keys, value, said):
    copied = shutil.copytree(folder, tmp_path / "damaged")
    plain = inner = json.loads((copied / file).read_text())
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    (copied / file).write_text(json.dumps(plain))
    assert run(["report", str(copied)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert said in captured.err


def test_it_is_no_table(folder, capsys):
    assert run(["diff", str(folder), "h200"]) == 2
    assert "is a profile of a step, not a table" in capsys.readouterr().err


def test_where_the_rows_do_not_add_up_the_exit_code_says_so(folder, capsys, monkeypatch):
    from ptxbench.attribute.replay import profile

    monkeypatch.setattr(profile.Profile, "is_closed", False)
    assert run(["report", str(folder)]) == 1
    assert "estimated" in capsys.readouterr().out

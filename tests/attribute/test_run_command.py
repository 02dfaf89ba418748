"""`ptxbench run`: the command is untouched, and every end of it has a report."""

import json
import signal
import subprocess
import sys

import pytest
from fakes.loads import LoadedGpu

from ptxbench.api.board import open_boards
from ptxbench.attribute import child, program
from ptxbench.attribute.demangle import demangled
from ptxbench.cli.main import run
from ptxbench.core.errors import GpuError, ToolError

PYTHON = sys.executable


@pytest.fixture
def boards(monkeypatch):
    """A simulated board in the place of NVML's; a command takes 3 s of its virtual time."""
    made = LoadedGpu()
    (board,) = open_boards(made.gpu)
    monkeypatch.setattr("ptxbench.api.board.open_boards", lambda _specs: (board,))

    def run_child(words, environment):
        code = child.run_child(words, environment)
        made.load(3.0, 200.0)
        return code

    monkeypatch.setattr(program, "run_child", run_child)
    return made


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 11)", 139),
        ("import os; os.abort()", 134),
        ("import os; os.kill(os.getpid(), 15)", 143),
    ],
)
def test_the_exit_code_is_the_commands_and_the_report_is_there(boards, capfd, code, exit_code):
    assert run(["run", "--no-kernels", "--", PYTHON, "-c", f"print('out'); {code}"]) == exit_code
    captured = capfd.readouterr()
    assert captured.out in ("out\n", "")  # a killed Python does not flush
    assert " J (95%: " in captured.err
    assert "whole-run energy" in captured.err


def test_options_of_the_command_are_not_ours(boards, capfd):
    assert run(["run", "--no-kernels", "--", PYTHON, "-c", "import sys; print(sys.argv)", "--json"]) == 0
    assert "--json" in capfd.readouterr().out


def test_a_command_that_is_not_there_is_one_line(boards, capfd):
    assert run(["run", "--", "no-such-command"]) == 127
    captured = capfd.readouterr()
    assert captured.err == "ptxbench: cannot run no-such-command: No such file or directory\n"


def test_without_a_compiler_the_whole_run_is_measured_and_that_is_said(boards, capfd, monkeypatch):
    def refuse(*, by_events):
        raise ToolError("there is no C compiler (cc)")

    monkeypatch.setattr(program, "build_injector", refuse)
    assert run(["run", "--", PYTHON, "-c", "pass"]) == 0
    assert "no C compiler (cc); whole-run energy" in capfd.readouterr().err


def test_a_program_without_a_gpu_is_said(boards, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(["run", "--", PYTHON, "-c", "pass"]) == 0
    assert "no process of the command started CUDA" in capfd.readouterr().err


def test_reports_are_kept_and_compared(boards, capfd, tmp_path):
    words = ["--", PYTHON, "-c", "pass"]
    assert run(["run", "--no-kernels", "--out", str(tmp_path / "a"), *words]) == 0
    kept = json.loads((tmp_path / "a" / "energy.json").read_text())
    assert kept["exit_code"] == 0
    assert kept["gpus"][0]["interval_j"][0] < kept["energy_j"] < kept["gpus"][0]["interval_j"][1]
    assert (tmp_path / "a" / "kernels.csv").read_text().startswith("gpu,kernels,calls,")
    again = ["run", "--no-kernels", "--fail-over", "3%", "--baseline"]
    assert run([*again, str(tmp_path / "a"), *words]) == 0
    kept["gpus"][0]["energy_j"] /= 2
    kept["gpus"][0]["interval_j"] = [end / 2 for end in kept["gpus"][0]["interval_j"]]
    (tmp_path / "half.json").write_text(json.dumps(kept))
    assert run([*again, str(tmp_path / "half.json"), *words]) == 1
    assert "J before" in capfd.readouterr().err


@pytest.mark.hostile
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gpus": [1], "kernels": []}', None])
def test_a_baseline_that_is_none_is_one_line_before_anything_runs(boards, capfd, tmp_path, text):
    if text is not None:
        (tmp_path / "b.json").write_text(text)
    words = [
        "--baseline",
        str(tmp_path / "b.json"),
        "--fail-over",
        "3%",
        "--",
        "touch",
        str(tmp_path / "ran"),
    ]
    assert run(["run", *words]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.hostile
@pytest.mark.parametrize(
    "words",
    [["--gpu", "simulated"], ["--gpu", "x"], ["--baseline", "b"], ["--fail-over", "3%"], ["--out", __file__]],
)
def test_bad_usage_is_one_line_before_anything_runs(capfd, tmp_path, words):
    assert run(["run", *words, "--", "touch", str(tmp_path / "ran")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert not (tmp_path / "ran").exists()


def test_without_a_gpu_nothing_runs(capfd, tmp_path, monkeypatch):
    def refuse(_specs):
        raise GpuError("no driver")

    monkeypatch.setattr("ptxbench.api.board.open_boards", refuse)
    assert run(["run", "--", "touch", str(tmp_path / "ran")]) == 3
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 5), (signal.SIGUSR1, 6)])
def test_signals_reach_the_command(number, code):
    waits = (
        "import signal, sys, os; "
        f"signal.signal({int(number)}, lambda *_: sys.exit({code})); "
        "os.kill(os.getppid(), {0}); signal.pause()".format(int(number))
    )
    script = (
        "import sys, os; from ptxbench.attribute.child import run_child; "
        "sys.exit(run_child(sys.argv[1:], os.environ))"
    )
    ended = subprocess.run([PYTHON, "-c", script, PYTHON, "-c", waits], timeout=60, check=False)
    assert ended.returncode == code


def test_a_cpp_name_is_readable():
    assert demangled("_Z10fma_kernelPfl") in ("fma_kernel(float*, long)", "_Z10fma_kernelPfl")
    assert demangled("plain") == "plain"

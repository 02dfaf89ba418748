"""`ptxbench run`: the command is untouched, and every end of it has a report."""

import json
import math
import shutil
import sys
from dataclasses import replace

import pytest
from fakes.loads import LoadedGpu
from fakes.monitored import distorted_board
from fakes.nvml import FakeDevice, use_nvml

from ptxbench.api.board import open_boards
from ptxbench.attribute import child, program
from ptxbench.cli.main import run
from ptxbench.core.demangle import demangled
from ptxbench.core.errors import GpuError, ToolError

PYTHON = sys.executable
# What is injected is built where no wheel brought it.
INJECTS = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@pytest.fixture
def boards(monkeypatch):
    """A simulated board in the place of NVML's; a command takes 3 s of its virtual time."""
    made = LoadedGpu()
    (board,) = open_boards(made.gpu)
    monkeypatch.setattr("ptxbench.api.board.open_boards", lambda _specs: (board,))

    def run_child(words, environment, last_words):
        code = child.run_child(words, environment, last_words)
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
    def refuse(**_):
        raise ToolError("there is no C compiler (cc)")

    monkeypatch.setattr(program, "build_injector", refuse)
    assert run(["run", "--", PYTHON, "-c", "pass"]) == 0
    assert "no C compiler (cc); whole-run energy" in capfd.readouterr().err


@INJECTS
def test_a_program_without_a_gpu_is_said(boards, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(["run", "--", PYTHON, "-c", "pass"]) == 0
    assert "no process of the command started CUDA" in capfd.readouterr().err


def report_of(path):
    return json.loads((path / "energy.json").read_text())


def test_the_energy_of_a_unit_is_reported_and_kept(boards, capfd, tmp_path):
    code = "import ptxbench; ptxbench.count('token', 100); ptxbench.count('request', 4)"
    words = ["run", "--no-kernels", "--out", str(tmp_path / "run"), "--per", "token=50", "--", PYTHON]
    assert run([*words, "-c", code]) == 0
    said = capfd.readouterr().err
    assert "J per token (50 of them)" in said
    assert "J per request (4 of them)" in said
    assert "idle power included" in said
    assert "above idle" not in said
    report = report_of(tmp_path / "run")
    assert report["units"]["token"]["energy_j"] == pytest.approx(report["energy_j"] / 50)
    assert report["units"]["token"]["above_idle_j"] is None
    # What the program itself said is kept with the run.
    assert run(["run", "--from", str(tmp_path / "run")]) == 0
    assert "J per token (100 of them)" in capfd.readouterr().out


def test_energy_above_idle_is_by_what_was_drawn_before_the_command(boards, capfd, tmp_path):
    words = ["run", "--no-kernels", "--out", str(tmp_path / "run"), "--idle", "2", "--per", "token=10"]
    assert run([*words, "--", PYTHON, "-c", "pass"]) == 0
    said = capfd.readouterr().err
    report = report_of(tmp_path / "run")
    idle_w = report["gpus"][0]["idle_w"]
    static_w = boards.gpu._device._physics.power_w(0)
    assert idle_w == pytest.approx(static_w, rel=0.02)
    assert report["above_idle_j"] == pytest.approx(report["energy_j"] - idle_w * report["time_s"])
    assert f"above idle ({idle_w:.4g} W before the command)" in said
    assert "; above idle" in said
    assert run(["run", "--from", str(tmp_path / "run")]) == 0
    assert f"above idle ({idle_w:.4g} W before the command)" in capfd.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--per", "token", "--", "true"],
        ["--per", "token=0", "--", "true"],
        ["--per", "=3", "--", "true"],
        ["--idle", "0.1", "--", "true"],
        ["--idle", "1", "--from", "run"],
    ],
)
def test_units_and_idle_times_that_are_none_are_refused(boards, capfd, words):
    assert run(["run", *words]) == 2
    assert capfd.readouterr().err


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
    energy_j = 2 * kept["gpus"][0]["energy_j"]
    kept["gpus"][0] |= {"energy_j": energy_j, "interval_j": [0.5 * energy_j, 1.5 * energy_j]}
    (tmp_path / "wide.json").write_text(json.dumps(kept))
    assert run([*again, str(tmp_path / "wide.json"), *words]) == 1
    assert "allow more by --fail-over" in capfd.readouterr().err
    kept["gpus"][0]["energy_j"] = None
    (tmp_path / "none.json").write_text(json.dumps(kept))
    assert run([*again, str(tmp_path / "none.json"), *words]) == 1
    assert "does not know the energy" in capfd.readouterr().err


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"gpus": [1], "kernels": []}',
        '{"gpus": [{"gpu": "GPU 0", "energy_j": "5", "interval_j": [4, 6]}], "kernels": []}',
        '{"gpus": [{"gpu": "GPU 0", "energy_j": 5, "interval_j": [4]}], "kernels": []}',
        f'{{"gpus": [{{"gpu": "GPU 0", "energy_j": 1{"0" * 400}, "interval_j": [4, 6]}}], "kernels": []}}',
        None,
    ],
    ids=range(8),
)
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


def test_a_run_without_a_reading_does_not_pass_the_gate(boards, capfd, tmp_path, monkeypatch):
    words = ["run", "--no-kernels"], ["--", PYTHON, "-c", "pass"]
    assert run([*words[0], "--out", str(tmp_path / "a"), *words[1]]) == 0
    deaf = distorted_board(boards, lambda _, read: tuple(replace(one, value=math.nan) for one in read))
    monkeypatch.setattr("ptxbench.api.board.open_boards", lambda _specs: (deaf,))
    assert run([*words[0], "--baseline", str(tmp_path / "a"), "--fail-over", "3%", *words[1]]) == 1
    said = capfd.readouterr().err
    assert "is not known now" in said
    assert "nan" not in said


@pytest.mark.hostile
@pytest.mark.parametrize(
    "words",
    [["--gpu", "simulated"], ["--gpu", "x"], ["--baseline", "b"], ["--fail-over", "3%"], ["--out", __file__]],
)
def test_bad_usage_is_one_line_before_anything_runs(capfd, tmp_path, words):
    assert run(["run", *words, "--", "touch", str(tmp_path / "ran")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("words", [["--no-kernels"], ["--timer", "events"]])
def test_a_replay_without_kernels_by_cupti_is_refused_before_anything_runs(capfd, tmp_path, words):
    assert run(["run", "--replay", *words, "--", "touch", str(tmp_path / "ran")]) == 2
    said = capfd.readouterr().err
    assert "--replay needs the kernels of a command" in said
    assert "leave out --no-kernels, --timer and --from" in said
    assert not (tmp_path / "ran").exists()


@INJECTS
def test_where_nothing_was_launched_again_it_is_said(boards, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(["run", "--replay", "--", PYTHON, "-c", "pass"]) == 0
    assert "nothing was launched again" in capfd.readouterr().err


def test_without_a_gpu_nothing_runs(capfd, tmp_path, monkeypatch):
    def refuse(_specs):
        raise GpuError("no driver")

    monkeypatch.setattr("ptxbench.api.board.open_boards", refuse)
    assert run(["run", "--", "touch", str(tmp_path / "ran")]) == 3
    assert not (tmp_path / "ran").exists()


@pytest.mark.hostile
def test_what_is_set_for_another_ptxbench_is_not_passed_on(boards, capfd, monkeypatch, tmp_path):
    ours = str(tmp_path / "ptxbench" / "injector-0123456789abcdef.so")
    for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD"):
        monkeypatch.setenv(name, ours)
    for name in ("MAX_LAUNCH_RATE", "TIMER_EVENTS", "CUPTI", "LAUNCHES"):
        monkeypatch.setenv(f"PTXBENCH_{name}", "5")
    assert run(["run", "--no-kernels", "--", "env"]) == 0
    out = capfd.readouterr().out
    assert ours not in out
    assert "=5\n" not in out


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ([], "5000.0"),
        (["--trace", "trace.json"], "1000000000.0"),
        (["--max-launch-rate", "70"], "70.0"),
    ],
)
def test_kernels_are_looked_at_in_turns_unless_a_trace_wants_all(
    boards, capfd, monkeypatch, tmp_path, words, most
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program, "find_cupti", lambda *_: (tmp_path / "libcupti.so.13",))
    monkeypatch.setattr(program, "build_injector", lambda: tmp_path / "injector-0123456789abcdef.so")
    assert run(["run", *words, "--", "env"]) == 0
    out = capfd.readouterr().out
    assert f"PTXBENCH_MAX_LAUNCH_RATE={most}\n" in out


@INJECTS
@pytest.mark.hostile
def test_cupti_is_left_to_a_tool_that_is_injected_already(boards, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool.so")
    monkeypatch.setattr(program, "find_cupti", lambda *_: (tmp_path / "libcupti.so.13",))
    assert run(["run", "--", "env"]) == 0
    captured = capfd.readouterr()
    assert "CUDA_INJECTION64_PATH=/opt/tool.so\n" in captured.out
    assert "PTXBENCH_TIMER_EVENTS=1\n" in captured.out
    assert "/opt/tool.so: CUPTI is left to it" in captured.err


@pytest.mark.hostile
def test_a_report_that_cannot_be_shown_is_still_kept(boards, monkeypatch, tmp_path):
    def refuse(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("click.echo", refuse)
    out = tmp_path / "run"
    words = ["--", PYTHON, "-c", "raise SystemExit(7)"]
    assert run(["run", "--no-kernels", "--out", str(out), *words]) == 7
    assert json.loads((out / "energy.json").read_text())["exit_code"] == 7


def test_a_cpp_name_is_readable():
    assert demangled("_Z10fma_kernelPfl") in ("fma_kernel(float*, long)", "_Z10fma_kernelPfl")
    assert demangled("plain") == "plain"


def test_a_gpu_has_the_number_of_the_list_of_gpus_not_of_cuda(monkeypatch, capfd):
    use_nvml(monkeypatch, FakeDevice(uuid="GPU-a", name="NVIDIA L4"), FakeDevice(uuid="GPU-b"))
    monkeypatch.setattr("ptxbench.devices.visible.cuda_order", lambda _environment: ("GPU-b", "GPU-a"))
    specs = []

    def open_none(given):
        specs.append(given)
        raise GpuError("this test opens none")

    monkeypatch.setattr("ptxbench.api.board.open_boards", open_none)
    for given in ("0", "1,0", "all", "GPU-b"):
        assert run(["run", "--gpu", given, "--", "true"]) == 3
    assert specs == [["GPU-a"], ["GPU-b", "GPU-a"], ["GPU-a", "GPU-b"], ["GPU-b"]]
    capfd.readouterr()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    assert run(["run", "--gpu", "0", "--", "true"]) == 3
    assert "CUDA_VISIBLE_DEVICES is 'GPU-b', which hides GPU 0" in capfd.readouterr().err
    assert run(["run", "--gpu", "1,simulated", "--", "true"]) == 2
    assert "A simulated GPU runs no program" in capfd.readouterr().err


def test_the_energy_of_a_run_is_written_as_metrics(boards, capfd, tmp_path):
    path = tmp_path / "run.prom"
    assert run(["run", "--no-kernels", "--metrics", str(path), "--", sys.executable, "-c", "pass"]) == 0
    text = path.read_text()
    assert "hw_energy_joules_total{" in text
    assert "ptxbench_energy_high_joules{" in text
    assert run(["run", "--no-kernels", "--metrics", str(path), "--", "true"]) == 2
    assert "exists already" in capfd.readouterr().err

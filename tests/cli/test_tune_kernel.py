"""`ptxbench tune kernel` as its users meet it."""

import json
from dataclasses import replace

import pytest
from tune.fakes_kernel import write_spec

from ptxbench.cli.main import run
from ptxbench.cli.tune_kernel import kernel as command
from ptxbench.core.gpu_info import GpuKind
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.experiment.supervise import Outcome, Watchdog
from ptxbench.tune import isolate


def kernel(path, *arguments):
    return run(["tune", "kernel", str(path), "--gpu", "simulated:h200", *map(str, arguments)])


def test_shows_the_best_and_that_nothing_was_compared(tmp_path, capsys):
    path = write_spec(tmp_path / "spec")
    assert kernel(path, "--trials", 3, "--window", 0.1, "--out", tmp_path / "t") == 0
    shown = capsys.readouterr().out
    assert "SIMULATED, no measurement" in shown
    assert "BLOCK=" in shown
    assert "unchecked: the simulated GPU computes nothing" in shown
    assert kernel(path, "--out", tmp_path / "t", "--window", 0.1, "--resume", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tried"] == document["search_space"] == 5
    assert document["best"][0]["parameters"].keys() == {"BLOCK", "MORE", "SPACE"}


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("BLOCK = [64, 128]", "BLOCK = []", "axis BLOCK: is empty"),
        ("BLOCK // 8", "BLOCK // 8 - 100", "a range is empty"),
        ("BLOCK * MORE <= 4096", "BLOCK * MORE > 4096", "no variant of twice is left"),
        ("BLOCK * MORE <= 4096", "WIDTH > 1", "unknown name WIDTH"),
        ("BLOCK * MORE <= 4096", "__import__('os')", "may call only"),
        ("BLOCK * MORE <= 4096", "BLOCK % 0", "has no value"),
        ('grid = "ceil_div(n, BLOCK)"', 'grid = "().__class__"', "only arithmetic"),
        ("twice.ptx.j2", "nowhere.cu", "nowhere.cu"),
        ("twice.ptx.j2", "twice.py", "must end in .cu"),
        ('dtype = "u32"', 'dtype = "u3"', "must be one of"),
        ('role = "output"', 'role = "input"', "nothing can be checked"),
        ('arguments = ["in", "in"]', 'arguments = ["in", "it"]', "takes 2 arrays"),
        ("[reference]", "[refernce]", "there is no 'refernce'"),
        ('function = "add"', 'function = "eval"', "must be one of"),
        ("[sizes]", "[sizes]\n8 = 1", "is no name"),
        ("n = 262144", "n = 262144\nBLOCK = 1", "is taken already"),
        ("n = 262144", "n = 99999999999", "bytes are over"),
        ("from = 1", "from = 0", "must begin at 1"),
        ("SPACE = [4]", "SPACE = ['-o/tmp/x']", "neither a number nor a plain word"),
        ("SPACE = [4]", "SPACE = [nan]", "neither a number nor a plain word"),
        ("n = 262144", "n = inf", "must be a number"),
        ('flops = "n * MORE"', "flops = -5", "[work] flops: '-5' must be 0 or more, not -5"),
        ("[objective]", "trips = { x = 3 }\n[objective]", "trips: 'x' is no number of a loop, nor default"),
        ("[kernel]", "[kernel", "is no TOML"),
    ],
)
def test_a_specification_that_does_not_fit_is_one_line(tmp_path, capsys, old, new, words):
    path = write_spec(tmp_path / "spec", (old, new))
    assert kernel(path, "--out", tmp_path / "t") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--strategy", "estimate"], "--strategy estimate needs a table to estimate by; give --table"),
        (["--resume"], "--out"),
        (["--objective", "power-limited"], "--power-limit-w"),
        (["--power-limit-w", 400], "--power-limit-w is for --objective power-limited"),
        (
            ["--alpha", 0.5, "--objective", "time"],
            "--alpha is an objective of its own; leave out --objective",
        ),
        (["--candidates", 9, "--strategy", "random"], "--strategy random estimates none"),
        (["--high-occupancy", 0.5], "--high-occupancy is for --strategy guerreiro"),
        (["--base-clock-mhz", 990], "--base-clock-mhz is for --strategy energy-to-solution+clocks"),
        (["--trials", "10s"], "'10s' is not a whole number"),
        (["--clock-samples", "x.csv"], "--clock-samples stand in for the power law of a table; give --table"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(tmp_path, capsys, arguments, words):
    assert kernel(write_spec(tmp_path / "spec"), *arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err


def test_a_source_in_place_of_a_specification_is_said(tmp_path, capsys):
    (tmp_path / "twice.cu").write_text("__global__ void twice() {}")
    assert kernel(tmp_path / "twice.cu") == 2
    assert "twice.cu is a source; name the specification" in capsys.readouterr().err


def test_sizes_are_set_from_the_command_line(tmp_path, capsys):
    path = write_spec(tmp_path / "spec")
    words = ["--trials", 1, "--window", 0.1, "--json"]
    times = []
    for number, size in enumerate((1 << 20, 1 << 24)):
        assert kernel(path, "--set", f"n={size}", "--out", tmp_path / str(number), *words) == 0
        times.append(json.loads(capsys.readouterr().out)["best"][0]["time_s"])
    assert times[1] > 8 * times[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "m=1"], "there is no size 'm'; there are n"),
        (["--set", "n"], "must be NAME=N"),
        (["--set", "n=nan"], "finite"),
        (["--set", "n=1", "--set", "n=2"], "given twice"),
        (["--set", "n=0.5"], "must be a whole number"),
    ],
)
def test_a_size_that_does_not_fit_is_one_line(tmp_path, capsys, words, message):
    assert kernel(write_spec(tmp_path / "spec"), *words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_gemm_has_no_metric_of_its_own(capsys):
    assert run(["tune", "gemm", "--gpu", "simulated", "--objective", "metric"]) == 2
    assert "needs a specification" in capsys.readouterr().err


def test_on_a_real_gpu_the_search_is_watched_in_a_process_of_its_own(tmp_path, capsys, monkeypatch):
    seen = []

    class RealGpu(SimulatedGpu):
        @property
        def info(self):
            return replace(super().info, kind=GpuKind.REAL)

    def supervised(works, say):
        (work,) = works
        seen.append((work.command(0.0), work.watchdog))
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "manifest.json").touch()
        seen.append(work.command(0.0))
        say("MORE=4 took longer than 5 s; going on without")
        return (Outcome(work.name, -9, 0, 1.0, ""),)

    # What another process left set on a GPU is none of this test's.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("ptxbench.cli.tune_kernel.open_chosen_gpu", lambda _: RealGpu())
    # The modules that take its name as they are imported have it: it would stay with them after this test.
    assert isolate.supervise is not supervised
    monkeypatch.setattr("ptxbench.experiment.supervise.supervise", supervised)
    words = [str(write_spec(tmp_path / "spec")), "--variant-timeout=5", "--set=n=1048576", "--clocks=even:3"]
    words += ["--out", str(tmp_path / "t")]
    assert run(["tune", "kernel", *words]) == 137
    (first, dog), again = seen
    assert dog == Watchdog(tmp_path / "t" / "in_progress.json", 5)
    assert first[1:5] == ["-m", "ptxbench", "tune", "kernel"]
    asked = replace(command.read(words), in_process=True)
    assert command.read(first[5:]) == asked
    assert command.read(again[5:]) == replace(asked, resume=True)
    assert "took longer than 5 s" in capsys.readouterr().err

"""`ptxbench tune gemm` as its users meet it."""

import json

import pytest
from tune.fakes_tune import TINY

from ptxbench.cli.main import run

SMALL = ["--m", "256", "--n", "256", "--k", "256", "--window", "0.1"]


def gemm(*arguments):
    return run(["tune", "gemm", "--gpu", "simulated:h200", *map(str, arguments)])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The options of a small product in a small space, which is walked through in no time."""
    space = tmp_path_factory.mktemp("space") / "tiny.toml"
    space.write_text(TINY)
    return [*SMALL, "--space", str(space)]


def test_shows_the_best_the_front_and_where_they_are(tiny, tmp_path, capsys):
    assert gemm(*tiny, "--trials", "2", "--out", tmp_path / "t") == 0
    shown = capsys.readouterr().out
    assert "SIMULATED, no measurement" in shown
    assert "front of time and energy" in shown
    assert "unchecked" in shown
    assert (tmp_path / "t" / "pareto.svg").read_text().startswith("<?xml")
    assert gemm(*tiny, "--trials", "2", "--out", tmp_path / "t", "--resume", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tried"] == 2
    assert document["gpu"]["kind"] == "simulated"
    assert document["best"][0]["energy_j"] <= document["best"][-1]["energy_j"]
    times = [one["time_s"] for one in document["front"]]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--m", "17"], "multiples of 8"),
        (["--strategy", "estimate"], "--strategy estimate needs a table to estimate by; give --table"),
        (["--strategy", "magic"], "no strategy is called 'magic'"),
        (["--objective", "power-limited"], "--power-limit-w"),
        (["--measure", "time"], "--measure time gives no energy"),
        (["--table", "nowhere"], "nowhere"),
        (["--resume"], "name the folder of a run"),
        (["--space", "nowhere.toml"], "nowhere.toml"),
        (["--alpha", "2"], "--alpha"),
        (["--gpu", "replay:nowhere"], "nowhere"),
        (["--sizes", "512"], "leave out --m, --n and --k"),
        (
            ["--core", "wgmma", "--space", "gemm"],
            "no variant multiplies f32 by wgmma: gemm.toml has no table [f32-wgmma]",
        ),
    ],
)
def test_bad_input_is_one_line(tiny, tmp_path, capsys, arguments, words):
    assert gemm(*tiny, "--out", tmp_path / "t", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--clocks", "model", "--table", "h200"], "--clocks model ranks the variants of one size"),
        (["--plot", "front.svg"], "--plot draws one size"),
    ],
)
def test_what_several_sizes_have_no_use_for_is_refused(tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert gemm("--sizes", "256,512", "--trials", 2, "--out", "t", *arguments) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert words in captured.err
    assert not list(tmp_path.iterdir())


def test_with_a_table_all_are_timed_and_the_power_of_five_is_measured(tiny, tmp_path, capsys):
    words = ["--table", "h200", "--trials", 7, "--out", tmp_path / "t"]
    assert gemm(*tiny, *words) == 0
    assert "7 tried, of which 2 were timed alone and 0 are not valid" in capsys.readouterr().out
    statuses = [
        json.loads(line)["status"] for line in (tmp_path / "t" / "trials.jsonl").read_text().splitlines()
    ]
    assert statuses[:7] == ["pruned"] * 7


def test_tuning_for_time_needs_no_table_and_no_power(tiny, tmp_path, capsys):
    arguments = ["--objective", "time", "--measure", "time", "--candidates", "4", "--trials", "2"]
    assert gemm(*tiny, *arguments, "--out", tmp_path / "t") == 0
    captured = capsys.readouterr()
    assert "2 tried" in captured.out
    assert captured.err == "ptxbench: no picture: there is nothing to draw: no variant has an energy\n"


def test_no_variant_under_the_power_limit_is_exit_code_1(tiny, tmp_path, capsys):
    arguments = ["--objective", "power-limited", "--power-limit-w", "10", "--trials", "1"]
    assert gemm(*tiny, *arguments, "--out", tmp_path / "t") == 1


def test_ctrl_c_says_how_to_continue(tmp_path, capsys, monkeypatch):
    def stopped(_gpu, _tuning, out, _resume, _show, _say):
        out.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr("ptxbench.tune.tuning.tune", stopped)
    assert gemm(*SMALL, "--out", tmp_path / "my search") == 130
    err = capsys.readouterr().err
    kept, end = [line for line in err.splitlines() if line]
    assert kept.endswith(f"the trials are kept. Add to continue: --resume --out '{tmp_path / 'my search'}'")
    assert end == "ptxbench: interrupted"

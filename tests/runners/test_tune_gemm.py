import json
import sys
from pathlib import Path

from fakes.script import load_script, run_script

RUNNER = Path(__file__).parents[2] / "runners" / "tune_gemm.py"


def tune(*arguments):
    return run_script(RUNNER, *arguments)


def test_measures_writes_and_goes_on(tmp_path, monkeypatch, capsys):
    main = load_script("runners/tune_gemm.py").main
    small = (
        "--gpu",
        "simulated:h200",
        "--dtype",
        "f32",
        "--size",
        "256",
        "--variants",
        "3",
        "--window",
        "0.1",
    )
    monkeypatch.setattr(sys, "argv", ["tune_gemm", *small, "--out", str(tmp_path / "gemm")])
    assert main() == 0
    assert "3 variants measured" in capsys.readouterr().out
    folder = tmp_path / "gemm" / "f32"
    written = json.loads((folder / "quality.json").read_text())
    assert written["quality"]["variants"] == 3
    assert written["quality"]["spearman"] is None  # no table, no estimate
    assert written["cublas_gflops"] is None
    trials = (folder / "trials.jsonl").read_text()
    assert main() == 0
    assert (folder / "trials.jsonl").read_text() == trials


def test_bad_input_is_one_line(tmp_path):
    done = tune("--again", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tune_gemm: --again needs --table RUN\n"

"""`runners/tune_counters.py`: what ncu wrote becomes a table by variant, which `tune report` takes."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.tune.folder import TuningFolder

ROOT = Path(__file__).parents[2]
RUNNER = runpy.run_path(str(ROOT / "runners" / "tune_counters.py"))
KEPT = ROOT / "results" / "nvidia-h100" / "tunings" / "gemm-beast"
METRICS = ("dram__bytes_read.sum.per_second", "smsp__inst_executed.sum")


def csv_of(path: Path, launches: list[tuple[str, float, int]]) -> Path:
    rows = [("ID", "Kernel Name", *METRICS), ("", "", "byte/second", "inst")]
    rows += [(n, name, rate, f"{count:,}") for n, (name, rate, count) in enumerate(launches)]
    lines = [",".join(f'"{cell}"' for cell in row) for row in rows]
    path.write_text("==PROF== Connected to process 7\n" + "\n".join(lines) + "\n")
    return path


def test_counters_go_into_the_correlations_of_a_report(tmp_path, capsys) -> None:
    trials = RUNNER["counted"](TuningFolder.read(KEPT))
    names = [trial.variant.name for trial in trials]
    launches = [("warm_up", 1.0, 1)]
    launches += [
        ("gemm(double const*)", 1e12 / trial.energy_j, round(1e6 * trial.energy_j)) for trial in trials
    ]
    text = RUNNER["table"](csv_of(tmp_path / "ncu.csv", launches), names, ["gemm"])
    assert text.splitlines()[0] == "variant,DRAM read throughput,instructions executed"
    (tmp_path / "counters.csv").write_text(text)
    assert run(["tune", "report", str(KEPT), "--counters", str(tmp_path / "counters.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_metric = {one["metric"]: one for one in found["linear_correlations"]}
    assert by_metric["DRAM read throughput"]["gflops_per_w"] == pytest.approx(1, abs=1e-6)
    assert by_metric["instructions executed"]["gflops_per_w"] < -0.9
    rho = {(one["metric"], one["target"]): one["rho"] for one in found["correlations"]}
    assert rho["instructions executed", "energy"] == pytest.approx(1)


def test_other_launches_than_were_made_are_refused(tmp_path) -> None:
    seen = csv_of(tmp_path / "ncu.csv", [("gemm", 1.0, 1)])
    with pytest.raises(InputError, match="ncu saw 1 launches of 2 variants"):
        RUNNER["table"](seen, ["a", "b"], ["gemm"])


def test_ncu_is_told_to_leave_the_clocks_and_its_launches_are_those_of_the_run(tmp_path, monkeypatch) -> None:
    trials = RUNNER["counted"](TuningFolder.read(KEPT))
    commands = []

    def ncu(command, **_words):
        commands.append(command)
        csv_of(Path(command[command.index("--log-file") + 1]), [("gemm", 1e12, 7)] * len(trials))
        return subprocess.CompletedProcess(command, 0, "gemm\n" * len(trials), "")

    monkeypatch.setattr(subprocess, "run", ncu)
    out = tmp_path / "counters.csv"
    monkeypatch.setattr(sys, "argv", ["tune_counters", str(KEPT), "--out", str(out)])
    assert RUNNER["main"]() == 0
    assert len(out.read_text().splitlines()) == 1 + len(trials)
    (command,) = commands
    assert command[command.index("--clock-control") + 1] == "none"


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("variant\na\n", "a column for each counter"),
        ("variant,x\na,much\n", "x has 'much', which is no number"),
        ("variant,x\na,1\n", "names no variant of"),
    ],
)
def test_a_table_of_counters_that_is_none_is_refused_in_one_line(tmp_path, capsys, text, why) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(text)
    assert run(["tune", "report", str(KEPT), "--counters", str(path)]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1

"""The benchmarks of intervals of windows: on modelled boards, and that of a real GPU on a simulated one."""

import json
from pathlib import Path

import numpy as np
import pytest
from fakes.script import load_script

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def coverage(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load_script("benchmarks/window_coverage.py")


@pytest.mark.parametrize(
    ("load", "widest"), [("idle", 0.0035), ("beside", 0.0035), ("near", 0.012), ("bursts", 0.025)]
)
@pytest.mark.parametrize("consumer", ["EnergyMonitor", "run"])
def test_the_truth_of_boards_as_hard_as_real_ones_is_held_by_narrow_intervals(
    coverage, consumer, load, widest
):
    # Without samples on their grid 65% of the intervals after idle held it.
    judged = [
        one
        for length_s in (0.2, 1.0)
        for one in coverage.CONSUMERS[consumer](coverage.SOURCES["samples + counter"], load, length_s, 72)
    ]
    assert all(one.is_resolved for one in judged)
    assert np.mean([one.held for one in judged]) >= 0.9
    # Half-widths in seconds of the mean power.
    assert np.median([one.half * (0.2 if i % 24 < 12 else 1.0) for i, one in enumerate(judged)]) < widest


def test_the_table_says_how_many_hold_and_how_wide_they_are(coverage, capsys):
    coverage.main(["--boards", "1", "--sources", "samples", "--load", "idle", "--consumer", "run"])
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1 + len(coverage.LENGTHS_S) + 1
    assert rows[1].split()[:5] == ["run", "samples", "idle", "0.1", "12"]
    assert rows[-1].startswith("all")


def test_windows_beside_the_power_of_long_launches(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = load_script("benchmarks/windows_on_gpu.py")
    out = tmp_path / "windows.json"
    assert script.main(["--gpu", "simulated:h200", "--out", str(out), "--rounds", "2"]) == 0
    said = capsys.readouterr().out
    assert "SIMULATED" in said
    document = json.loads(out.read_text())
    assert len(document["windows"]) == 2 * len(script.LENGTHS_S)
    assert sum(one["held"] for one in document["windows"]) >= 9
    for one in document["windows"]:
        assert one["energy_j"] == pytest.approx(one["truth_j"], rel=0.02)
        assert 0 < one["truth_error_j"] < 0.02 * one["truth_j"]
    assert len(document["courses"]) == 3
    assert f"all: {sum(one['held'] for one in document['windows'])} of 10 held" in said

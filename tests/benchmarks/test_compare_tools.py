"""The benchmark against other tools, on the simulated GPU and with stand-ins for the tools."""

import csv
import json
from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.experiment.load import prepare_load

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def compare_tools(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load_script("benchmarks/compare_tools.py")


@pytest.fixture
def bench():
    gpu = SimulatedGpu(H200)
    return gpu, prepare_load(gpu)


def test_files_hold_every_reading_and_what_was_left_out(compare_tools, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compare_tools, "DURATIONS_S", (0.1, 0.3))
    out = tmp_path / "out"
    assert compare_tools.main(["--gpu", "simulated:h200", "--out", str(out), "--repeats", "2"]) == 0
    with (out / "readings.csv").open() as file:
        readings = list(csv.DictReader(file))
    manifest = json.loads((out / "manifest.json").read_text())["part"]
    assert len(readings) == len(manifest["tools"]) * 2 * 2
    assert "Zeus" in manifest["left_out"][0]
    with (out / "summary.csv").open() as file:
        rows = {(r["tool"], r["duration_s"]): r for r in csv.DictReader(file)}
    for source in ("samples", "samples, 0.5 s", "counter"):
        assert abs(float(rows[f"ptxbench corrected {source}", "0.3"]["bias_pct"])) < 1
    # Two steps of the counter do not fit into 0.1 s.
    assert rows["ptxbench counter counter", "0.1"]["answered"] == "0"
    assert rows["ptxbench counter counter", "0.1"]["seconds_to_1pct"] == "inf"
    said = capsys.readouterr().out
    assert "SIMULATED" in said
    assert "left out: Zeus" in said


def test_tool_that_fails_is_left_out_and_the_others_go_on(compare_tools, bench, tmp_path):
    gpu, load = bench
    comparison = compare_tools.Comparison(gpu, load, gpu.sensors, tmp_path)
    comparison.find_tools()

    class Broken:
        name = "broken"

        def measure(self, gpu, kernel):
            raise ValueError("no such field")

    comparison.tools = [Broken(), *comparison.tools[:1]]
    comparison.measure(2, (0.1,))
    assert "broken failed: ValueError: no such field" in comparison.left_out
    assert len(comparison.readings()) == 2

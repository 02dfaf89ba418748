"""The benchmark against other tools, on the simulated GPU and with stand-ins for the tools."""

import csv
import json
import math
import sys
import types

import pytest
from fakes.script import load_script
from scipy.stats import t

from ptxbench.gpu.simulated.gpu import SimulatedGpu
from ptxbench.gpu.simulated.profiles import H200
from ptxbench.measure.load import prepare_load


@pytest.fixture(scope="module")
def tools():
    return load_script("benchmarks/compare_tools.py")


@pytest.fixture
def bench():
    gpu = SimulatedGpu(H200)
    return gpu, prepare_load(gpu)


def kernel(tools, load, duration_s):
    return tools.Kernel(load.launch("one", duration_s), duration_s, 0.3)


def test_files_hold_every_reading_and_what_was_left_out(tools, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tools, "DURATIONS_S", (0.1, 0.3))
    out = tmp_path / "out"
    assert tools.main(["--gpu", "simulated:h200", "--out", str(out), "--repeats", "2"]) == 0
    with (out / "readings.csv").open() as file:
        readings = list(csv.DictReader(file))
    manifest = json.loads((out / "manifest.json").read_text())
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


def test_zeus_window_is_right_around_the_launch(tools, bench, monkeypatch):
    gpu, load = bench
    opened = []

    class ZeusMonitor:
        def __init__(self, gpu_indices, **_):
            self.index = gpu_indices[0]

        def begin_window(self, key, sync_execution):
            opened.append(gpu.clock.now_ns())

        def end_window(self, key, sync_execution):
            passed_s = (gpu.clock.now_ns() - opened[-1]) * 1e-9
            return types.SimpleNamespace(gpu_energy={self.index: 500.0 * passed_s})

    module = types.ModuleType("zeus.monitor")
    module.ZeusMonitor = ZeusMonitor
    monkeypatch.setitem(sys.modules, "zeus", types.ModuleType("zeus"))
    monkeypatch.setitem(sys.modules, "zeus.monitor", module)
    monkeypatch.setattr(tools, "version", lambda _: "0")
    answer = tools.Zeus(gpu, approximates=False).measure(gpu, kernel(tools, load, 0.1))
    assert answer.elapsed_s == pytest.approx(0.1, rel=0.02)
    assert answer.energy_j == pytest.approx(500 * answer.elapsed_s, rel=0.01)
    assert answer.measuring_s == pytest.approx(answer.elapsed_s, rel=0.01)
    assert "_launch" not in vars(gpu)


def test_kernel_tuner_repeats_the_launch_for_its_second(tools, bench, monkeypatch):
    gpu, load = bench
    calls = []

    class Observer:
        continuous_duration = 1

        def __getattr__(self, name):
            return lambda: calls.append(name)

        def get_results(self):
            return {"nvml_energy": 480.0 * self.results["time"] / 1e3}

    class NVMLObserver:
        def __init__(self, observables, device):
            self.continuous_observer = Observer()

        def register_device(self, _):
            pass

    module = types.ModuleType("kernel_tuner.observers.nvml")
    module.NVMLObserver = NVMLObserver
    for name in ("kernel_tuner", "kernel_tuner.observers"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "kernel_tuner.observers.nvml", module)
    monkeypatch.setattr(tools, "version", lambda _: "0")
    answer = tools.KernelTuner(gpu).measure(gpu, kernel(tools, load, 0.3))
    assert answer.energy_j == pytest.approx(480 * answer.elapsed_s)
    assert answer.elapsed_s == pytest.approx(0.3, rel=0.02)
    assert answer.measuring_s == pytest.approx(4 * answer.elapsed_s, rel=0.01)
    assert [name for name in calls if name != "during"] == ["before_start", "after_start", "after_finish"]
    assert calls[-1] == "after_finish"


def test_tool_that_fails_is_left_out_and_the_others_go_on(tools, bench, tmp_path):
    gpu, load = bench
    comparison = tools.Comparison(gpu, load, gpu.sensors, tmp_path)
    comparison.find_tools()

    class Broken:
        name = "broken"

        def measure(self, gpu, kernel):
            raise ValueError("no such field")

    comparison.tools = [Broken(), *comparison.tools[:1]]
    comparison.measure(2, (0.1,))
    assert "broken failed: ValueError: no such field" in comparison.left_out
    assert len(comparison.readings()) == 2


@pytest.mark.parametrize("spread", [0.0, 0.0004, 0.01, 0.03, 0.2])
def test_readings_needed_is_the_least_number_that_is_enough(tools, spread):
    def half_width(n):
        return t.ppf(0.975, n - 1) * spread / math.sqrt(n)

    found = int(tools.readings_needed(spread))
    assert half_width(found) <= 0.01
    assert found == 2 or half_width(found - 1) > 0.01
    assert tools.readings_needed(math.nan) == math.inf

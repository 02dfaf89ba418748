"""How other tools are driven around a kernel, on the simulated GPU and with stand-ins for the tools."""

import sys
import types

import pytest
from fakes.script import load_script

from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.experiment.load import prepare_load


@pytest.fixture(scope="module")
def tools():
    return load_script("benchmarks/energy_tools.py")


@pytest.fixture
def bench():
    gpu = SimulatedGpu(H200)
    return gpu, prepare_load(gpu)


def kernel(tools, load, duration_s):
    return tools.Kernel(load.launch("one", duration_s), duration_s, 0.3)


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

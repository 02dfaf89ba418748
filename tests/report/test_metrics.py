"""Energies as metrics: what a scraper reads, and what OpenTelemetry is given."""

import math
import re
import sys
from types import SimpleNamespace

import pytest

import ptxbench
from ptxbench.api.window_energy import GpuEnergy, WindowEnergy
from ptxbench.api.window_metrics import window_samples
from ptxbench.core.errors import ToolError
from ptxbench.core.status import Status
from ptxbench.report.metrics import ENERGY, Sample, prometheus_text

LINE = re.compile(r'[a-z_]+(\{[a-zA-Z_]+="([^"\\\n]|\\.)*"(,[a-zA-Z_]+="([^"\\\n]|\\.)*")*\})? -?[0-9.e+-]+')


def window(name, energy_j, half_j, time_s=2.0, gpu="NVIDIA H100 0"):
    status = Status.OK if math.isfinite(energy_j) else Status.WINDOW_TOO_SHORT
    one = GpuEnergy(gpu, energy_j, (energy_j - half_j, energy_j + half_j), "samples", status)
    return WindowEnergy(name, time_s, (one,), "method")


def values(text):
    assert all(LINE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    parts = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in parts}


def test_windows_of_a_name_add_up_and_their_intervals_do_as_errors_do():
    windows = [window("step", 100.0, 3.0), window("step", 200.0, 4.0), window("step", math.nan, math.nan)]
    text = prometheus_text(window_samples(windows, is_simulated=False))
    found = values(text)
    of = '{hw_id="NVIDIA H100 0",hw_type="gpu",window="step"}'
    assert found[f"hw_energy_joules_total{of}"] == 300.0
    assert found[f"ptxbench_energy_low_joules{of}"] == 295.0
    assert found[f"ptxbench_energy_high_joules{of}"] == 305.0
    assert found[f"hw_power_watts{of}"] == 75.0
    assert found[f"ptxbench_windows_total{of}"] == 3
    assert found[f"ptxbench_windows_unknown_total{of}"] == 1
    assert "# TYPE hw_energy_joules_total counter" in text


def test_what_is_not_known_is_no_number():
    text = prometheus_text(window_samples([window("step", math.nan, math.nan)], is_simulated=False))
    assert "nan" not in text.lower()
    assert "hw_energy" not in text


@pytest.mark.hostile
def test_a_name_that_is_markup_of_the_format_is_a_label():
    (line,) = prometheus_text([Sample(ENERGY, {"window": 'a"} 1\nb\\'}, 1.0)]).splitlines()[2:]
    assert line == 'hw_energy_joules_total{window="a\\"} 1\\nb\\\\"} 1.0'
    assert LINE.fullmatch(line)


@pytest.fixture
def monitor():
    with ptxbench.open_gpu("simulated") as gpu, ptxbench.EnergyMonitor(gpu) as made:
        with made.window("step") as step:
            made._clock.sleep_s(0.5)
        step.result()
        yield made


def test_a_simulated_gpu_is_said_to_be_one(monitor):
    lines = monitor.metrics().splitlines()
    assert any(line.startswith("hw_energy_joules_total") for line in lines)
    assert all('simulated="true"' in line for line in lines if not line.startswith("#"))


def test_opentelemetry_reads_what_is_known_when_it_collects(monitor, monkeypatch):
    made = {}

    def create(name, callbacks, unit, description):
        made[name] = (callbacks[0], unit, description)

    meter = SimpleNamespace(create_observable_counter=create, create_observable_gauge=create)
    api = SimpleNamespace(Observation=lambda value, attributes: (value, attributes))
    monkeypatch.setitem(sys.modules, "opentelemetry", SimpleNamespace(metrics=api))
    monitor.observe(SimpleNamespace(get_meter=lambda name: meter))
    callback, unit, _ = made["hw.energy"]
    assert unit == "J"
    ((value, attributes),) = callback(None)
    assert value == pytest.approx(monitor.measured[0].energy_j)
    assert attributes["hw.type"] == "gpu"
    assert attributes["window"] == "step"


def test_without_opentelemetry_it_says_what_to_install(monitor, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ToolError, match="pip install opentelemetry-sdk"):
        monitor.observe()

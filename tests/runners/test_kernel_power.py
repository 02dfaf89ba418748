"""The meter of validate_kernels.py, with a stand-in for NVML whose power is known, in real time."""

import importlib
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.nvml import FakeDevice, FakeNvml

from ptxbench.sensors.nvml import NvmlDevice

RUNNERS = Path(__file__).parents[2] / "runners"
POWER_W = 480.0
CALL_S = 0.002


class Stamped:
    """NVML's buffer: a sample every 20 ms of the host's time, the last second of it."""

    def __iter__(self):
        last = time.time_ns() // 20_000_000 * 20_000
        return iter([(last - 20_000 * age, round(1e3 * POWER_W)) for age in range(50, -1, -1)])

    def __bool__(self):
        return True


class Event:
    def __init__(self, enable_timing):
        self.at_s = 0.0

    def record(self):
        self.at_s = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return 1e3 * (other.at_s - self.at_s)


def synchronized(dead=False):
    if dead:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.fixture
def library(monkeypatch):
    cuda = SimpleNamespace(Event=Event, synchronize=synchronized, empty_cache=lambda: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.syspath_prepend(str(RUNNERS))
    monkeypatch.delitem(sys.modules, "kernel_power", raising=False)
    yield importlib.import_module("kernel_power"), cuda
    sys.modules.pop("kernel_power", None)


def metered(module):
    device = NvmlDevice(0, library=FakeNvml(FakeDevice(samples=Stamped())))
    return module.KernelMeter(device, "sm_90a", warm_s=0.1, window_s=0.3)


def test_a_trial_has_the_power_and_the_time_of_its_window(library):
    meter = metered(library[0])
    once_s = meter.time_s(lambda: time.sleep(CALL_S))
    assert once_s >= CALL_S
    trial = meter.measure(lambda: time.sleep(CALL_S), once_s, case=7, repeat=1)
    assert (trial.case, trial.repeat, trial.reason) == (7, 1, "")
    assert trial.power_w == pytest.approx(POWER_W)
    assert trial.time_s >= CALL_S
    assert trial.elapsed_s == pytest.approx(trial.calls * trial.time_s)
    assert (trial.sm_clock_mhz, trial.temperature_c) == (1755.0, pytest.approx(40, abs=1))
    assert trial.throttle_reasons & 0x4
    assert len(trial.reading_w) > 5


def test_a_device_that_no_longer_answers_is_noticed(library):
    module, cuda = library
    meter = metered(module)
    assert meter.alive()
    cuda.synchronize = lambda: synchronized(dead=True)
    assert not meter.alive()

"""The core voltage is what `nvidia-smi` prints, and no number where it prints none."""

import math
import subprocess

import pytest

from ptxbench.sensors.core_voltage import core_voltage_mv
from ptxbench.sensors.nvml import SettableDevice

SAID = """
    Voltage
        Graphics                          : 731.250 mV
"""


@pytest.mark.parametrize(
    ("said", "known_mv"),
    [(SAID, 731.25), ("Graphics : N/A", math.nan), ("", math.nan), ("Graphics : 1.2.3 mV", math.nan)],
)
def test_the_voltage_of_the_named_board_is_read(monkeypatch, said, known_mv):
    asked = []

    def answers(words, **_):
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, said.encode())

    monkeypatch.setattr(subprocess, "run", answers)
    assert core_voltage_mv("GPU-0000") == pytest.approx(known_mv, nan_ok=True)
    assert asked[0][-1] == "--id=GPU-0000"


@pytest.mark.parametrize("fault", [FileNotFoundError(), subprocess.TimeoutExpired("nvidia-smi", 10)])
def test_without_an_answer_there_is_none(monkeypatch, fault):
    def fails(*_, **__):
        raise fault

    monkeypatch.setattr(subprocess, "run", fails)
    assert math.isnan(core_voltage_mv("GPU-0000"))


@pytest.mark.gpu
def test_a_real_board_tells_a_voltage_of_a_core_or_none():
    device = SettableDevice(0)
    try:
        voltage_mv = device.core_voltage_mv()
    finally:
        device.close()
    assert math.isnan(voltage_mv) or 400 < voltage_mv < 1400

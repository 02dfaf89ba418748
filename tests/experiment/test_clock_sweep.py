"""A sweep over clocks on the simulated GPU finds the hidden ridge and leaves no setting."""

import json
import math
import time
from dataclasses import replace

import pytest
from fakes.nvml import FakeDevice, FakeNvml

from ptxbench.cli.main import run
from ptxbench.core.errors import GpuError, InputError, LaunchError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.settings import applied
from ptxbench.devices.simulated.gpu import SimulatedGpu
from ptxbench.devices.simulated.load import H200
from ptxbench.experiment.clock_sweep import looking, sweep_clocks
from ptxbench.experiment.load import prepare_load
from ptxbench.model.clocks.ridge import fit_ridge
from ptxbench.sensors.nvml import SettableDevice

STEP_MHZ = 15
LIMIT = GpuSettings(power_limit_mw=200_000)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def with_ridge(mhz):
    return SimulatedGpu(replace(H200, chip=replace(H200.chip, ridge_mhz=mhz)))


@pytest.mark.parametrize("ridge_mhz", [600.0, 800.0, 1000.0, 1200.0, 1400.0])
def test_the_hidden_ridge_comes_back_within_a_step_and_the_clock_is_restored(ridge_mhz):
    gpu = with_ridge(ridge_mhz)
    before = gpu.settable.settings()
    samples = sweep_clocks(gpu, gpu.settable, 28, lambda _: None, allowed=True)
    found = fit_ridge(samples, 700)
    assert found.found
    assert found.ridge_mhz.value == pytest.approx(ridge_mhz, abs=STEP_MHZ)
    # The voltages are read, too: 28 clocks lie 60 MHz apart.
    assert found.voltage_ridge_mhz == pytest.approx(ridge_mhz, abs=61)
    assert {round(sample.clock_mhz) for sample in samples} >= {345, 1980}
    assert gpu.settable.settings() == before


@pytest.mark.parametrize(("readings", "seen_mv"), [([], math.nan), ([800.0], 800.0)])
def test_a_voltage_that_can_no_longer_be_read_ends_no_run_and_is_said(readings, seen_mv, caplog, monkeypatch):
    monkeypatch.setattr("ptxbench.experiment.clock_sweep._LOOK_S", 0)
    left = list(readings)

    def voltage_mv():
        if left:
            return left.pop()
        raise GpuError("the driver was unloaded")

    found, mean_mv = looking(voltage_mv, lambda: time.sleep(0.05) or 7)
    assert found == 7
    assert mean_mv == pytest.approx(seen_mv, nan_ok=True)
    assert "not read on: GpuError: the driver was unloaded" in caplog.text


def test_clocks_that_are_locked_are_those_that_the_load_runs_at_and_the_lock_ends():
    gpu = with_ridge(1200.0)
    board = FakeDevice(locks=True, application_mhz=(1500, 3201))
    supported = gpu.settable.choices().clocks[-1].sm_clocks_mhz

    def follow(device):
        gpu.settable.set_clocks(device.locked_mhz or supported[-1], 3201)

    board.changed = follow
    samples = sweep_clocks(gpu, SettableDevice(0, FakeNvml(board)), 8, lambda _: None, allowed=True)
    assert [round(samples[n].clock_mhz) for n in (0, -1)] == [1980, 345]
    # The clock of before is among them.
    assert 1500 in [round(sample.clock_mhz) for sample in samples]
    assert (board.locked_mhz, gpu.settable.settings().sm_clock_mhz) == (None, 1980)


def test_a_clock_that_the_board_does_not_follow_is_no_sample():
    gpu, board = with_ridge(1200.0), FakeDevice(locks=True)
    with pytest.raises(LaunchError, match="1980 MHz where 1740 MHz was set"):
        sweep_clocks(gpu, SettableDevice(0, FakeNvml(board)), 8, lambda _: None, allowed=True)
    assert board.locked_mhz is None


def test_without_permission_by_the_user_nothing_is_set():
    gpu = with_ridge(1000.0)
    with pytest.raises(InputError, match="add `allow_settings`"):
        sweep_clocks(gpu, gpu.settable, 28, lambda _: None, allowed=False)


def test_a_power_limit_slows_the_load_and_goes_again():
    gpu = SimulatedGpu()
    load = prepare_load(gpu)
    free_mhz = gpu.run(load.launch("free", 1.0)).window.clock_mhz
    with applied(gpu.settable, LIMIT, lambda _: None, allowed=True):
        capped = gpu.run(load.launch("capped", 1.0))
    assert capped.throttle_reasons
    assert capped.window.clock_mhz < 0.9 * free_mhz
    assert gpu.run(load.launch("free again", 1.0)).window.clock_mhz == pytest.approx(free_mhz)


def test_the_command_sweeps_a_simulated_gpu(capsys):
    words = ["clocks", "ridge", "--gpu", "simulated:h200-ridge", "--json"]
    assert run(words) == 2
    assert run([*words, "--allow-settings"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["kind"] == "simulated"
    assert found["ridge_mhz"]["value"] == pytest.approx(1200, abs=STEP_MHZ)
    assert len(found["samples"]) == 28
    assert "restored SM clock 1980 MHz" in captured.err

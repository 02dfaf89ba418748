"""Clocks and the power limit as axes of a search: set for each trial, restored on every way out."""

import csv
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fakes.kept_nvml import open_kept
from fakes.nvml import NO_PERMISSION, FakeDevice, FakeNvml
from tune.fakes_kernel import AddingGpu, write_spec

from ptxbench.cli.main import run
from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.gpu_settings import ClockChoice, GpuSettings, SettingChoices
from ptxbench.devices.settings import restore_leftover
from ptxbench.devices.simulated.load import find_profile
from ptxbench.sensors.nvml import SettableDevice
from ptxbench.storage.settings_journal import has_notes
from ptxbench.tune.clocks.axes import SettingAxes, Values
from ptxbench.tune.folder import VARIANTS, TuningFolder
from ptxbench.tune.objective import Goal, Objective
from ptxbench.tune.outcome import TrialStatus
from ptxbench.tune.spec_file import load_spec
from ptxbench.tune.tuning import Tuning, tune
from ptxbench.tune.variant_runner import TrialOptions

ENERGY = Goal(Objective.ENERGY)
CLOCKS = SettingAxes(Values((1980, 990)))
BEFORE = [1980, 3201, 700_000]


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def tuning(folder, axes, n=1 << 22, **change):
    spec = load_spec(write_spec(folder), {"n": n})
    plain = Tuning(spec, ENERGY, TrialOptions(window_s=0.2), axes=axes, allow_settings=True, jobs=2)
    return replace(plain, **change)


def clocked_gpu():
    return AddingGpu(find_profile("h200-clocks"))


def test_every_variant_is_tried_at_every_clock_and_the_gpu_is_restored(tmp_path):
    gpu, said = clocked_gpu(), []
    before = gpu.settable.settings()
    found = tune(gpu, tuning(tmp_path / "spec", CLOCKS), tmp_path / "t", say=said.append)
    assert found.searched == len(found.trials) == 2 * 5
    assert gpu.settable.settings() == before
    # The best are measured again at the end, at the clock that was there before.
    assert "set SM clock" in said[0]
    for trial in found.trials:
        assert trial.clock_mhz == pytest.approx(trial.settings.sm_clock_mhz, rel=1e-3)
    # Half the clock costs time and saves power.
    by_name = {t.name: t for t in found.trials}
    fast, slow = by_name["BLOCK=128 MORE=16 SPACE=4 @sm1980"], by_name["BLOCK=128 MORE=16 SPACE=4 @sm990"]
    assert slow.power_w < fast.power_w
    assert slow.time_s > fast.time_s
    with (tmp_path / "t" / VARIANTS).open() as file:
        assert {row["sm_clock_mhz"] for row in csv.DictReader(file)} == {"1980", "990"}


def test_a_stopped_sweep_goes_on_where_it_was(tmp_path):
    tune(clocked_gpu(), tuning(tmp_path / "spec", CLOCKS, budget=3), tmp_path / "t")
    found = tune(clocked_gpu(), tuning(tmp_path / "spec", CLOCKS), resume=tmp_path / "t")
    assert len(found.trials) == 10
    assert len(TuningFolder.read(tmp_path / "t").trials) == 10


def test_memory_clock_and_power_limit_act_on_the_simulated_gpu(tmp_path):
    axes = SettingAxes(None, Values((3201, 1593)), Values((700, 400)))
    found = tune(clocked_gpu(), tuning(tmp_path / "spec", axes, n=1 << 23), tmp_path / "t")
    by_name = {t.name: t for t in found.trials}
    name = "BLOCK=128 MORE=1 SPACE=4 @mem{},cap{}"
    free, slow = by_name[name.format(3201, 700)], by_name[name.format(1593, 700)]
    # The kernel streams through DRAM.
    assert slow.time_s / free.time_s == pytest.approx(3201 / 1593, rel=0.05)
    capped = by_name["BLOCK=128 MORE=16 SPACE=4 @mem3201,cap400"]
    assert capped.capped
    assert capped.power_w < 404


def test_a_strategy_of_kernel_tuner_searches_the_clocks_too(tmp_path):
    pytest.importorskip("kernel_tuner", reason="the extra tune is not installed")
    found = tune(
        clocked_gpu(), tuning(tmp_path / "spec", CLOCKS, strategy="greedy_ils", budget=6), tmp_path / "t"
    )
    assert {t.settings.sm_clock_mhz for t in found.trials} == {1980, 990}


CHOICES = SettingChoices(
    (ClockChoice(2619, (345, 1980)), ClockChoice(3201, tuple(range(345, 1981, 15)))), (200_000, 700_000)
)


def test_values_are_spread_over_what_the_gpu_has():
    axes = SettingAxes(Values(even=3), Values(even=2), Values(even=2))
    settings = axes.combinations(CHOICES)
    assert settings[0] == GpuSettings(1980, 3201, 700_000)
    assert {s.sm_clock_mhz for s in settings} == {345, 1155, 1980}
    assert {s.power_limit_mw for s in settings} == {200_000, 700_000}
    assert len(settings) == 12
    # The clock of before is among them, where it has one.
    now = axes.combinations(CHOICES, GpuSettings(1410, 3201, 700_000))
    assert {s.sm_clock_mhz for s in now} == {345, 1155, 1410, 1980}
    assert len(axes.combinations(CHOICES, GpuSettings(7, 3201, 700_000))) == 12
    named = SettingAxes(Values((990,)), Values((2619,)))
    assert named.combinations(CHOICES, GpuSettings(1410, 3201, 700_000)) == tuple(
        GpuSettings(sm, memory, None) for sm in (1410, 990) for memory in (3201, 2619)
    )
    with pytest.raises(InputError, match="no SM clocks to set"):
        axes.combinations(SettingChoices((), None))


@pytest.fixture
def fake(monkeypatch):
    """The GPU's settings are those of a fake NVML."""
    device = FakeDevice()

    @contextmanager
    def open_settable(_):
        yield SettableDevice(0, FakeNvml(device))

    monkeypatch.setattr("ptxbench.tune.clocks.axes.open_settable", open_settable)
    return device


@pytest.mark.parametrize(
    ("change", "axes", "error"),
    [
        ({"pids": [1]}, CLOCKS, GpuError),
        ({"errors": {"nvmlDeviceSetApplicationsClocks": NO_PERMISSION}}, CLOCKS, GpuError),
        ({"errors": {"nvmlDeviceGetSupportedMemoryClocks": NO_PERMISSION}}, CLOCKS, GpuError),
        # The last of several is refused before the first is set.
        ({}, SettingAxes(Values((1980, 1000))), InputError),
        ({}, SettingAxes(None, None, Values((700, 100))), InputError),
    ],
)
def test_a_refused_setting_changes_nothing_and_leaves_no_folder(tmp_path, fake, change, axes, error):
    vars(fake).update(change)
    with pytest.raises(error) as refused:
        tune(clocked_gpu(), tuning(tmp_path / "spec", axes), tmp_path / "t")
    assert refused.value.exit_code == (3 if error is GpuError else 2)
    assert [*fake.application_mhz, fake.limit_mw] == BEFORE
    assert fake.history == []
    assert not has_notes()
    assert not (tmp_path / "t").exists()


def test_without_permission_by_the_user_nothing_is_set(tmp_path, fake):
    with pytest.raises(InputError, match="add `allow_settings`"):
        tune(clocked_gpu(), tuning(tmp_path / "spec", CLOCKS, allow_settings=False), tmp_path / "t")
    assert fake.history == []


def test_a_sweep_that_ends_by_an_error_is_restored(tmp_path, fake):
    class BreakingGpu(AddingGpu):
        def time_s(self, launch):
            if 990 in fake.application_mhz:
                raise GpuError("the GPU has fallen off the bus")
            return super().time_s(launch)

    with pytest.raises(GpuError, match="fallen off"):
        tune(BreakingGpu(), tuning(tmp_path / "spec", SettingAxes(Values((990,)))), tmp_path / "t")
    # The clock of before is tried, too, though it was not named.
    assert fake.history == [(1980, 3201), (990, 3201), (1980, 3201)]
    assert [*fake.application_mhz, fake.limit_mw] == BEFORE


def test_sigkill_within_a_sweep_is_restored_by_the_next_start(tmp_path):
    file = tmp_path / "gpu.json"
    file.write_text(json.dumps(BEFORE))
    words = [sys.executable, "-m", "fakes.kept_sweep", file, tmp_path / "spec", tmp_path / "t"]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        name = process.stdout.readline()
        assert "@sm" in name, name
        process.send_signal(signal.SIGKILL)
        process.communicate()
    clock_mhz = int(name.split("@sm")[1].split(",")[0])
    assert json.loads(file.read_text()) == [clock_mhz, 3201, 500_000]
    said = []
    assert restore_leftover(open_kept(file), said.append)
    assert json.loads(file.read_text()) == BEFORE
    assert "restored" in said[0]
    # What was measured is there.
    trials = TuningFolder.read(tmp_path / "t").trials.values()
    assert [t.status for t in trials] == [TrialStatus.OK] * 2


def test_the_command_takes_lists_and_counts(tmp_path, capsys):
    words = ["tune", "kernel", str(write_spec(tmp_path / "spec")), "--gpu", "simulated:h200-clocks"]
    words += ["--window", "0.1", "--json", "--clocks"]
    out = ["--out", str(tmp_path / "t")]
    assert run([*words, "even:3", "--allow-settings", "--trials", "15", *out]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["tried"] == document["search_space"] == 15
    assert document["best"][0]["parameters"]["sm_clock_mhz"] in (345, 1155, 1980)
    assert "set SM clock" in captured.err
    for values, said in (("1980", "--allow-settings"), ("even:1", "even:N"), ("1980,x", "whole numbers")):
        assert run([*words, values, "--out", str(tmp_path / "u")]) == 2
        assert said in capsys.readouterr().err
    assert run([*words, "1000", "--allow-settings", "--out", str(tmp_path / "u")]) == 2
    assert "the nearest is 1005 MHz" in capsys.readouterr().err
    assert not (tmp_path / "u").exists()

"""Settings of a GPU come back on every way out, and nothing is changed where something stands against it."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest
from fakes.kept_nvml import open_kept
from fakes.nvml import LOST, NO_PERMISSION, NOT_SUPPORTED, FakeDevice, FakeNvml, use_nvml

from ptxbench.cli.main import run
from ptxbench.core.errors import GpuError, InputError
from ptxbench.core.gpu_settings import GpuSettings
from ptxbench.devices.settings import applied, restore_leftover
from ptxbench.sensors.nvml import SettableDevice
from ptxbench.storage.settings_journal import SettingsJournal, has_notes, state_folder

WANTED = GpuSettings(1005, None, 500_000)
BEFORE = [1980, 3201, 700_000]
DURING = [1005, 3201, 500_000]


@pytest.fixture(autouse=True)
def signals_that_end_a_process():
    # nohup, and some services, ignore SIGHUP; what is ignored stays so.
    old = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def opened(**change):
    fake = FakeDevice(**change)
    return fake, SettableDevice(0, FakeNvml(fake))


def values(fake):
    return [*fake.application_mhz, fake.limit_mw]


def test_it_is_set_within_and_restored_after_with_one_line_each():
    fake, gpu = opened()
    said = []
    with applied(gpu, WANTED, said.append, allowed=True):
        assert values(fake) == DURING
        assert has_notes()
    assert values(fake) == BEFORE
    assert not has_notes()
    assert said == [
        "NVIDIA H200: set SM clock 1005 MHz, memory clock 3201 MHz, power limit 500 W"
        " (before: SM clock 1980 MHz, memory clock 3201 MHz, power limit 700 W)",
        "NVIDIA H200: restored SM clock 1980 MHz, memory clock 3201 MHz, power limit 700 W",
    ]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_it_is_restored_after_an_exception(error):
    fake, gpu = opened()
    with pytest.raises(error), applied(gpu, WANTED, lambda _: None, allowed=True):
        raise error
    assert values(fake) == BEFORE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_is_restored_after_a_signal_and_handlers_are_as_before(number):
    fake, gpu = opened()
    old = signal.getsignal(number)
    with pytest.raises(SystemExit) as stop, applied(gpu, WANTED, lambda _: None, allowed=True):
        signal.raise_signal(number)
    assert stop.value.code == 128 + number
    assert values(fake) == BEFORE
    assert signal.getsignal(number) is old


def test_a_signal_while_restoring_waits_for_its_end():
    fake, gpu = opened()

    def interrupt(device):
        if len(device.history) == 3:
            signal.raise_signal(signal.SIGINT)

    fake.changed = interrupt
    with pytest.raises(KeyboardInterrupt), applied(gpu, WANTED, lambda _: None, allowed=True):
        pass
    assert values(fake) == BEFORE
    assert not has_notes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pids": [1]}, "1 other process"),
        ({"drawing_pids": [1]}, "1 other process"),
        (
            {"errors": {"nvmlDeviceGetComputeRunningProcesses": NO_PERMISSION}},
            "does not tell who uses .*Processes 4",
        ),
        ({"errors": {"nvmlDeviceSetApplicationsClocks": NO_PERMISSION}}, "run as root"),
        ({"errors": {"nvmlDeviceSetPowerManagementLimit": NO_PERMISSION}}, "refuses nvmlDeviceSetPower"),
        (
            {"errors": {"nvmlDeviceGetApplicationsClock": NOT_SUPPORTED}},
            r"no application clocks, or .* \(NVML codes: nvmlDeviceGetApplicationsClock 3\): no clock",
        ),
        (
            {"errors": {"nvmlDeviceGetSupportedMemoryClocks": NOT_SUPPORTED}},
            r"no application clocks, .*nvmlDeviceGetSupportedMemoryClocks 3",
        ),
        (
            {"errors": {"nvmlDeviceGetPowerManagementLimitConstraints": NOT_SUPPORTED}},
            r"cannot be set or read \(NVML codes: nvmlDeviceGetPowerManagementLimitConstraints 3\)",
        ),
        ({"errors": {"nvmlDeviceSetApplicationsClocks": LOST}}, "code 15"),
        ({"rounds_limit_to_mw": 7_000}, "reads SM clock 1005 MHz, memory clock 3201 MHz, power limit 497 W"),
    ],
)
def test_a_gpu_that_refuses_or_lacks_something_is_as_before(change, said):
    fake, gpu = opened(**change)
    with pytest.raises(GpuError, match=said) as refused, applied(gpu, WANTED, lambda _: None, allowed=True):
        pytest.fail("the block must not run")
    assert refused.value.exit_code == 3
    assert values(fake) == BEFORE
    assert not has_notes()


def test_a_process_that_comes_while_the_gpu_is_set_ends_it():
    fake, gpu = opened()
    fake.changed = lambda device: device.pids.append(1)
    with pytest.raises(GpuError, match="other process"), applied(gpu, WANTED, lambda _: None, allowed=True):
        pytest.fail("the block must not run")
    assert values(fake) == BEFORE


@pytest.mark.parametrize(
    ("wanted", "allowed", "said"),
    [
        (WANTED, False, "add `allow_settings`"),
        (GpuSettings(), True, "nothing is to be set"),
        (GpuSettings(sm_clock_mhz=1000), True, "the nearest is 1005 MHz"),
        (GpuSettings(memory_clock_mhz=5), True, "has no memory clock of 5 MHz; it has 2619, 3201"),
        (GpuSettings(power_limit_mw=50_000), True, "outside of what NVIDIA H200 takes: 200 to 700 W"),
    ],
)
def test_what_is_not_allowed_or_not_supported_is_bad_input(wanted, allowed, said):
    fake, gpu = opened()
    with pytest.raises(InputError, match=said), applied(gpu, wanted, lambda _: None, allowed=allowed):
        pytest.fail("the block must not run")
    assert fake.history == []


def test_two_that_set_one_gpu_are_refused_and_the_first_is_left_alone():
    fake, gpu = opened()
    with applied(gpu, WANTED, lambda _: None, allowed=True):
        with pytest.raises(GpuError, match="another ptxbench"), applied(gpu, WANTED, print, allowed=True):
            pytest.fail("the block must not run")
        assert not restore_leftover(gpu, print)
        assert values(fake) == DURING


def set_by_a_process_that_gets(number, state):
    """Return the file with the settings of a GPU after a signal to the process that had set it."""
    file = state / "gpu.json"
    file.write_text(json.dumps(BEFORE))
    with subprocess.Popen(
        [sys.executable, "-m", "fakes.kept_nvml", file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert "set SM clock 1005 MHz" in process.stdout.readline()
        process.send_signal(number)
        process.communicate()
    return file


def test_a_driver_that_locks_clocks_has_them_locked_and_the_lock_ended():
    fake, gpu = opened(locks=True)
    said = []
    with applied(gpu, WANTED, said.append, allowed=True, later=[GpuSettings(sm_clock_mhz=1500)]) as set_other:
        assert (fake.locked_mhz, fake.locked_memory_mhz, fake.limit_mw) == (1005, None, 500_000)
        set_other(GpuSettings(sm_clock_mhz=1500))
        assert fake.locked_mhz == 1500
    assert (fake.locked_mhz, fake.locked_memory_mhz) == (None, None)
    assert values(fake) == BEFORE
    assert said[0].startswith("NVIDIA H200: set SM clock 1005 MHz, power limit 500 W by a lock")
    assert said[1:] == [
        "NVIDIA H200: ended the lock of its clocks",
        "NVIDIA H200: restored power limit 700 W",
    ]


def test_locks_need_no_application_clocks_which_newer_drivers_do_not_have():
    gone = dict.fromkeys(("nvmlDeviceGetApplicationsClock", "nvmlDeviceSetApplicationsClocks"), NOT_SUPPORTED)
    fake, gpu = opened(locks=True, errors=gone)
    with applied(gpu, GpuSettings(1005, 2619), lambda _: None, allowed=True):
        assert (fake.locked_mhz, fake.locked_memory_mhz) == (1005, 2619)
    assert (fake.locked_mhz, fake.locked_memory_mhz) == (None, None)


@pytest.mark.parametrize("missing", ["nvmlDeviceSetGpuLockedClocks", "nvmlDeviceSetMemoryLockedClocks"])
def test_a_board_without_a_lock_has_its_application_clocks_set(missing):
    fake, gpu = opened(locks=True, errors={missing: NOT_SUPPORTED})
    with applied(gpu, GpuSettings(1005, 2619), lambda _: None, allowed=True):
        assert fake.application_mhz == (1005, 2619)
        assert (fake.locked_mhz, fake.locked_memory_mhz) == (None, None)
    assert values(fake) == BEFORE


def test_a_lock_that_is_not_permitted_is_said_and_leaves_nothing():
    fake, gpu = opened(locks=True, errors={"nvmlDeviceSetGpuLockedClocks": NO_PERMISSION})
    with pytest.raises(GpuError, match="run as root"), applied(gpu, WANTED, print, allowed=True):
        pytest.fail("the block must not run")
    assert (fake.locked_mhz, values(fake)) == (None, BEFORE)
    assert not has_notes()


@pytest.mark.parametrize("locks", [False, True])
def test_a_sweep_that_is_killed_at_any_of_thirty_moments_is_restored(state, locks):
    """Each child is killed by itself, before or after a random call of NVML that sets something."""
    clean = [*BEFORE, *([None, None] if locks else [])]
    settings = [GpuSettings(mhz, None, 500_000) for mhz in range(1980, 1905, -15)]
    file, rng, restored, left = state / "gpu.json", random.Random(7), 0, 0
    for _ in range(30):
        file.write_text(json.dumps(clean))
        moment = rng.randrange(1, 13)
        if (child := os.fork()) == 0:
            killed_in_a_sweep(file, settings, moment)
        os.waitpid(child, 0)
        left += json.loads(file.read_text()) != clean
        restore_leftover(open_kept(file), lambda _: None)
        restored += json.loads(file.read_text()) == clean and not has_notes()
    assert restored == 30
    # Some were killed before anything was set.
    assert left > 15


def killed_in_a_sweep(file, settings, moment):
    """Set one after the other until the call of that number, and be killed there; never returns."""
    try:
        gpu = open_kept(file)
        device = gpu._handle
        kept = device.changed

        def count(changed):
            if len(device.history) < moment:
                kept(changed)
            # An odd one is killed when the board has it, an even one before.
            if len(device.history) >= moment:
                if moment % 2:
                    kept(changed)
                os.kill(os.getpid(), signal.SIGKILL)

        device.changed = count
        with applied(gpu, settings[0], lambda _: None, allowed=True, later=settings[1:]) as set_other:
            for one in settings[1:]:
                set_other(one)
    finally:
        os._exit(1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_process_that_gets_a_signal_restores(number, state):
    assert json.loads(set_by_a_process_that_gets(number, state).read_text()) == BEFORE
    assert not has_notes()


@pytest.fixture
def killed(state):
    """The state file of a GPU that was set by a process which then was killed."""
    file = set_by_a_process_that_gets(signal.SIGKILL, state)
    assert json.loads(file.read_text()) == DURING
    return file


def test_after_sigkill_the_next_start_restores(killed):
    said = []
    assert restore_leftover(open_kept(killed), said.append)
    assert json.loads(killed.read_text()) == BEFORE
    assert said == ["NVIDIA H200: restored SM clock 1980 MHz, memory clock 3201 MHz, power limit 700 W"]
    assert not restore_leftover(open_kept(killed), said.append)


def test_after_sigkill_the_next_setting_starts_from_what_was_before(killed):
    with applied(open_kept(killed), GpuSettings(sm_clock_mhz=1500), lambda _: None, allowed=True):
        assert json.loads(killed.read_text()) == [1500, 3201, 700_000]
    assert json.loads(killed.read_text()) == BEFORE


def test_opening_the_gpu_restores_it_first(killed, monkeypatch):
    import ptxbench.devices.select as select
    import ptxbench.sensors.nvml as nvml

    monkeypatch.setattr(nvml, "SettableDevice", lambda which: open_kept(killed))
    select.restore_settings(0)
    assert json.loads(killed.read_text()) == BEFORE


def test_a_leftover_that_may_not_be_restored_is_kept_and_said(killed):
    gpu = open_kept(killed, errors={"nvmlDeviceSetApplicationsClocks": NO_PERMISSION})
    with pytest.raises(GpuError, match=r"could not be restored.*ptxbench clocks restore"):
        restore_leftover(gpu, print)
    assert has_notes()


def test_a_note_that_was_tampered_with_is_one_line():
    _, gpu = opened()
    path = SettingsJournal(gpu.uuid_hash).path
    path.parent.mkdir(parents=True)
    path.write_text('{"uuid": 1}')
    with pytest.raises(InputError, match="settings-"):
        restore_leftover(gpu, print)


def test_the_state_folder_has_a_default_in_the_home(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "ptxbench"


def test_a_user_without_a_home_folder_sets_nothing_and_measures_all_the_same(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert not has_notes()
    fake, gpu = opened()
    with pytest.raises(InputError, match="set XDG_STATE_HOME"), applied(gpu, WANTED, print, allowed=True):
        pytest.fail("the block must not run")
    assert fake.history == []


@pytest.fixture
def one_gpu(monkeypatch):
    """The command line sees one GPU."""
    fake, gpu = opened()
    monkeypatch.setattr("ptxbench.cli.clocks.open_device", lambda _: gpu)
    use_nvml(monkeypatch, fake, FakeDevice(uuid="GPU-1", errors={"nvmlDeviceGetHandleByIndex": LOST}))
    monkeypatch.setattr(gpu, "close", lambda: None)
    return fake


RUN = ("clocks", "run", "--sm-clock-mhz", "1005", "--limit-w", "500")


def test_a_command_runs_at_the_settings_and_gives_its_exit_code(one_gpu, capfd):
    during = []
    one_gpu.changed = lambda device: during.append(values(device))
    assert (
        run([*RUN, "--allow-settings", "--", sys.executable, "-c", "print('ran'); raise SystemExit(7)"]) == 7
    )
    captured = capfd.readouterr()
    assert captured.out == "ran\n"
    assert DURING in during
    assert values(one_gpu) == BEFORE
    assert ["set" in captured.err, "restored" in captured.err] == [True, True]


@pytest.mark.parametrize(
    ("change", "words", "code"), [({}, (), 2), ({"pids": [1]}, ("--allow-settings",), 3)]
)
def test_a_command_that_is_refused_does_not_run(one_gpu, capfd, change, words, code):
    one_gpu.pids += change.get("pids", [])
    assert run([*RUN, *words, "--", "echo", "ran"]) == code
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert one_gpu.history == []


def test_a_command_that_does_not_exist_leaves_the_gpu_as_it_was(one_gpu, capfd):
    assert run([*RUN, "--allow-settings", "no-such-command"]) == 127
    assert "cannot run no-such-command" in capfd.readouterr().err
    assert values(one_gpu) == BEFORE


def test_show_and_restore_beside_a_lost_gpu(one_gpu, capsys, caplog):
    assert run(["clocks", "show"]) == 0
    assert caplog.messages[0].startswith("ptxbench: GPU 1 left out: NVML says 'error text 15' (code 15)")
    out = capsys.readouterr().out
    for word in ("SM clock 1980 MHz", "110 from 345 to 1980 MHz", "200 to 700 W"):
        assert word in out
    assert run(["clocks", "show", "--json"]) == 0
    (gpu,) = json.loads(capsys.readouterr().out)["gpus"]
    assert gpu["settings"]["power_limit_mw"] == 700_000
    assert run(["clocks", "restore"]) == 0
    assert capsys.readouterr().out == "nothing to restore\n"

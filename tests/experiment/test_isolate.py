import signal
import sys
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.cli import main
from ptxbench.cli.table import command as table
from ptxbench.cli.table_cluster import ClusterOptions
from ptxbench.core.status import Status
from ptxbench.devices.select import NamedGpu
from ptxbench.experiment.isolate import board_work, table_work
from ptxbench.experiment.supervise import Outcome, supervise
from ptxbench.experiment.table_options import TableOptions
from ptxbench.storage.run_folder import RunFolder

pytestmark = pytest.mark.hostile


class Processes:
    """Measuring processes that end as they are told, and what each of them leaves behind."""

    def __init__(self, path, *ends):
        self.path = path
        self.ends = list(ends)
        self.started = 0

    def __call__(self, _passed_s):
        code, number, how = self.ends[self.started]
        self.started += 1
        failed = replace(fake.record(number), status=Status.LAUNCH_FAILED, reason="illegal address")
        arguments = (self.path, fake.GPU, fake.ARGUMENTS, fake.SESSION)
        is_new = not self.path.exists()
        folder = RunFolder.create(self.path, fake.manifest()) if is_new else RunFolder.resume(*arguments)
        with folder:
            if how == "recorded":
                folder.append(failed, fake.trace(number))
            elif how == "in progress":
                folder.note_in_progress(failed)
        end = f"sys.exit({code})" if code >= 0 else f"os.kill(os.getpid(), {-code})"
        return [sys.executable, "-c", f"import os, sys; {end}"]

    def run(self, said):
        work = table_work(TableOptions(isolate=True), self.path)
        (ended,) = supervise([replace(work, command=self)], said.append)
        return ended.code


@pytest.mark.parametrize("code", [0, 1, 2, 130, -signal.SIGKILL])
def test_a_process_that_ends_otherwise_is_not_started_again(tmp_path, code):
    processes = Processes(tmp_path / "run", (code, 0, "nothing"))
    assert processes.run(said := []) == code
    assert (processes.started, said) == (1, [])


def test_a_kernel_that_breaks_the_context_is_passed_over(tmp_path):
    processes = Processes(tmp_path / "run", (3, 0, "recorded"), (3, 1, "recorded"), (1, 2, "nothing"))
    assert processes.run(said := []) == 1
    assert processes.started == 3
    assert fake.record(0).trial_id in said[0]
    assert fake.record(1).trial_id in said[1]


def test_a_crash_is_the_fault_of_the_trial_in_progress(tmp_path):
    processes = Processes(tmp_path / "run", (-signal.SIGSEGV, 0, "in progress"), (0, 1, "nothing"))
    assert processes.run([]) == 0
    with RunFolder.open(tmp_path / "run") as folder:
        (record,) = folder.records()
    assert (record.trial_id, record.status) == (fake.record(0).trial_id, Status.LAUNCH_FAILED)


def test_a_gpu_that_is_gone_is_not_asked_again_and_again(tmp_path):
    processes = Processes(tmp_path / "run", (3, 0, "recorded"), (3, 1, "nothing"))
    assert processes.run([]) == 3
    assert processes.started == 2


def test_a_crash_before_any_trial_is_the_end(tmp_path):
    processes = Processes(tmp_path / "run", (-signal.SIGABRT, 0, "nothing"))
    assert processes.run([]) == -signal.SIGABRT
    assert processes.started == 1


@pytest.mark.parametrize(("number", "hint"), [(signal.SIGKILL, "memory runs out"), (signal.SIGTERM, "")])
def test_death_by_a_signal_is_said_with_how_to_go_on(tmp_path, monkeypatch, capsys, number, hint):
    out = tmp_path / "run"

    def killed(works, _say):
        RunFolder.create(out, fake.manifest()).close()
        return (Outcome(works[0].name, -number, 0, 1.0, ""),)

    monkeypatch.setattr("ptxbench.experiment.supervise.supervise", killed)
    arguments = ["table", "add.u32", "--isolate", "--gpu", "simulated", "--out", str(out)]
    assert main.run(arguments) == 128 + number
    said = capsys.readouterr().err
    assert f"{number.name} ended the measuring process" in said
    assert hint in said
    assert f"ptxbench table --gpu=simulated --out={out} --resume --isolate" in said


def command_of(work, passed_s=0.0):
    words = work.command(passed_s)
    assert words[:4] == [sys.executable, "-m", "ptxbench", "table"]
    given = table.read(words[4:])
    assert given == ClusterOptions(**vars(given.of_table))  # no worker goes to the cluster by itself
    return given.of_table


def test_the_command_is_that_of_the_options_and_goes_on_with_the_run_that_is_there(tmp_path):
    out, sensor = tmp_path / "run", tmp_path / "sensor"
    options = TableOptions(
        instructions=("fma.*",), window_s=0.3, budget_minutes=2.0, sensor_path=sensor, isolate=True
    )
    work = table_work(options, out)
    own = replace(options, isolate=False, out=out)
    assert command_of(work) == own
    out.mkdir()
    (out / "manifest.json").touch()
    left = replace(own, resume=True, sensor_path=None)
    assert command_of(work, 30.0) == replace(left, budget_minutes=1.5)
    assert command_of(work, 1e4) == replace(left, budget_minutes=0.01)


def test_a_board_has_its_own_folder_and_log_and_sees_no_other_gpu(tmp_path):
    options = TableOptions(spec="all", out=tmp_path, resume=True, as_json=True)
    work = board_work(options, NamedGpu("GPU-a", "0123456789ab"), tmp_path)
    assert command_of(work) == TableOptions(spec="GPU-a", out=tmp_path / "board-01234567")
    assert (work.name, work.log) == ("board-01234567", tmp_path / "board-01234567.log")
    assert work.environment == {"CUDA_VISIBLE_DEVICES": "GPU-a"}
    assert not board_work(options, NamedGpu("simulated", "0123456789ab"), tmp_path).environment
    assert work.blame is None
    assert board_work(replace(options, isolate=True), NamedGpu("GPU-a", "01"), tmp_path).blame is not None


def test_the_former_flag_works_and_says_so(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["table", "add.u32", "--survive", "--gpu=simulated", "--protocol=dynamic", "--opt-level=O3"]
    assert main.run([*words, f"--out={out}", "--max-repeats=2", "--check-linearity=none"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == "ptxbench: --survive is now called --isolate"
    with RunFolder.open(out) as folder:
        assert [row.instruction for row in folder.rows()] == ["add.u32"]

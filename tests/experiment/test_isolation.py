import select
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from fakes import run as fake

from ptxbench.cli import main
from ptxbench.core.status import Status
from ptxbench.experiment.isolation import run_surviving
from ptxbench.storage.run_folder import RunFolder

pytestmark = pytest.mark.hostile


class Processes:
    """Measuring processes that end as they are told, and what each of them leaves behind."""

    def __init__(self, path, *ends):
        self.path = path
        self.ends = list(ends)
        self.started = 0

    def __call__(self, command):
        assert command == ["measure", str(self.started)]
        code, number, how = self.ends[self.started]
        self.started += 1
        failed = replace(fake.record(number), status=Status.LAUNCH_FAILED, reason="illegal address")
        arguments = (self.path, fake.GPU, fake.ARGUMENTS, fake.SESSION)
        is_new = not self.path.exists()
        folder = RunFolder.create(self.path, fake.manifest()) if is_new else RunFolder.resume(*arguments)
        with folder:
            if how == "recorded":
                folder.append(failed, fake.trace(number))
            elif how == "in hand":
                folder.take_in_hand(failed)
        return code

    def run(self, said):
        return run_surviving(lambda: ["measure", str(self.started)], self.path, said.append, self)


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


def test_a_crash_is_the_fault_of_the_trial_in_hand(tmp_path):
    processes = Processes(tmp_path / "run", (-signal.SIGSEGV, 0, "in hand"), (0, 1, "nothing"))
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


STARTER = """
import sys
from ptxbench.experiment.isolation import call_bound
call_bound([sys.executable, "-c", "import os; print(os.getpid(), flush=True); input()"])
"""


def test_measuring_process_ends_with_the_one_that_started_it():
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert int(process.stdout.readline()) != process.pid
        process.kill()
        # The pipe ends once no process holds it any more; the measuring one waits for input otherwise.
        assert select.select([process.stdout], [], [], 60)[0], "it goes on measuring"
        assert process.stdout.read() == b""


@pytest.mark.parametrize(("number", "hint"), [(signal.SIGKILL, "memory runs out"), (signal.SIGTERM, "")])
def test_death_by_a_signal_is_said_with_how_to_go_on(tmp_path, monkeypatch, capsys, number, hint):
    out = tmp_path / "run"

    def killed(_command):
        RunFolder.create(out, fake.manifest()).close()
        return -number

    monkeypatch.setattr("ptxbench.experiment.isolation.run_surviving", lambda command, *_: killed(command()))
    arguments = ["table", "add.u32", "--survive", "--gpu", "simulated", "--out", str(out)]
    assert main.run(arguments) == 128 + number
    said = capsys.readouterr().err
    assert f"{number.name} ended the measuring process" in said
    assert hint in said
    assert f"ptxbench table --resume --survive --out {out} --gpu simulated" in said

"""The command gets every signal once: those that are sent to ptxbench alone, and those to its group."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ptxbench.attribute import child

PYTHON = sys.executable
SCRIPT = """
import os, sys
from ptxbench.attribute.child import run_child
sys.exit(run_child(sys.argv[1:], os.environ, "it was killed"))
"""
# Says which signals it gets, and ends with 7 a little after the first that is no SIGTSTP or SIGCONT.
COMMAND = """
import os, signal, sys, time
got = []
def handler(number, frame):
    got.append(number)
    print(number, flush=True)
for one in map(int, sys.argv[1].split()):
    signal.signal(one, handler)
print("ready", os.getpid(), flush=True)
while not set(got) - {signal.SIGTSTP, signal.SIGCONT}:
    time.sleep(0.01)
time.sleep(0.3)
print("end", *got, flush=True)
sys.exit(7)
"""
SIGNALS = "TERM HUP USR1 USR2 INT QUIT TSTP CONT"
NUMBERS = {name: int(signal.Signals[f"SIG{name}"]) for name in SIGNALS.split()}


class Started:
    """A command under `run_child`, in a process group of its own."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [PYTHON, "-c", SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            process_group=0,
        )  # fmt: skip

    def __enter__(self):
        self.process.__enter__()
        return self

    def __exit__(self, *_):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.__exit__(*_)

    def line(self):
        return self.process.stdout.readline().strip()


@pytest.fixture
def started():
    with Started(PYTHON, "-c", COMMAND, " ".join(map(str, NUMBERS.values()))) as one:
        one.pid = int(one.line().split()[1])
        yield one


def wait_for(state, *pids):
    """Wait until processes are stopped (T) or not."""
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids]
        if all((one == "T") is state for one in states):
            return
        time.sleep(0.01)
    raise AssertionError(states)


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "USR2", "INT", "QUIT"])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["alone", "group"])
def test_the_command_gets_a_signal_once_and_its_exit_code_is_kept(started, name, send):
    send(started.process.pid, NUMBERS[name])
    assert started.line() == str(NUMBERS[name])
    assert started.line() == f"end {NUMBERS[name]}"
    assert started.process.wait(30) == 7


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGQUIT, 131)]
)
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["alone", "group"])
def test_a_signal_that_the_command_does_not_expect_ends_it(number, code, send):
    with Started("sh", "-c", "ulimit -c 0; echo ready; exec sleep 50") as one:
        assert one.line() == "ready"
        send(one.process.pid, number)
        assert one.process.wait(30) == code
        assert one.process.stderr.read() == ""


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["alone", "group"])
def test_the_command_stops_and_goes_on(send):
    with Started("sh", "-c", "echo $$; exec sleep 50") as one:
        pids = (one.process.pid, int(one.line()))
        for _ in range(2):
            send(one.process.pid, signal.SIGTSTP)
            wait_for(True, *pids)
            send(one.process.pid, signal.SIGCONT)
            wait_for(False, *pids)
            # Until it handles the signal as before: within a millisecond of it, nobody stops it again.
            time.sleep(0.1)
        send(one.process.pid, signal.SIGINT)
        assert one.process.wait(30) == 130


def test_signals_are_passed_on_one_after_the_other(started):
    for name in ("CONT", "TSTP"):
        os.kill(started.process.pid, NUMBERS[name])
        assert started.line() == str(NUMBERS[name])
    # The command has the signal before ptxbench stops: what let it go on earlier would be lost.
    wait_for(True, started.process.pid)
    os.kill(started.process.pid, signal.SIGCONT)
    assert started.line() == str(NUMBERS["CONT"])
    os.kill(started.process.pid, signal.SIGUSR1)
    assert started.line() == str(NUMBERS["USR1"])
    assert started.process.wait(30) == 7


def test_where_it_is_killed_the_command_goes_on_and_a_line_tells(started):
    os.kill(started.process.pid, signal.SIGKILL)
    assert started.process.stderr.read(14) == "it was killed\n"
    os.kill(started.pid, signal.SIGTERM)
    assert started.line() == str(NUMBERS["TERM"])


def test_a_signal_after_the_end_is_not_passed_on(monkeypatch):
    class Ended:
        pid = 2**22 + 1  # beyond the largest process number

        def poll(self):
            return None

        def wait(self):
            signal.raise_signal(signal.SIGTERM)
            return -15

    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda words, **more: real(words, **more) if "stdin" in more else Ended()
    )
    assert child.run_child(["x"], {}) == 143

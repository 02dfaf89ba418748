"""Processes that are watched: progress, one that is killed, that fails, that hangs, and interrupts."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from ptxbench.core.progress_pipe import parse, teller
from ptxbench.experiment.supervise import Death, Watchdog, Work, supervise

PROGRESS = """import os, json, sys
def tell(*at):
    os.write(int(os.environ["PTXBENCH_PROGRESS_FD"]), json.dumps(at).encode() + bytes([10]))
"""


def python(code):
    return [sys.executable, "-c", f"{PROGRESS}\n{code}"]


def work(tmp_path, name, code, restarts=2, **environment):
    return Work(name, lambda _: python(code), tmp_path / f"{name}.log", environment, restarts)


def test_each_says_how_far_it_is_and_ends_by_itself(tmp_path):
    shares, ended = [], []
    done = supervise(
        [
            work(tmp_path, "a", "tell(2, 3, 'x'); print('all', os.environ['OWN'])", OWN="mine"),
            work(tmp_path, "b", "tell(1, 4, 'y'); import sys; print('no gpu'); sys.exit(3)"),
        ],
        on_progress=shares.append,
        on_end=ended.append,
    )
    assert [(one.name, one.code, one.restarts, one.said) for one in done] == [
        ("a", 0, 0, "all mine"),
        ("b", 3, 0, "no gpu"),
    ]
    assert (shares[-1].done, shares[-1].total, shares[-1].running) == (3, 7, 0)
    assert {one.name for one in ended} == {"a", "b"}


def test_one_that_is_killed_is_started_again_twice_at_most(tmp_path):
    once = tmp_path / "once"
    killed = (
        f"p = {str(once)!r}\nif not os.path.exists(p): open(p, 'w'); os.kill(os.getpid(), 9)\nprint('again')"
    )
    first, second = supervise(
        [work(tmp_path, "a", killed), work(tmp_path, "b", "print('x', flush=True); os.kill(os.getpid(), 9)")]
    )
    assert (first.code, first.restarts, first.said) == (0, 1, "again")
    assert (second.code, second.restarts) == (-signal.SIGKILL, 2)


def test_each_has_processors_of_its_own_where_there_are_enough(tmp_path):
    code = "import time; time.sleep(0.3); print(sorted(os.sched_getaffinity(0)))"
    cpus = [set(json.loads(one.said)) for one in supervise([work(tmp_path, n, code) for n in "ab"])]
    if len(os.sched_getaffinity(0)) >= 2:
        assert not cpus[0] & cpus[1]
    assert all(cpus)


def test_an_interrupt_reaches_every_worker_and_waits_for_it(tmp_path):
    code = (
        "import signal, time\ntell(0, 1, '')\ntry: time.sleep(60)\n"
        "except KeyboardInterrupt: open(os.environ['ENDED'], 'w')"
    )
    works = [work(tmp_path, n, code, ENDED=str(tmp_path / f"{n}.ended")) for n in "ab"]
    seen = threading.Event()

    def interrupt():
        seen.wait(30)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        supervise(works, on_progress=lambda at: seen.set() if at.total == 2 else None)
    thread.join()
    assert all((tmp_path / f"{n}.ended").exists() for n in "ab")


def test_what_a_worker_says_that_is_no_progress_is_passed_over(monkeypatch):
    assert [parse(line) for line in (b'[1, 2, "x"]', b"[1]", b"nonsense", b"7")] == [(1, 2), None, None, None]
    monkeypatch.delenv("PTXBENCH_PROGRESS_FD", raising=False)
    assert teller() is None
    reading, writing = os.pipe()
    monkeypatch.setenv("PTXBENCH_PROGRESS_FD", str(writing))
    teller()(1, 2, "x")
    assert parse(os.read(reading, 100)) == (1, 2)
    os.close(reading)
    teller()(2, 2, "x")
    os.close(writing)


def test_what_is_blamed_is_said_and_another_process_goes_on_until_nothing_is(tmp_path):
    codes, told, said = [3, -signal.SIGSEGV, 3], [], []

    def command(_):
        code = codes.pop(0)
        return python(f"sys.exit({code})" if code >= 0 else f"os.kill(os.getpid(), {-code})")

    def blame(death):
        told.append(death)
        return ["a", "b", ""][len(told) - 1]

    (ended,) = supervise([Work("x", command, blame=blame)], said.append)
    assert told == [Death(3), Death(-signal.SIGSEGV), Death(3)]
    assert [death.crashed for death in told] == [False, True, False]
    assert (ended.code, said) == (3, ["a", "b"])


def test_other_ends_are_nobodys_fault():
    for code in (0, 1, 2, 130):
        (ended,) = supervise([Work("x", lambda _, code=code: python(f"sys.exit({code})"), blame=pytest.fail)])
        assert ended.code == ended.shell_code == code
    (ended,) = supervise([Work("x", lambda _: python("os.kill(os.getpid(), 9)"), blame=pytest.fail)])
    assert (ended.code, ended.shell_code) == (-9, 137)


def test_what_a_process_was_blamed_for_is_in_its_log_too(tmp_path):
    once = iter([python("sys.exit(3)"), python("print('done')")])
    said = []
    log = tmp_path / "x.log"
    (ended,) = supervise([Work("x", lambda _: next(once), log, blame=lambda _: "k broke it")], said.append)
    assert said == ["x: k broke it"]
    assert log.read_text() == "ptxbench: k broke it\ndone\n"
    assert ended.said == "done"


def test_one_that_hangs_is_killed_and_one_that_makes_progress_is_not(tmp_path):
    marker = tmp_path / "marker"
    busy = f"import time\nfor n in range(6):\n open({str(marker)!r}, 'w').write(str(n)); time.sleep(0.2)\n"
    once = iter([python(f"{busy}time.sleep(600)"), python("import time; time.sleep(0.8)")])
    told = []

    def blame(death):
        told.append((death, marker.read_text()))
        marker.unlink()
        return "again"

    dog = Watchdog(marker, 0.5)
    (ended,) = supervise([Work("x", lambda _: next(once), blame=blame, watchdog=dog)])
    assert ended.code == 0
    assert told == [(Death(-signal.SIGKILL, hung=True), "5")]


STARTER = """
import sys
from ptxbench.experiment.supervise import Work, supervise
code = "import os; print(os.getpid(), flush=True); input()"
supervise([Work("x", lambda _: [sys.executable, "-c", code])])
"""


@pytest.mark.hostile
def test_a_process_ends_with_the_one_that_started_it():
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert int(process.stdout.readline()) != process.pid
        process.kill()
        # The pipe ends once no process holds it any more; the other one waits for input otherwise.
        assert select.select([process.stdout], [], [], 60)[0], "it goes on"
        assert process.stdout.read() == b""


PATIENT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
begun = False
while True:
    try:
        begun = begun or print("begun", flush=True) or True
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        if sys.argv[1] == "obedient":
            time.sleep(0.6)
            print("cleaned up", flush=True)
            break
"""
STOPPED = f"""
import signal, sys
from ptxbench.experiment import supervise as module
module._TERMINAL_S, module._GRACE_S = 2.0, 4.0
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    module.supervise([module.Work("x", lambda _: [sys.executable, "-c", {PATIENT!r}, sys.argv[1]])])
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("kind", "send"), [("obedient", os.killpg), ("obedient", os.kill), ("deaf", os.kill)]
)
def test_ctrl_c_is_told_once_and_one_that_goes_on_is_killed(kind, send):
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, kind], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        send(process.pid, signal.SIGINT)
        said = ["interrupted", *(["cleaned up"] if kind == "obedient" else []), "stopped"]
        assert process.communicate(timeout=60)[0].splitlines() == said
    assert process.returncode == 0

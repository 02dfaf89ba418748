"""Several processes at once: progress, one that is killed, one that fails, an interrupt."""

import json
import os
import signal
import sys
import threading
import time

import pytest

from ptxbench.core.progress_pipe import parse, teller
from ptxbench.experiment.workers import Work, run_workers

PROGRESS = """import os, json
def tell(*at):
    os.write(int(os.environ["PTXBENCH_PROGRESS_FD"]), json.dumps(at).encode() + bytes([10]))
"""


def work(tmp_path, name, code, **environment):
    return Work(
        name, lambda _: [sys.executable, "-c", f"{PROGRESS}\n{code}"], tmp_path / f"{name}.log", environment
    )


def test_each_says_how_far_it_is_and_ends_by_itself(tmp_path):
    shares, ended = [], []
    done = run_workers(
        [
            work(tmp_path, "a", "tell(2, 3, 'x'); print('all', os.environ['OWN'])", OWN="mine"),
            work(tmp_path, "b", "tell(1, 4, 'y'); import sys; print('no gpu'); sys.exit(3)"),
        ],
        shares.append,
        ended.append,
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
    first, second = run_workers(
        [work(tmp_path, "a", killed), work(tmp_path, "b", "print('x', flush=True); os.kill(os.getpid(), 9)")]
    )
    assert (first.code, first.restarts, first.said) == (0, 1, "again")
    assert (second.code, second.restarts) == (-signal.SIGKILL, 2)


def test_each_has_processors_of_its_own_where_there_are_enough(tmp_path):
    code = "import time; time.sleep(0.3); print(sorted(os.sched_getaffinity(0)))"
    cpus = [set(json.loads(one.said)) for one in run_workers([work(tmp_path, n, code) for n in "ab"])]
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
        run_workers(works, lambda at: seen.set() if at.total == 2 else None)
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

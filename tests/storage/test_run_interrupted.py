"""A run whose process dies at any moment, and what is left of it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import run as fake

from ptxbench.core.errors import InputError
from ptxbench.storage.run_folder import RunFolder

pytestmark = pytest.mark.hostile


class Died(BaseException):
    """The process is gone: nothing may catch this and go on."""


def resume(path):
    return RunFolder.resume(path, fake.GPU, fake.ARGUMENTS, fake.LATER_SESSION)


def assert_same_trials(folder, numbers):
    assert [repr(r) for r in folder.records()] == [repr(fake.record(n)) for n in numbers]
    for n in numbers:
        assert fake.same_trace(folder.trace(fake.record(n).trial_id), fake.trace(n))


@pytest.fixture
def run(tmp_path):
    """A run of three trials that was left without a word."""
    with RunFolder.create(tmp_path / "run", fake.manifest()) as folder:
        for number in range(3):
            folder.append(fake.record(number), fake.trace(number))
    return tmp_path / "run"


def test_torn_last_line_loses_that_trial_only(run):
    journal = run / "partial" / "records.jsonl"
    whole = journal.read_bytes()
    begin_of_last = whole[:-1].rfind(b"\n") + 1
    for size in (*range(begin_of_last, len(whole), 23), len(whole) - 1):
        journal.write_bytes(whole[:size])
        assert RunFolder.open(run).done == {fake.record(0).trial_id, fake.record(1).trial_id}
    for size in (begin_of_last, begin_of_last + 1, begin_of_last + 100, len(whole) - 1):
        journal.write_bytes(whole[:size])
        with resume(run) as folder:
            assert_same_trials(folder, [0, 1])
            folder.append(fake.record(2), fake.trace(2))
            assert_same_trials(folder, [0, 1, 2])
        assert journal.read_bytes() == whole


def test_readings_without_a_line_are_ignored_and_replaced(run):
    journal = run / "partial" / "records.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    orphan = trace_file(run, 2)
    orphan.write_bytes(orphan.read_bytes()[:50])
    with resume(run) as folder:
        assert_same_trials(folder, [0, 1])
        folder.append(fake.record(2), fake.trace(2))
        folder.append(fake.record(3), fake.trace(3))
        orphan.with_name("ffffffffffffffff.parquet").write_bytes(b"of a trial that never ran again")
        folder.finish([], fake.LATER)
        assert_same_trials(folder, [0, 1, 2, 3])


def trace_file(run, number):
    """The readings of one trial."""
    return next(
        p
        for p in (run / "partial" / "traces").iterdir()
        if fake.record(number).trial_id.encode() in p.read_bytes()
    )


@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "folder"])
def test_trial_whose_readings_are_lost_is_dropped_and_can_run_again(run, damage):
    file = trace_file(run, 1)
    whole = file.read_bytes()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage != "missing":
        file.write_bytes(whole[: len(whole) // 2] if damage == "torn" else b"")
    with resume(run) as folder:
        assert folder.lost == (fake.record(1).trial_id,)
        assert folder.done == {fake.record(0).trial_id, fake.record(2).trial_id}
        assert [r.order for r in folder.records()] == [0, 1]
        with pytest.raises(InputError, match="another process"):
            resume(run)
        if damage == "folder":
            file.rmdir()
        folder.append(fake.record(1), fake.trace(1))
    with resume(run) as folder:
        assert folder.lost == ()
        folder.finish([fake.row()], fake.LATER)
    with RunFolder.open(run) as folder:
        assert folder.done == {fake.record(n).trial_id for n in range(3)}
        assert fake.same_trace(folder.trace(fake.record(1).trial_id), fake.trace(1))


def test_a_run_that_dies_while_lost_trials_are_dropped_is_as_before_or_after(run, tmp_path, monkeypatch):
    trace_file(run, 1).unlink()
    step, died = 0, True
    while died:
        copy = tmp_path / f"{step}"
        shutil.copytree(run, copy)
        died = dies(monkeypatch, "open", step, lambda p=copy: resume(p).close())
        with resume(copy) as folder:
            assert folder.done == {fake.record(0).trial_id, fake.record(2).trial_id}
        step += 1
    assert step > 3


def dying_at(call, real):
    """A function that is `real` until the given call, and then never comes back."""
    left = call

    def counted(*arguments, **options):
        nonlocal left
        left -= 1
        if left < 0:
            raise Died
        return real(*arguments, **options)

    return counted


def dies(patch, name, call, work):
    """Do `work`, and die at the given call of `os.<name>`; returns whether it came to that."""
    with patch.context() as context:
        context.setattr(os, name, dying_at(call, getattr(os, name)))
        try:
            work()
        except Died:
            return True
    return False


@pytest.mark.parametrize("name", ["replace", "fsync", "unlink", "rmdir", "open"])
def test_finish_that_dies_at_any_step_loses_nothing(run, tmp_path, monkeypatch, name):
    step, died = 0, True
    while died:
        copy = tmp_path / f"{name}-{step}"
        shutil.copytree(run, copy)
        with resume(copy) as folder:
            died = dies(monkeypatch, name, step, lambda f=folder: f.finish([fake.row()], fake.LATER))
        with RunFolder.open(copy) as folder:
            assert_same_trials(folder, [0, 1, 2])
        with resume(copy) as folder:
            assert_same_trials(folder, [0, 1, 2])
            if not folder.finished:
                folder.append(fake.record(3), fake.trace(3))
                folder.finish([fake.row()], fake.LATER)
                assert_same_trials(folder, [0, 1, 2, 3])
        assert sorted(p.name for p in copy.iterdir()) == [
            "manifest.json",
            "records.parquet",
            "table.csv",
            "traces.parquet",
        ]
        step += 1
    assert step > 1  # else the name is one that finishing never calls


def test_run_that_dies_while_it_is_made_is_resumed_or_begun_again(tmp_path, monkeypatch):
    step, died = 0, True
    while died:
        path = tmp_path / f"run-{step}"
        died = dies(monkeypatch, "fsync", step, lambda p=path: RunFolder.create(p, fake.manifest()).close())
        if not (path / "manifest.json").exists():
            assert list(path.iterdir()) == []
            RunFolder.create(path, fake.manifest()).close()
        assert RunFolder.open(path).done == frozenset()
        with resume(path) as folder:
            folder.append(fake.record(0), fake.trace(0))
            assert_same_trials(folder, [0])
        step += 1
    assert step > 2


ENDLESS = """
import itertools, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from fakes import run as fake
from ptxbench.storage.run_folder import RunFolder
folder = RunFolder.create(Path(sys.argv[1]), fake.manifest())
for number in itertools.count():
    folder.append(fake.record(number), fake.trace(number))
    print(number, flush=True)
"""


def test_killed_process_loses_at_most_the_trial_in_progress(tmp_path):
    tests = Path(__file__).resolve().parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "run"), str(tests)], stdout=subprocess.PIPE, text=True
    ) as process:
        seen = [int(process.stdout.readline()) for _ in range(10)]
        process.send_signal(signal.SIGKILL)
        seen += [int(line) for line in process.stdout]
    with resume(tmp_path / "run") as folder:
        kept = [r.order for r in folder.records()]
        assert kept in ([*seen], [*seen, len(seen)])  # killed between the line and its echo
        assert_same_trials(folder, kept)
        folder.append(fake.record(len(kept)), fake.trace(len(kept)))
        folder.finish([fake.row()], fake.LATER)
        assert_same_trials(folder, [*kept, len(kept)])

"""Readings and launches are on the disk as they come: a killed ptxbench leaves a run that `--from` reads."""

import json
import shutil
import sys
import time

import numpy as np
import pytest
from fakes.loads import LoadedGpu

from ptxbench.api.board import open_boards
from ptxbench.attribute import child, program
from ptxbench.attribute.recorded import RUN
from ptxbench.attribute.unfinished import BEGUN, LOG, READINGS, load_unfinished
from ptxbench.cli.main import run
from ptxbench.core.errors import InputError

WORDS = ["--", sys.executable, "-c", "pass"]
POWER_W = 200.0


@pytest.fixture
def made(monkeypatch):
    gpu = LoadedGpu()
    (board,) = open_boards(gpu.gpu)
    monkeypatch.setattr("ptxbench.api.board.open_boards", lambda _specs: (board,))
    return gpu


@pytest.fixture
def killed(made, monkeypatch, tmp_path):
    """The folder as a SIGKILL leaves it after 20 s of a command of 30 s, and its true energy until then."""
    out, left = tmp_path / "out", tmp_path / "left"
    spent = {}

    def run_child(words, environment, last_words):
        code = child.run_child(words, environment, last_words)
        before_j = made.energy_j()
        made.load(20.0, POWER_W)
        spent["j"] = made.energy_j() - before_j
        size, until_s = -1, time.monotonic() + 20
        while (out / READINGS).stat().st_size != size and time.monotonic() < until_s:
            size = (out / READINGS).stat().st_size
            time.sleep(0.05)
        shutil.copytree(out, left)
        made.load(10.0, POWER_W)
        return code

    monkeypatch.setattr(program, "run_child", run_child)
    assert run(["run", "--no-kernels", "--out", str(out), *WORDS]) == 0
    return out, left, spent["j"]


def test_what_a_killed_ptxbench_measured_is_read(killed, capfd):
    _, left, spent_j = killed
    assert sorted(path.name for path in left.iterdir()) == sorted((BEGUN, LOG, READINGS))
    recorded = load_unfinished(left)
    # Readings are written every second or two.
    assert 18 < recorded.facts.window.elapsed_s <= 20.1
    capfd.readouterr()
    assert run(["run", "--from", str(left), "--json"]) == 0
    told = json.loads(capfd.readouterr().err)
    assert told["energy_j"] == pytest.approx(spent_j * recorded.facts.window.elapsed_s / 20, rel=0.02)
    assert told["exit_code"] == -1
    assert "ptxbench was killed before the command ended" in " ".join(told["remarks"])


def test_a_run_that_is_kept_whole_leaves_nothing_unfinished(killed):
    out, _, _ = killed
    names = {path.name for path in out.iterdir()}
    assert RUN in names
    assert not names & {BEGUN, LOG, READINGS}


@pytest.mark.parametrize("share", [0.3, 0.7, 0.98])
def test_torn_readings_are_read_as_far_as_they_are_whole(killed, share):
    _, left, _ = killed
    whole = load_unfinished(left).facts.window.elapsed_s
    data = (left / READINGS).read_bytes()
    (left / READINGS).write_bytes(data[: int(share * len(data))])
    torn = load_unfinished(left)
    assert 0 < torn.facts.window.elapsed_s <= whole
    assert torn.facts.window.elapsed_s == pytest.approx(share * whole, rel=0.3, abs=2)
    ends = [series.end_ns for series in torn.boards[0].series()]
    assert all(np.all(np.diff(one) >= 0) for one in ends)


def test_without_a_reading_it_is_said(killed):
    _, left, _ = killed
    (left / READINGS).unlink()
    with pytest.raises(InputError, match="killed before it kept a reading"):
        load_unfinished(left)


def test_a_full_disk_loses_no_result_and_is_said(made, monkeypatch, tmp_path, capfd):
    def run_child(*_):
        made.load(20.0, POWER_W)
        return 0

    monkeypatch.setattr(program, "run_child", run_child)
    # A folder in the place of the file: it cannot be opened, as on a full disk.
    make = program.RunOnDisk

    def blocked(folder):
        (folder / READINGS).mkdir()
        return make(folder)

    monkeypatch.setattr(program, "RunOnDisk", blocked)
    assert run(["run", "--no-kernels", "--out", str(tmp_path / "out"), *WORDS]) == 0
    said = capfd.readouterr().err
    assert "not all readings were kept as they came" in said
    assert " J (95%: " in said


def test_a_command_that_cannot_be_run_leaves_an_empty_folder(made, tmp_path):
    assert run(["run", "--no-kernels", "--out", str(tmp_path / "out"), "--", "no-such-command"]) == 127
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_a_file_that_the_command_made_is_not_replaced(made, monkeypatch, tmp_path, capfd, option):
    mine = tmp_path / ("x.html" if option == "--html" else "x.json")

    def run_child(*_):
        mine.write_text("the command's own")
        made.load(3.0, POWER_W)
        return 0

    monkeypatch.setattr(program, "run_child", run_child)
    assert run(["run", "--no-kernels", option, str(mine), *WORDS]) == 2
    assert mine.read_text() == "the command's own"
    said = capfd.readouterr().err
    assert f"{mine} was made meanwhile" in said
    assert " J (95%: " in said

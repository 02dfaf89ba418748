"""Readings and launches are on the disk as they come: a killed ptxbench leaves a run that `--from` reads."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fakes.loads import LoadedGpu
from fakes.waiting import wait_for

from ptxbench.api.board import open_boards
from ptxbench.attribute import child, program
from ptxbench.attribute.attribution import NO_KERNEL
from ptxbench.attribute.recorded import RUN
from ptxbench.attribute.unfinished import BEGUN, LOG, READINGS, load_unfinished
from ptxbench.cli.main import run
from ptxbench.core.errors import InputError

WORDS = ["--", sys.executable, "-c", "pass"]
POWER_W = 200.0
# A ptxbench whose command runs kernels of two powers for 20 s, until the SIGKILL. Its log is as the injector
# writes it, and goes on for longer than the readings that are on the disk.
KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from fakes.loads import LoadedGpu
from fakes.waiting import wait_for
from ptxbench.api import board
from ptxbench.attribute import program
from ptxbench.attribute.unfinished import READINGS
from ptxbench.cli.main import run

made = LoadedGpu()
(one,) = board.open_boards(made.gpu)
board.open_boards = lambda _specs: (one,)

def run_child(words, environment, last_words):
    log = Path(environment["PTXBENCH_LAUNCHES"])
    text = "cupti 24", "name 0 a", "name 1 b", "name 2 begin", "name 3 all"
    (log / "7-1.txt").write_text("".join(line + chr(10) for line in text))
    records, chance, start_ns = [], np.random.default_rng(3), one.clock.now_ns()
    while one.clock.now_ns() < start_ns + 20e9:
        for name, power_w in enumerate((100.0, 300.0)):
            begin_ns = one.clock.now_ns()
            made.load(chance.uniform(0.05, 0.2), power_w)
            records.append((begin_ns, one.clock.now_ns(), name))
    with (log / "7-1.bin").open("wb") as file:
        for begin_ns, end_ns, name in records:
            file.write(np.array([begin_ns, end_ns], "<u8").tobytes())
            file.write(np.array([name, 0, 0, 0], "<u4").tobytes())
    with (log / "7-1.ranges").open("wb") as file:
        for end_ns, name in ((records[20][1], 2), (records[-1][1], 3)):
            file.write(np.array([start_ns, end_ns], "<u8").tobytes() + np.array([name, 0], "<u4").tobytes())
    wait_for(log.parent / READINGS)
    os.kill(os.getpid(), signal.SIGKILL)

program.run_child = run_child
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def made(monkeypatch):
    gpu = LoadedGpu()
    (board,) = open_boards(gpu.gpu)
    monkeypatch.setattr("ptxbench.api.board.open_boards", lambda _specs: (board,))
    return gpu


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory):
    """The folder as a SIGKILL leaves it after 20 s of a command of 30 s, and its true energy until then."""
    made, folder = LoadedGpu(), tmp_path_factory.mktemp("killed")
    (board,) = open_boards(made.gpu)
    out, left = folder / "out", folder / "left"
    spent = {}

    def run_child(words, environment, last_words):
        code = child.run_child(words, environment, last_words)
        before_j = made.energy_j()
        made.load(20.0, POWER_W)
        spent["j"] = made.energy_j() - before_j
        wait_for(out / READINGS)
        shutil.copytree(out, left)
        made.load(10.0, POWER_W)
        return code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptxbench.api.board.open_boards", lambda _specs: (board,))
        patch.setattr(program, "run_child", run_child)
        assert run(["run", "--no-kernels", "--out", str(out), *WORDS]) == 0
    return folder, spent["j"]


@pytest.fixture
def killed(killed_once, tmp_path):
    """Copies of the whole run and of what was left of it, and its energy."""
    folder, spent_j = killed_once
    for name in ("out", "left"):
        shutil.copytree(folder / name, tmp_path / name)
    return tmp_path / "out", tmp_path / "left", spent_j


def test_what_a_killed_ptxbench_measured_is_read(killed, capfd):
    _, left, spent_j = killed
    assert sorted(path.name for path in left.iterdir()) == sorted((BEGUN, LOG, READINGS))
    recorded = load_unfinished(left)
    # Readings are written every second or two.
    assert 17.5 < recorded.facts.window.elapsed_s <= 20
    capfd.readouterr()
    assert run(["run", "--from", str(left), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["energy_j"] == pytest.approx(spent_j * recorded.facts.window.elapsed_s / 20, rel=0.02)
    assert told["exit_code"] is None
    assert "the run was not kept to its end" in " ".join(told["remarks"])


def test_a_run_is_known_until_all_boards_are(killed):
    _, left, _ = killed
    whole_s = load_unfinished(left).facts.window.elapsed_s
    begun = json.loads((left / BEGUN).read_text())
    begun["part"]["boards"].append({**begun["part"]["boards"][0], "name": "GPU 1"})
    (left / BEGUN).write_text(json.dumps(begun))
    with pa.ipc.open_stream((left / READINGS).read_bytes()) as stream:
        readings = stream.read_all()
    half_ns = begun["part"]["start_ns"] + 10 * 10**9
    other = readings.filter(pc.less(readings["end_ns"], half_ns))
    other = other.set_column(0, "trial_id", pa.repeat("1", len(other)))
    with pa.ipc.new_stream(left / READINGS, readings.schema) as stream:
        stream.write_table(pa.concat_tables([readings, other]))
    recorded = load_unfinished(left)
    assert 9 < recorded.facts.window.elapsed_s < 10 < whole_s
    assert all(gpu.energy.status == "ok" for gpu in program.energy_of(recorded).gpus)


def test_a_run_that_ended_early_is_not_compared(killed, tmp_path, capfd):
    out, left, _ = killed
    words = ["run", "--fail-over", "3%", "--baseline"]
    assert run([*words, str(out), "--from", str(out)]) == 0
    assert run([*words, str(out), "--from", str(left)]) == 1
    assert "the run now was not kept to its end" in capfd.readouterr().err
    assert run(["run", "--from", str(left), "--out", str(tmp_path / "again")]) == 0
    capfd.readouterr()
    assert run([*words, str(tmp_path / "again"), "--from", str(out)]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_kernels_of_a_killed_ptxbench_are_told_apart_until_then(tmp_path, capfd):
    left = tmp_path / "out"
    words = [sys.executable, "-c", KILLED, "run", "--out", str(left), *WORDS]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    ended = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, check=False, stderr=subprocess.PIPE)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert run(["run", "--from", str(left), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    kernels = {row["kernels"][0]: row for row in told["kernels"]}
    assert kernels.keys() == {"a", "b", NO_KERNEL}
    powers_w = [kernels[name]["energy_j"] / kernels[name]["time_s"] for name in "ab"]
    assert powers_w[1] - powers_w[0] == pytest.approx(200, rel=0.05)
    assert sum(row["time_s"] for row in told["kernels"]) == pytest.approx(told["time_s"])
    # Ranges that were not over then have no row; that the command went on is said in one line, the first.
    assert [row["range"] for row in told["ranges"]] == ["begin"]
    assert len(told["remarks"]) == 1
    assert "the run was not kept to its end" in told["remarks"][0]


def test_the_commands_own_files_in_the_folder_stay(made, monkeypatch, tmp_path, capfd):
    def run_child(*_):
        (tmp_path / "out" / "energy.json").write_text("the command's own")
        made.load(3.0, POWER_W)
        return 0

    monkeypatch.setattr(program, "run_child", run_child)
    (tmp_path / "out-2").mkdir()
    assert run(["run", "--no-kernels", "--out", str(tmp_path / "out"), *WORDS]) == 0
    assert (tmp_path / "out" / "energy.json").read_text() == "the command's own"
    assert len(list((tmp_path / "out").iterdir())) == 1
    assert f"the run is in {tmp_path / 'out-3'}" in capfd.readouterr().err
    assert run(["run", "--from", str(tmp_path / "out-3")]) == 0
    assert json.loads((tmp_path / "out-3" / "energy.json").read_text())["energy_j"] > 0


def test_a_run_that_is_kept_whole_leaves_nothing_unfinished(killed):
    out, _, _ = killed
    names = {path.name for path in out.iterdir()}
    assert RUN in names
    assert not names & {BEGUN, LOG, READINGS}


def test_a_disk_that_is_full_at_the_end_is_one_line_and_what_came_before_is_read(
    made, monkeypatch, tmp_path, capfd
):
    def run_child(*_):
        made.load(20.0, POWER_W)
        return 0

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(program, "run_child", run_child)
    with monkeypatch.context() as full:
        full.setattr("ptxbench.attribute.recorded.traces.write", refuse)
        assert run(["run", "--no-kernels", "--out", str(tmp_path / "out"), *WORDS]) == 2
    said = capfd.readouterr().err.splitlines()
    assert "No space left on device" in said[-1]
    assert any(" J (95%: " in line for line in said[:-1])
    assert run(["run", "--from", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["time_s"] == pytest.approx(20, abs=2.5)
    assert told["energy_j"] > 0


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
    with pytest.raises(InputError, match="ended before a reading was kept"):
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

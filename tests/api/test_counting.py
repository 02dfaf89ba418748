"""What a program counts: for the energy of one token, within windows and for a whole run."""

import json
import math
import os
import subprocess
import sys

import pytest
from fakes.loads import LoadedGpu

import ptxbench
from ptxbench.api import counting
from ptxbench.api.board import open_boards
from ptxbench.api.counting import Counts, count, read_counts
from ptxbench.api.window_log import FOLDER_VARIABLE
from ptxbench.core.errors import InputError


@pytest.fixture
def monitored():
    made = LoadedGpu()
    with ptxbench.EnergyMonitor(open_boards(made.gpu)) as monitor:
        yield made, monitor


def test_a_window_has_what_was_counted_within_it(monitored):
    made, monitor = monitored
    count("token", 5)
    with monitor.window("step") as step:
        made.load(2.0, 300.0)
        for _ in range(4):
            count("token", 16)
        count("image")
    count("token", 7)
    found = step.result()
    assert found.counts == {"token": 64, "image": 1}
    assert found.per("token") == pytest.approx(found.energy_j / 64)
    assert found.per("image") == found.energy_j


def test_windows_that_overlap_count_each_for_itself(monitored):
    made, monitor = monitored
    with monitor.window("outer") as outer:
        count("token")
        with monitor.window("inner") as inner:
            made.load(1.0, 300.0)
            count("token", 2)
    assert (outer.result().counts["token"], inner.result().counts["token"]) == (3, 2)


def test_a_unit_that_was_not_counted_is_named(monitored):
    made, monitor = monitored
    with monitor.window("step") as step:
        made.load(1.0, 300.0)
    with pytest.raises(InputError, match=r"no 'token' was counted within window 'step'"):
        step.result().per("token")


def test_idle_power_is_taken_off_where_it_was_measured(monitored):
    made, monitor = monitored
    with monitor.window("before") as before:
        made.load(1.0, 300.0)
    assert math.isnan(before.result().energy_above_idle_j)
    begun_j, begun_ns = made.energy_j(), made.gpu._device.clock.now_ns()
    made.gpu.sleep(10.0)
    idle_w = (made.energy_j() - begun_j) / ((made.gpu._device.clock.now_ns() - begun_ns) / 1e9)
    assert monitor.measure_idle(3.0) == pytest.approx(idle_w, rel=0.02)
    with monitor.window("step") as step:
        made.load(2.0, 300.0)
        count("token", 10)
    found = step.result()
    assert found.energy_above_idle_j == pytest.approx(found.energy_j - found.idle_w * found.time_s)
    assert 0 < found.energy_above_idle_j < 0.8 * found.energy_j
    assert found.per("token", above_idle=True) == pytest.approx(found.energy_above_idle_j / 10)
    low_j, high_j = found.above_idle_interval_j
    assert low_j < found.energy_above_idle_j < high_j
    assert high_j - low_j > found.interval_j[1] - found.interval_j[0]
    assert [one.name for one in monitor.measured] == ["before", "step"]


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_idle_needs_time(monitored, seconds):
    with pytest.raises(InputError, match="seconds must be above 0"):
        monitored[1].measure_idle(seconds)


@pytest.mark.parametrize("n", [0, 0.5])
def test_none_and_a_part_are_counts(monitored, n):
    made, monitor = monitored
    with monitor.window("step") as step:
        count("token", n)
        made.load(0.5, 300.0)
    assert step.result().counts.get("token", 0) == n


@pytest.mark.parametrize(("unit", "n"), [("", 1), ("token", -1), ("token", math.inf), ("token", math.nan)])
def test_what_is_no_count_is_refused(unit, n):
    with pytest.raises(InputError):
        count(unit, n)


def test_outside_of_a_measured_program_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    counts = Counts()
    counts.add("token", 1)
    counts.write()
    assert list(tmp_path.iterdir()) == []


def test_what_a_process_counted_is_there_when_it_ends_and_its_children_count_for_themselves(tmp_path):
    code = (
        "import os, ptxbench\n"
        "for _ in range(1000): ptxbench.count('token', 2)\n"
        "if os.fork() == 0:\n"
        "    ptxbench.count('token', 5)\n"
        "    raise SystemExit\n"
        "os.wait()\n"
    )
    environment = {**os.environ, FOLDER_VARIABLE: str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert read_counts(tmp_path) == {"token": 2005}


def test_a_killed_process_has_written_what_it_counted_a_moment_before(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    counts = Counts()
    counts.add("token", 3)
    assert read_counts(tmp_path) == {"token": 3}
    now_s = counting.time.monotonic()
    counts.add("token", 4)
    assert read_counts(tmp_path) == {"token": 3}
    monkeypatch.setattr(counting.time, "monotonic", lambda: now_s + 1)
    counts.add("token", 5)
    assert read_counts(tmp_path) == {"token": 12}


@pytest.mark.parametrize("text", ["{", "[1]", json.dumps({"token": "many"}), json.dumps({"token": -1}), "3"])
def test_a_damaged_file_counts_for_nothing(tmp_path, text):
    (tmp_path / "1.counts").write_text(text)
    (tmp_path / "2.counts").write_text(json.dumps({"token": 2}))
    assert read_counts(tmp_path) == {"token": 2}

"""The steps on two boards: each is a command line that ptxbench takes, and none is begun too late."""

import subprocess
import sys
import tarfile
import time
from pathlib import Path

import click
from fakes.script import load_script

from ptxbench.catalogue.select import chosen
from ptxbench.cli.main import group

boards = load_script("runners/measure_boards.py")


def test_every_step_is_a_command_line_and_every_row_is_in_the_catalogue(tmp_path):
    steps = boards.steps(["0", "1"], tmp_path, len(boards.ROWS))
    assert [step.name for step in steps] == ["doctor", "alone", "together", "last"]
    (tmp_path / "sensor").mkdir()
    for step in steps:
        for name, *words in step.commands:
            group.get_command(click.Context(group), name).make_context(name, list(words))
    for names in (boards.ROWS, boards.TABLE1):
        assert len(set(chosen(names, "").names)) == len(names)
    assert len(boards.TABLE1) == 36
    assert [step.name for step in boards.steps(["0"], tmp_path, 1)] == ["doctor", "alone", "last"]


def test_a_step_that_is_over_its_time_is_stopped_packed_and_no_later_one_begins(tmp_path, monkeypatch):
    popen = subprocess.Popen
    sleeper = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text('begun'); time.sleep(60)"
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda words, **options: popen([sys.executable, "-c", sleeper, words[-1]], **options),
    )
    out, begin_s = tmp_path / "out", time.monotonic()
    out.mkdir()
    step = boards.Step("alone", (("table", str(out / "alone" / "mark")),), 1.0)
    ended = boards.run_step(step, out, begin_s, 1000.0)
    assert ended.codes[0] not in (0, 1)
    with tarfile.open(out / "alone.tar") as archive:
        assert "alone/mark" in archive.getnames()
    assert not (out / "alone").exists()
    assert boards.run_step(step, out, begin_s, 0.0).codes == ()
    assert Path(out / "alone.tar").exists()

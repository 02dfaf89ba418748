"""`runners/tune_blocks.py` on the simulated GPU: what it writes, and that it goes on."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from fakes.script import run_script

from ptxbench.core.errors import ToolError
from ptxbench.core.toolchain import tool_path

RUNNER = Path(__file__).parents[2] / "runners" / "tune_blocks.py"


def tune(*arguments):
    return run_script(RUNNER, *arguments)


@pytest.mark.usefixtures("nvcc")
def test_every_algorithm_has_its_row_and_a_folder_goes_on(tmp_path):
    words = ("--gpu", "simulated:h200-ridge", "--case", "nbody", "--window", "0.1", "--out", tmp_path / "b")
    page = tmp_path / "page.md"
    page.write_text("<!-- simulated:begin -->\n<!-- simulated:end -->\n")
    done = tune(*words, "--clocks", "3", "--repeats", "1", "--write", page)
    assert done.returncode == 0, done.stderr
    assert [row.split("|")[1:5] for row in page.read_text().splitlines()[3:-1]] == [
        [" n-body ", " 1 ", " energy ", " 3 (4) "],
        [" n-body ", " 2 ", " energy ", " 7 (12) "],
    ]
    assert "SIMULATED, no measurement" in done.stdout
    rows = list(csv.DictReader((tmp_path / "b" / "table.csv").read_text().splitlines()))
    assert [(row["algorithm"], row["objective"]) for row in rows] == [
        ("1", "time"),
        ("1", "energy"),
        ("2", "energy"),
    ]
    # Four block sizes at three clocks.
    assert [row["possible"] for row in rows] == ["4", "4", "12"]
    assert all(row["kind"] == "simulated" for row in rows)
    kept = (tmp_path / "b" / "trials.jsonl").read_text()
    assert len({(one["repeat"], one["trial"]["clock_mhz"]) for one in map(json.loads, kept.splitlines())}) > 3
    # Nothing is left to run: a limit of no time at all is enough. One more repeat is too many.
    again = tune(*words, "--clocks", "3", "--repeats", "2", "--limit-s", "0")
    assert again.returncode == 1
    assert "the limit of time was met" in again.stderr
    assert (tmp_path / "b" / "trials.jsonl").read_text() == kept


def test_bad_input_is_one_line(tmp_path):
    done = tune("--gpu", "simulated", "--case", "nothing", "--out", tmp_path / "b")
    assert done.returncode == 2
    assert done.stderr == "tune_blocks: there is no kernel 'nothing'; there are stencil, reduction, nbody\n"


@pytest.fixture
def nvcc():
    try:
        tool_path("nvcc")
    except ToolError:
        pytest.skip("nvcc is not installed")
    if shutil.which("gcc") is None:
        pytest.skip("nvcc needs a C++ compiler")

"""A folder that is no table of instructions is named by its kind, with the command that shows it."""

import json
import shlex
from pathlib import Path

import pytest

from ptxbench.cli.main import run
from ptxbench.storage.folder_kind import why_no_table

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path for path in RESULTS.glob("*/**") if path.is_dir() and path.parent != RESULTS)


def test_every_folder_of_results_is_a_table_or_is_named_by_its_kind():
    tables = [path for path in FOLDERS if not why_no_table(path)]
    assert all((path / "table.csv").exists() for path in tables)
    others = [path for path in FOLDERS if (path / "manifest.json").exists() and path not in tables]
    # That one is of a script that wrote a manifest of its own.
    assert [path.name for path in others if "of another kind" in why_no_table(path)] == ["tools"]
    assert len(tables) > 40


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("nvidia-h200/sensor", "is a study of sensors"),
        ("nvidia-h200/methods", "is a comparison of methods"),
        ("nvidia-h200/gemm/f32", "is a tuning"),
        ("nvidia-h200/roofline/f32", "is a roofline"),
        ("nvidia-h100/blocks", "is a tuning of block sizes"),
        ("nvidia-h100/programs/mixed", "is a program's run"),
        ("nvidia-h100/suite", "holds measured kernels"),
        ("nvidia-h100/doctor-b6a0/counter", "is a recording of `ptxbench doctor`"),
    ],
)
def test_kinds_are_told_apart(folder, words, capsys):
    assert f" {words}, not a table" in why_no_table(RESULTS / folder)
    if "roofline" not in folder:
        assert run(["report", str(RESULTS / folder)]) == 2
        assert f" {words}, not a table" in capsys.readouterr().err


@pytest.mark.parametrize(
    "folder", ["nvidia-h200/gemm/f32", "nvidia-h200/roofline/f32", "nvidia-h100/programs/fma"]
)
def test_the_command_that_is_named_shows_the_folder(folder, capsys):
    why = why_no_table(RESULTS / folder)
    command = shlex.split(why.split("`")[1])
    assert command[0] == "ptxbench"
    assert run(command[1:]) == 0
    shown = capsys.readouterr()
    assert shown.out or "95%:" in shown.err


def test_a_folder_of_runs_names_them(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    assert why_no_table(tmp_path).endswith("holds several runs: name one of a, b below it")


def test_an_empty_folder_and_a_damaged_manifest(tmp_path):
    assert why_no_table(tmp_path).endswith("holds no run (no manifest.json); name the folder of a run")
    (tmp_path / "manifest.json").write_text("{")
    assert why_no_table(tmp_path) == ""
    (tmp_path / "manifest.json").write_text(json.dumps({"what": "else"}))
    assert why_no_table(tmp_path).endswith("its manifest.json is of another kind")

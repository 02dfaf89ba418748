"""A folder that is no table of instructions is named by its kind, with the command that shows it."""

import json
import re
import shlex
from pathlib import Path

import pytest

from ptxbench.cli.main import run
from ptxbench.core.errors import InputError
from ptxbench.storage.folder_kind import Kind, kind_of, require_kind
from ptxbench.storage.run_folder import RunFolder

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path for path in RESULTS.glob("*/**") if path.is_dir() and path.parent != RESULTS)


def why_no_table(folder):
    try:
        require_kind(folder, Kind.TABLE)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(RESULTS)))
def test_every_folder_of_results_opens_or_is_named_with_what_shows_it(folder):
    why = why_no_table(folder)
    if not why:
        with RunFolder.open(folder) as opened:
            assert opened.rows()
        return
    said = why.removeprefix(f"{folder} ")
    if kind_of(folder)[0] is not None:
        assert "`ptxbench " in said or re.search(r" read .*\.(csv|json|jsonl|parquet)\b.* in it", said)
    else:
        assert said.startswith(("holds several runs: name", "is a part of a run: name", "holds no run, but"))


def test_results_have_folders_of_every_kind():
    assert {kind_of(folder)[0] for folder in FOLDERS} == {*Kind, None}


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("nvidia-h200/sensor", "is a study of sensors"),
        ("nvidia-h200/methods", "is a comparison of methods"),
        ("nvidia-h200/gemm/f32", "is a tuning"),
        ("nvidia-h200/roofline/f32", "is a roofline"),
        ("nvidia-h200/tools", "is a study by a script"),
        ("nvidia-h200/tuner/concurrent4", "is a tuning of concurrent kernels"),
        ("nvidia-h100/blocks", "is a study by a script"),
        ("nvidia-h100/programs/mixed", "is a program's run"),
        ("nvidia-h100/profiles/mix", "is a profile of a step"),
        ("nvidia-h100/suite", "holds measured kernels"),
        ("nvidia-h100/doctor-b6a0/counter", "is a recording of `ptxbench doctor`"),
    ],
)
def test_kinds_are_told_apart(folder, words, capsys):
    assert f" {words}, not a table" in why_no_table(RESULTS / folder)
    if "roofline" not in folder and "profiles" not in folder:
        assert run(["report", str(RESULTS / folder)]) == 2
        assert f" {words}, not a table" in capsys.readouterr().err


@pytest.mark.parametrize(
    "folder",
    [
        "nvidia-h200/gemm/f32",
        "nvidia-h200/roofline/f32",
        "nvidia-h100/programs/fma",
        "nvidia-h100/profiles/decode",
        "nvidia-h100/calibration-e680",
    ],
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
    for damaged in ("{", json.dumps({"what": "else"}), json.dumps({"schema": "2.0", "kind": "new"})):
        (tmp_path / "manifest.json").write_text(damaged)
        assert why_no_table(tmp_path) == ""
        with pytest.raises(InputError, match=r"manifest\.json: "):
            RunFolder.open(tmp_path)

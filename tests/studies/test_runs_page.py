"""What studies/h200/runs.md says of the runs is what was measured."""

from pathlib import Path

import pytest
from fakes.script import load_script

from ptxbench.core.errors import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def refresh_runs():
    return load_script("runners/refresh_runs.py")


@pytest.fixture(scope="module")
def runs(refresh_runs):
    return refresh_runs.kept_runs(ROOT / "results" / "nvidia-h200")


def test_the_tables_are_those_of_the_committed_runs(refresh_runs, runs):
    page = (ROOT / "studies" / "h200" / "runs.md").read_text()
    assert refresh_runs.with_tables(page, runs) == page


def test_every_run_is_of_a_real_gpu_and_named_after_its_board(runs):
    assert len(runs) > 1
    for run in runs:
        assert run.manifest.gpu.kind == "real"
        assert run.manifest.gpu.uuid_hash.startswith(run.name.split("-")[1])


def test_a_run_is_bold_where_it_reaches_what_was_aimed_at(refresh_runs, runs):
    (line,) = [
        line for line in refresh_runs.runs_table(runs).splitlines() if line.startswith("| `table-728e`")
    ]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    # 320 of 400 rows, more than 1.5 s a row, and a median interval under 0.3%.
    assert cells[3] == "320"
    assert not cells[6].startswith("**")
    assert cells[8].startswith("**0.2")


def test_a_repeat_is_set_beside_its_run_and_no_other(refresh_runs, runs):
    shown = [
        [cell.strip(" `*") for cell in line.strip("|").split("|")][:2]
        for line in refresh_runs.repeats_table(runs).splitlines()[2:]
    ]
    tables = {run.name for run in runs if run.name.startswith("table-")}
    assert {f"{name}-{kind}" for name, kind in shown} <= tables
    assert {name for name in tables if name.endswith("-repeat")} <= {f"{name}-{kind}" for name, kind in shown}


def test_a_page_without_the_comments_is_refused(refresh_runs, runs):
    with pytest.raises(InputError, match="no comments runs:begin and runs:end; put them round the table"):
        refresh_runs.with_tables("# Runs\n", runs)


def test_boards_that_have_no_table_are_set_beside_the_reference_only(refresh_runs, runs):
    assert "`board-" in refresh_runs.boards_table(runs)
    assert "`board-" not in refresh_runs.runs_table(runs) + refresh_runs.repeats_table(runs)


def test_without_the_reference_it_says_so(refresh_runs, runs):
    others = [run for run in runs if run.name != refresh_runs.REFERENCE]
    with pytest.raises(InputError, match="no run table-6eda"):
        refresh_runs.boards_table(others)

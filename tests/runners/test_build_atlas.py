"""What the shipped tables and the page on accuracy say of boards is what the committed runs say."""

from dataclasses import replace

import pytest
from fakes.script import load_script

from ptxbench.storage import codec
from ptxbench.storage.board_spread import BOARDS
from ptxbench.storage.run_spread import RUN_SPREAD
from ptxbench.storage.shipped import SHIPPED, TABLES

AGAIN = "run runners/build_atlas.py"


@pytest.fixture(scope="module")
def runner():
    return load_script("runners/build_atlas.py")


@pytest.fixture(scope="module")
def built(runner):
    return {gpu: runner.build(gpu) for gpu in SHIPPED}


@pytest.mark.parametrize("gpu", SHIPPED)
def test_the_shipped_file_is_that_of_the_committed_runs(gpu, built):
    shipped = SHIPPED[gpu] / BOARDS
    _, boards = built[gpu]
    assert shipped.read_text() == codec.to_lines(boards), AGAIN
    # It is read by every look-up, which takes 0.3 s in all: 10 ms a megabyte.
    assert shipped.stat().st_size < 1_000_000


def test_what_is_added_to_intervals_is_what_the_committed_runs_say(runner, built):
    spreads = [spread for spread, _ in built.values()]
    assert (TABLES / RUN_SPREAD).read_text() == codec.to_text(spreads), AGAIN
    page = runner.PAGE.read_text()
    assert runner.with_table(page, spreads) == page, AGAIN


@pytest.mark.parametrize("gpu", SHIPPED)
@pytest.mark.parametrize("kind", ["same_board", "other_board", "clock_corrected"])
def test_rows_of_two_runs_agree_as_often_as_their_intervals_say_on_boards_that_are_left_out(gpu, kind, built):
    term = getattr(built[gpu][0], kind)
    if term is None:
        return
    assert 0.04 <= term.beyond <= 0.06
    assert term.beyond_before > 0.08
    assert term.beyond_held_out <= 0.08


@pytest.mark.parametrize(("ratio", "expected"), [(1.12, 1.0), (1.02, 1.02)])
def test_a_later_run_of_a_board_is_brought_to_the_level_of_its_first(runner, ratio, expected):
    first = runner._run(runner.RESULTS / "nvidia-h200" / "board-d9e7")
    known = [row for row in first.rows if row.dynamic_pj > 0]
    lacking, common = known[0], known[1:]
    later = replace(first, rows=tuple(runner._scaled(row, ratio) for row in known))
    both = runner._with_more(replace(first, rows=tuple(common)), later)
    found = {row.key: row for row in both.rows}
    assert found[lacking.key].dynamic_pj == pytest.approx(lacking.dynamic_pj * expected)
    assert found[lacking.key].dynamic_ci95_pj == pytest.approx(lacking.dynamic_ci95_pj * expected)
    assert all(found[row.key].dynamic_pj == row.dynamic_pj for row in common)

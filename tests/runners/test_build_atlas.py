"""boards.json of the shipped table is what the committed runs say."""

from fakes.script import load_script

from ptxbench.storage import codec
from ptxbench.storage.board_spread import BOARDS
from ptxbench.storage.shipped import SHIPPED


def test_the_shipped_file_is_that_of_the_committed_runs():
    build_atlas = load_script("runners/build_atlas.py")
    shipped = SHIPPED["h200"] / BOARDS
    assert shipped.read_text() == codec.to_lines(build_atlas.spread_of(build_atlas.RESULTS)), (
        "run runners/build_atlas.py"
    )
    assert shipped.stat().st_size < 300_000

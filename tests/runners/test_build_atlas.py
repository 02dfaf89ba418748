"""boards.json of each shipped table is what the committed runs say."""

import pytest
from fakes.script import load_script

from ptxbench.storage import codec
from ptxbench.storage.board_spread import BOARDS
from ptxbench.storage.shipped import SHIPPED


@pytest.mark.parametrize("gpu", SHIPPED)
def test_the_shipped_file_is_that_of_the_committed_runs(gpu):
    build_atlas = load_script("runners/build_atlas.py")
    shipped = SHIPPED[gpu] / BOARDS
    spread = build_atlas.spread_of(build_atlas.RESULTS / SHIPPED[gpu].name, build_atlas.REFERENCES[gpu])
    assert shipped.read_text() == codec.to_lines(spread), "run runners/build_atlas.py"
    # It is read by every look-up, which takes 0.3 s in all.
    assert shipped.stat().st_size < 600_000

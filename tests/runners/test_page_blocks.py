"""Parts of pages that runners write."""

import pytest
from fakes.script import load_script

from ptxbench.core.errors import InputError

PAGE = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n<!-- y:begin -->\n<!-- y:end -->\n"


def test_a_block_stands_between_its_marks():
    module = load_script("runners/page_blocks.py")
    assert module.with_block(PAGE, "x", "1\\2\n") == PAGE.replace("old", "1\\2")
    with pytest.raises(InputError, match="no marks of 'z'"):
        module.with_block(PAGE, "z", "")


def test_a_page_with_a_mark_missing_is_left_as_it_is(tmp_path):
    module = load_script("runners/page_blocks.py")
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    with pytest.raises(InputError, match="no marks of 'z'"):
        module.write_blocks(path, {"x": "new\n", "z": ""})
    assert path.read_text() == PAGE
    module.write_blocks(path, {"x": "new\n", "y": "y\n"})
    assert path.read_text() == PAGE.replace("old", "new").replace("y:begin -->\n", "y:begin -->\ny\n")


def test_a_table_has_words_left_and_numbers_right():
    module = load_script("runners/page_blocks.py")
    assert module.table(("a", "b"), [("x", "1")]) == "| a | b |\n| --- | ---: |\n| x | 1 |\n"

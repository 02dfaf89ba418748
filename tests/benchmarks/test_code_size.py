"""The sizes of a package are those of its text."""

import pytest
from fakes.script import load_script

MODULE = '''"""What it is.

More of it.
"""

from dataclasses import dataclass

LIMIT = 3  # code with a comment


@dataclass(frozen=True)
class Shown:
    """A class."""

    text: str = """
    # no comment
    """


def _hidden():
    # a comment
    return LIMIT


def shown():
    """One line."""
'''


@pytest.fixture(scope="module")
def script():
    return load_script("benchmarks/code_size.py")


def test_docstrings_comments_and_blank_lines_are_no_code(script):
    assert script.size_of(MODULE) == {
        "lines": 26, "of code": 10, "modules": 1, "public names": 2, "dataclasses": 1,
    }  # fmt: skip


def test_a_page_gets_the_table_between_its_marks(script, tmp_path, monkeypatch):
    page = tmp_path / "size.md"
    page.write_text(f"Head\n{script.MARKS[0]}\nold\n{script.MARKS[1]}\nEnd\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    for name, text in (("ptxbench", MODULE), ("before", "x = 1\n")):
        (tmp_path / name / "core").mkdir(parents=True)
        (tmp_path / name / "core" / "one.py").write_text(text)
    monkeypatch.setattr("sys.argv", ["code_size", "--before", str(tmp_path / "before"), "--write", str(page)])
    assert script.main() == 0
    text = page.read_text()
    assert text.startswith(f"Head\n{script.MARKS[0]}\n\n| package |")
    assert text.endswith(f"|\n\n{script.MARKS[1]}\nEnd\n")
    assert "| core | 1 → 26 | 1 → 10 | 1 | 0 → 2 | 0 → 1 |" in text

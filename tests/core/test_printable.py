"""Text of others in CSV, Markdown and LaTeX: read back it is the same text, and nothing but text."""

import csv
import html
import io
import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ptxbench.core.printable import (
    latex_text,
    markdown_code,
    markdown_text,
    printable,
    printable_lines,
    quotable,
    render_csv,
    text_of_cell,
)

pytestmark = pytest.mark.hostile

FORMULAS = (
    "=1+1",
    "+A1",
    "-A1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "-",
    "=",
    "--1",
    "-1-1",
    "-inf",
    "-3.5 W",
)
TERMINAL = "\x1b]0;taken\x07\x1b[2J\x9b31m\x08\r\u202eevil\u2066\u200b\u2028"
ODD = st.text(st.sampled_from("=+-@'\t\r\n \",;a1.|\\\x1b\u202e")) | st.text()


def cells_of(text):
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_is_no_formula(text):
    ((cell,),) = cells_of(render_csv([[text]]))
    assert cell[0] == "'"
    assert text_of_cell(cell) == printable(text)


@pytest.mark.parametrize("text", ["-3.5", "+1", "-.5", "-1e-09", "-3.", "12", "1e+06"])
def test_a_number_stays_one(text):
    assert render_csv([[text]]) == text + "\n"


def test_numbers_are_written_as_python_writes_them_and_unknown_ones_are_empty():
    assert render_csv([[-3.5, 2, True, math.nan, None, ""]]) == "-3.5,2,True,,,\n"


@given(st.lists(ODD, min_size=2, max_size=4))
@example(["'=x", "''=x"])
@example(["'", "'a"])
def test_what_is_written_as_csv_is_read_back(texts):
    (cells,) = cells_of(render_csv([texts]))
    assert list(map(text_of_cell, cells)) == list(map(printable_lines, texts))
    number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
    assert not [cell for cell in cells if re.match(r"\s*[=+\-@]", cell) and not number.fullmatch(cell)]


@given(ODD)
@example(TERMINAL)
def test_nothing_commands_a_terminal(text):
    for made in (printable, printable_lines, quotable, markdown_text, markdown_code, latex_text):
        assert all(line.isprintable() for line in made(text).split("\n"))
    assert "\n" not in printable(text)


@given(st.text(st.sampled_from("\\`*_[]()<>&|~#!$a b1.-"), max_size=30))
@example("<img src=x onerror=alert(1)>")
@example("[click](javascript:alert(1))")
@example("a|b` | `c")
@example("__init__ *x* ~~y~~ &lt;")
def test_a_name_in_a_table_of_markdown_is_text(text):
    markdown = pytest.importorskip("markdown")
    table = f"| a | b |\n| --- | --- |\n| x{markdown_text(text)}x | {markdown_code(text)} |\n"
    page = markdown.markdown(table, extensions=["tables"])
    cells = re.findall(r"<td>(.*?)</td>", page, re.DOTALL)
    assert len(cells) == 2
    assert "<" not in cells[0]
    assert html.unescape(cells[0]) == f"x{' '.join(text.split())}x"
    assert not re.search(r"<(?!/?code>)", cells[1])


def test_underlines_within_a_name_stay():
    assert markdown_text("F2FP.BF16.F32.PACK_AB") == "F2FP.BF16.F32.PACK_AB"


@pytest.mark.parametrize("character", "&%$#_{}~^\\")
def test_a_name_in_latex_has_no_command(character):
    assert re.fullmatch(
        r"a(\\[&%$#_{}]|\\text(asciitilde|asciicircum|backslash)\{\})b", latex_text(f"a{character}b")
    )


def test_a_line_end_does_not_end_a_comment_of_latex():
    assert latex_text("a\n\\input{x}\x1b") == r"a \textbackslash{}input\{x\}?"

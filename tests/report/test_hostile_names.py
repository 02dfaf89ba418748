"""Names of kernels, files and devices of others, in all that ptxbench writes."""

import csv
import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from fakes import run as fake
from fakes.reader_fuzz import RUN

from ptxbench.cli.main import run
from ptxbench.report.figure import new_figure, save
from ptxbench.report.formats import RunReport, format_names, render_report
from ptxbench.report.sections import Section, sections_page
from ptxbench.storage.table import read_table, write_table

pytestmark = pytest.mark.hostile

TERMINAL = "\x1b]0;taken\x07\x1b[2J\x9b31m\x08\u202eevil\u2066"
FORMULA = "=HYPERLINK(1)"
NAMES = (
    TERMINAL,
    FORMULA,
    "@x",
    "-1+1",
    "\t=1",
    "a\n% b\n\\input{c}",
    "<b>x</b>",
    "[x](y)",
    "|x|",
    "$x$ `y`",
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def reports(name):
    gpu = replace(fake.GPU, name=name, driver=name)
    row = replace(fake.row(name), category=name, sass=name, reason=name)
    return [RunReport(f"{name}{number}", gpu, (row,)) for number in range(2)]


@pytest.mark.parametrize("form", format_names())
@pytest.mark.parametrize("name", NAMES)
def test_no_report_commands_a_terminal(form, name):
    assert not CONTROL.search(render_report(form, reports(name), None))


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_of_a_report_is_a_formula(name):
    rows = csv.reader(io.StringIO(render_report("csv", reports(name), None), newline=""))
    for cell in (cell for row in rows for cell in row):
        assert not re.match(r"\s*[=+\-@]", cell) or re.fullmatch(r"-?[\d.e+-]+", cell), cell


def test_a_new_line_of_a_name_begins_no_line_of_latex():
    lines = render_report("latex", reports("a\n\\input{c}"), None).splitlines()
    assert not [line for line in lines if r"\input" in line and not line.startswith("% a")]
    assert "\n% b" not in render_report("latex", reports("a\n% b"), None)


def test_markup_of_a_name_is_none_of_markdown():
    text = render_report("markdown", reports("<b>[x](y)</b>"), None)
    assert "<b>" not in re.sub(r"`[^`]*`", "", text)
    assert "[x]" not in re.sub(r"`[^`]*`", "", text).replace(r"\[x\]", "")


@pytest.mark.parametrize("name", [FORMULA, "@x", "-1+1", "'=1", "+", "-3.5"])
def test_a_table_reads_back_equal(tmp_path, name):
    row = replace(fake.row(name), sass=name, reason=name)
    write_table(tmp_path / "table.csv", [row])
    assert read_table(tmp_path / "table.csv")[0].key == row.key
    assert read_table(tmp_path / "table.csv")[0].reason == name


@pytest.mark.parametrize("name", [TERMINAL, r"$\frac{$", "a $x$ b", "--><script>"])
@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf"])
def test_a_picture_shows_names_as_they_are(tmp_path, name, ending):
    figure = new_figure(3, 2)
    axes = figure.add_subplot()
    axes.plot([1, 10, 100], [1, 10, 100], label=name)
    axes.set(xscale="log", title=name)
    axes.set_yticks([1, 100], [r"$\frac{$", "b"])
    axes.legend()
    save(figure, tmp_path / f"picture{ending}")
    if ending == ".svg":
        ElementTree.parse(tmp_path / "picture.svg")  # noqa: S314 - it was written here
        assert not CONTROL.search((tmp_path / "picture.svg").read_text())


def test_a_page_shows_texts_as_they_are():
    part = Section("<b>", (TERMINAL,), ("<b>\u202e",), (("</script><b>",),))
    text = sections_page([part], ["<b>"])
    assert not CONTROL.search(text)
    assert "<b>" not in text


def test_what_a_command_prints_commands_no_terminal(tmp_path, capsys):
    for name in (TERMINAL, "plain"):
        (tmp_path / name).symlink_to(RUN)
    words = [str(tmp_path / name) for name in (TERMINAL, "plain")]
    for command in (["diff", *words], ["report", *words], ["cost", "fma.rn.f32", "--table", words[0]]):
        assert run(command) in (0, 1)
        printed = capsys.readouterr()
        assert not CONTROL.search(printed.out + printed.err)
    assert run(["cost", "fma.rn.f32", "--table", words[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"][0]["table"] == words[0]


def test_an_error_of_usage_commands_no_terminal(capsys):
    assert run(["cost", "fma.rn.f32", "--format", TERMINAL]) == 2
    assert not CONTROL.search(capsys.readouterr().err)

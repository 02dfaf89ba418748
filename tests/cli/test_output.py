import json
import sys

import pytest

from ptxbench.cli.output import print_json, print_table
from ptxbench.report.text_table import IF_SAME, Column, Kind, output_width, render_table


def printed(capsys, monkeypatch, width, *arguments, **options):
    monkeypatch.setattr("ptxbench.report.text_table.width_of", lambda _stream: width)
    print_table(*arguments, **options)
    return capsys.readouterr().out


def test_a_terminal_gets_a_table_that_keeps_every_character(capsys, monkeypatch):
    reason = "[bold] " + " ".join(["abcdefghij"] * 9) + " HFMA2.MMA|HFMA2"
    text = printed(capsys, monkeypatch, 40, ("name", "reason"), [("x", reason)])
    assert max(map(len, text.splitlines())) <= 40
    lines = [line[6:] for line in text.splitlines()[2:]]
    assert " ".join(lines).replace("| ", "|") == reason


def shown(columns, rows, width):
    return render_table(columns, rows, width).splitlines()


NAME, NUMBER, STATUS = Column("name"), Column("pJ", Kind.NUMBER), Column("status", Kind.STATUS)


def test_what_a_status_says_is_a_note_below_once_each():
    rows = [("a" * 20, "1", f"ok: {text}") for text in ("it was hot", "it was cold", "it was hot")]
    assert shown((NAME, NUMBER, STATUS), rows, 36) == [
        "name                  pJ  status",
        "--------------------  --  ------",
        f"{'a' * 20}   1  ok [1]",
        f"{'a' * 20}   1  ok [2]",
        f"{'a' * 20}   1  ok [1]",
        "[1] it was hot",
        "[2] it was cold",
    ]
    assert shown((NAME, NUMBER, STATUS), rows[:1], 60)[-1] == f"{'a' * 20}   1  ok: it was hot"


def test_what_is_the_same_in_every_row_goes_first_and_is_said_below():
    columns = (NAME, Column("per", drop=IF_SAME), Column("board", drop=1), NUMBER)
    rows = [("a" * 16, "thread", "one", "1"), ("b" * 16, "thread", "two", "2")]
    assert shown(columns, rows, 28)[-1] == "in every row: per thread"
    assert "two" in shown(columns, rows, 28)[3]
    unlike = [rows[0], ("b" * 16, "warp", "two", "2")]
    assert " ".join(shown(columns, unlike, 28)[-2:]) == "not shown at 28 columns:   board"
    assert "warp" in shown(columns, unlike, 28)[3]


def test_names_too_long_for_a_column_stand_above_their_rows():
    rows = [("x" * 18, "O0", "123456"), ("x" * 18, "O3", "7"), ("y", "O0", "8")]
    assert shown((NAME, Column("opt"), NUMBER), rows, 20) == [
        *("name", "  opt      pJ", "  ---  ------"),
        *("x" * 18, "  O0   123456", "  O3        7"),
        *("y", "  O0        8"),
    ]


def test_a_row_that_fits_in_no_way_is_a_line_for_each_cell():
    columns = (NAME, Column("B_tau flop/byte", Kind.NUMBER), Column("best", Kind.NUMBER))
    assert shown(columns, [("f32", "12.66 (11.54 to 13.93)", "96.87 (90.33 to 104)")], 44) == [
        "name               f32",
        "  B_tau flop/byte  12.66 (11.54 to 13.93)",
        "  best             96.87 (90.33 to 104)",
    ]


def test_a_narrow_terminal_leaves_out_what_is_optional_and_says_so(capsys, monkeypatch):
    headings = ("name", "long heading", "n")
    text = printed(
        capsys, monkeypatch, 20, headings, [("x" * 30, "y" * 12, "1234567")], ("n",), headings[1:2]
    )
    assert "1234567" in text
    assert " ".join(text.split()).endswith("in every row: long heading yyyyyyyyyyyy")


def test_a_pipe_gets_columns_as_wide_as_they_need(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_table(("name", "n", "reason"), [("x", "7", "y" * 300), ("longer", "123", "")], numbers=("n",))
    assert capsys.readouterr().out.splitlines() == [
        "name      n  reason",
        f"x         7  {'y' * 300}",
        "longer  123",
    ]


def test_json_has_no_nan(capsys):
    print_json({"a": [float("nan"), 1.5, {"b": float("nan"), "c": [float("inf"), 2]}]})
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"a": [None, 1.5, {"b": None, "c": [None, 2]}]}


def test_the_width_is_that_of_the_terminal_and_none_of_a_pipe(monkeypatch):
    monkeypatch.setenv("COLUMNS", "61")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert output_width() == 61
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert output_width() is None

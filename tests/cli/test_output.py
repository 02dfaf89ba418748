import json
import sys

import pytest

from ptxbench.cli.output import print_json, print_table
from ptxbench.report.text_table import output_width


def printed(capsys, monkeypatch, width, *arguments, **options):
    monkeypatch.setattr("ptxbench.report.text_table.output_width", lambda: width)
    print_table(*arguments, **options)
    return capsys.readouterr().out


def test_a_terminal_gets_a_table_that_keeps_every_character(capsys, monkeypatch):
    reason = "[bold]" + "abcdefghij" * 9
    text = printed(capsys, monkeypatch, 40, ("name", "reason"), [("x", reason)])
    assert max(map(len, text.splitlines())) <= 40
    assert "".join(line[6:] for line in text.splitlines()[2:]) == reason


def test_a_narrow_terminal_leaves_out_what_is_optional_and_says_so(capsys, monkeypatch):
    headings = ("name", "long heading", "n")
    text = printed(
        capsys, monkeypatch, 20, headings, [("x" * 30, "y" * 12, "1234567")], ("n",), headings[1:2]
    )
    assert "1234567" in text
    assert text.splitlines()[-1] == "not shown at 20 columns: long heading"


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
    print_json({"a": [float("nan"), 1.5, {"b": float("nan")}]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"a": [None, 1.5, {"b": None}]}


def test_the_width_is_that_of_the_terminal_and_none_of_a_pipe(monkeypatch):
    monkeypatch.setenv("COLUMNS", "61")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert output_width() == 61
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert output_width() is None

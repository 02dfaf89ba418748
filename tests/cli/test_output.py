import json
import sys

import pytest

from ptxbench.cli.output import print_json, print_table


def test_a_terminal_gets_a_table_that_keeps_every_character(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    reason = "[bold]" + "abcdefghij" * 9
    print_table(("name", "reason"), [("x", reason)])
    text = capsys.readouterr().out
    assert (
        "".join(line.split("│")[2].strip() for line in text.splitlines() if "│ x" in line or "│   " in line)
        == reason
    )


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

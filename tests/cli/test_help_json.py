"""`ptxbench --help-json`: the command line as data."""

import json
import re

import click
import pytest

from ptxbench.cli.described import EXIT_CODES, described
from ptxbench.cli.main import group, run


@pytest.fixture(scope="module")
def document():
    return described(group)


@pytest.fixture(scope="module")
def by_name(document):
    return {command["name"]: command for command in document["commands"]}


def test_it_is_printed_as_json(capsys, document):
    assert run(["--help-json"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_every_command_of_the_help_is_there_and_no_former_one(by_name):
    for name in group.list_commands(click.Context(group)):
        assert by_name[f"ptxbench {name}"]["summary"]
    assert {"ptxbench doctor sensor", "ptxbench tune study strategies"} <= by_name.keys()
    assert not {"ptxbench solve", "ptxbench ridge"} & by_name.keys()


def test_types_bounds_choices_and_defaults_are_those_that_count(by_name):
    options = {flag: one for one in by_name["ptxbench table"]["options"] for flag in one["flags"]}
    assert options["--opt-level"]["choices"] == ["O0", "O3"]
    assert options["--budget-minutes"]["type"] == "number"
    assert options["--budget-minutes"]["low"] == 0
    assert (
        options["--lanes"] | {"type": "integer", "low": 1, "high": 32, "multiple": True} == options["--lanes"]
    )
    assert options["--isolate"]["type"] == "flag"
    assert "--help" not in options
    (runs,) = by_name["ptxbench report"]["arguments"]
    assert runs == {"name": "RUN", "required": True, "multiple": True, "type": "path"}


def test_what_has_no_default_shows_none(document):
    for command in document["commands"]:
        for option in command["options"]:
            assert "UNSET" not in str(option)
            if "default" in option and option["type"] in ("integer", "number"):
                assert option.get("low", option["default"]) <= option["default"]


def test_exit_codes_are_those_of_the_help():
    said = " ".join(group.help.split())
    assert {int(code) for code in re.findall(r"(?<=[ ;])(\d+) [a-z]", said)} == set(EXIT_CODES)

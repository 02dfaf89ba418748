"""Every option of every command: one meaning each, and no number that is none."""

import dataclasses
import math
import re
from pathlib import Path

import click
import pytest

from ptxbench.cli.command import OptionsCommand
from ptxbench.cli.main import group, run
from ptxbench.cli.parameters import Number
from ptxbench.core.errors import InputError
from ptxbench.storage.atomic import write_text


def commands(command=group, words=()):
    """Return every command that does something itself, by its words."""
    found = {words: command} if isinstance(command, OptionsCommand) else {}
    if not isinstance(command, click.Group):
        return found
    context = click.Context(command)
    for name in command.list_commands(context):
        found |= commands(command.get_command(context, name), (*words, name))
    return found


ALL = commands()
OPTIONS = [
    (words, option)
    for words, command in ALL.items()
    for option in command.params
    if isinstance(option, click.Option)
]
# Former names are options of other meanings that still work for a release.
SHOWN = [option for _, option in OPTIONS if not option.hidden]
NUMBERS = [
    (words, option.opts[0])
    for words, option in OPTIONS
    if isinstance(option.type, Number | click.types.FloatParamType)
]


def stem(option):
    """What an option does, without its default and what only one command says of it."""
    return re.split(r" \(|: |[,;]|\.$", option.help)[0]


# The letters of two papers: m rows of a matrix (BLAS), bytes divided by m (Choi and Vuduc 2012).
LETTERS = {"--m"}


def test_an_option_means_one_thing_in_every_command():
    for name in {option.opts[0] for option in SHOWN} - LETTERS:
        same = [option for option in SHOWN if option.opts[0] == name]
        assert len({(repr(option.type.to_info_dict()), option.is_flag) for option in same}) == 1, name
        assert len({stem(option) for option in same}) == 1, [option.help for option in same]


def test_no_option_hides_what_the_options_below_it_work_out():
    hidden = [
        (words, name)
        for words, command in ALL.items()
        for base in command.options.__mro__
        for name in vars(base)
        if isinstance(vars(base)[name], property)
        and name in {field.name for field in dataclasses.fields(command.options)}
    ]
    assert hidden == []


def test_every_command_that_prints_data_has_json():
    assert set(ALL) == {words for words, option in OPTIONS if option.opts[0] == "--json"}


def test_every_option_has_a_help_that_is_a_sentence():
    for words, option in OPTIONS:
        assert re.fullmatch(r"[A-Z].*\.", option.help, re.DOTALL), (words, option.opts)


def test_the_walk_meets_the_numbers():
    assert {option for _, option in NUMBERS} >= {
        *("--window", "--budget-minutes", "--precision", "--prune", "--alpha"),
        *("--temperature-c", "--memory-ratio", "--clock-mhz", "--time-s", "--power-limit-w"),
    }


@pytest.mark.hostile
@pytest.mark.parametrize(("words", "option"), NUMBERS)
def test_a_number_that_is_none_or_out_of_bounds_is_one_line(capsys, words, option):
    for value in ("nan", "inf", "-inf", "1e400", "", "1e300", "-1e9"):
        assert run([*words, f"{option}={value}"]) == 2, value
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert f"Invalid value for '{option}'" in captured.err


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trips", "0=nan"], "not a finite number"),
        (["--trips", "0=inf"], "not a finite number"),
        (["--trips", "0=-1"], "'0=-1': -1.0 is not in the range 0<=x"),
        (["--trips", "0=2", "--trips", "1=x"], "'1=x': 'x' is not a number"),
        (["--trips", "0"], "must be LOOP=N"),
        (["--trips", "0=1", "--trips", "0=2"], "0= is given twice"),
        (["--temperature-c", "-1e9"], "-40<=x<=125"),
        (["--grid", "1e300"], "'--grid'"),
    ],
)
def test_bad_numbers_of_an_estimate_are_one_line(capsys, arguments, words):
    assert run(["estimate", "kernel.ptx", "--table", "nowhere", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_a_fraction_is_also_written_in_percent():
    from ptxbench.cli.parameters import Fraction

    assert Fraction().convert("2%", None, None) == 0.02
    assert Fraction().convert("0.02", None, None) == 0.02
    for text in ("nan%", "inf%", "-1%", "%", "101%"):
        with pytest.raises(click.BadParameter):
            Fraction().convert(text, None, None)
    with pytest.raises(click.BadParameter, match="'3' is neither from 0% to 100% nor a fraction from 0 to 1"):
        Fraction().convert("3", None, None)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "words", [words for words, option in OPTIONS if option.opts[0] == "--plot"], ids=" ".join
)
@pytest.mark.parametrize("target", ["/dev/full", "folder", "folder.png", "none/x.png", "full.png", "x.xyz"])
def test_a_picture_goes_to_a_regular_file_only(tmp_path, monkeypatch, capsys, words, target):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder.png").mkdir()
    Path("full.png").symlink_to("/dev/full")
    before = sorted(tmp_path.rglob("*"))
    # What the command reads is not there: the picture is refused before.
    needed = ["nowhere" for parameter in ALL[words].params if isinstance(parameter, click.Argument)]
    assert run([*words, *needed, "--plot", target]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert target in captured.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.hostile
@pytest.mark.parametrize("target", ["/dev/full", __file__])
def test_pictures_go_to_a_folder_only(capsys, target):
    assert run(["meter", "validate", "--meter", "nowhere.csv", "--plots", target]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert f"{target} is not a folder" in captured.err


@pytest.mark.hostile
@pytest.mark.parametrize("target", [Path("/dev/full"), Path("/dev"), Path("/"), Path("/nowhere/x")])
def test_no_file_takes_the_place_of_a_device_or_a_folder(target):
    with pytest.raises(InputError, match=re.escape(str(target))):
        write_text(target, "text")


def test_numbers_know_their_bounds():
    assert math.isclose(Number(0, 1).convert("0.5", None, None), 0.5)
    with pytest.raises(click.BadParameter):
        Number(0, 1, above=True).convert("0", None, None)


@pytest.mark.hostile
def test_a_search_space_that_is_no_text_is_one_line(tmp_path, capsys):
    space = tmp_path / "space.toml"
    space.write_bytes(bytes(range(256)))
    assert (
        run(["tune", "gemm", "--gpu", "simulated", "--space", str(space), "--out", str(tmp_path / "t")]) == 2
    )
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "space.toml" in captured.err


# A word of these is no English that a stranger reads, or means something else there.
_DIALECT = r"\b(gate|sitting|asked|goes on|go on|predict|whoever|anew|in its place|level at|either level)\b"


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_is_plain_english_in_80_columns(words, capsys):
    assert run([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert re.findall(_DIALECT, text, re.IGNORECASE) == []
    assert max(map(len, text.splitlines())) <= 80


def test_the_list_of_commands_says_what_each_command_says(capsys):
    assert run(["--help"]) == 0
    assert re.findall(_DIALECT, capsys.readouterr().out, re.IGNORECASE) == []


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize(
    "words", [["gpus"], ["cost", "--list", "fma"], ["verify", "fma.rn.f32"]], ids=" ".join
)
def test_tables_fit_the_terminal(words, width, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("ptxbench.report.text_table.width_of", lambda _stream: width)
    assert run(words) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= width

"""Commands made from dataclasses of options: the bounds of functions, in the words of the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
import pytest
from click.testing import CliRunner

import ptxbench
from ptxbench.cli.command import command_of
from ptxbench.cli.main import run
from ptxbench.core.errors import ArgumentError
from ptxbench.core.option import Arg, Opt

PTX = Path(__file__).parents[1] / "model" / "kernels" / "elementwise.ptx"
LAUNCH = ["--grid=1056", "--block=256", "--trips=0=4096"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a test.

    Attributes:
        budget: Try so many.
        operands: Operand pattern.
        is_wide: Print more.
    """

    names: Annotated[tuple[str, ...], Arg(metavar="[NAME]...")] = ()
    budget: Annotated[int, Opt(1, 9)] = 5
    operands: Annotated[str | None, Opt(former=("data",))] = None
    is_wide: Annotated[bool, Opt(flag="--wide")] = False


@command_of(Options, "test")
def command(options: Options) -> None:
    """Print the options."""
    if options.budget == 7:
        raise ArgumentError("budget", "is 7, and `is_wide` is not")
    click.echo(repr(options))


def invoke(*words):
    return CliRunner().invoke(command, words)


def test_the_function_receives_the_options_as_one_object():
    assert invoke("a", "b", "--wide").output == f"{Options(names=('a', 'b'), is_wide=True)!r}\n"


def test_the_help_says_each_option_with_default_and_bounds():
    text = invoke("--help").output
    assert "Print the options." in text
    for words in ("[NAME]...", "Try so many.", "default: 5", "1<=x<=9", "--wide"):
        assert words in text
    assert "--data" not in text


def test_a_former_option_is_taken_and_the_present_one_is_said_on_one_line():
    found = invoke("--data", "zeros")
    assert f"{Options(operands='zeros')!r}\n" in found.output
    assert found.stderr == "ptxbench: --data is now called --operands\n"
    assert "give --operands alone" in invoke("--data", "zeros", "--operands", "zeros").output


def test_an_error_about_arguments_speaks_of_options():
    assert str(invoke("--budget", "7").exception) == "--budget is 7, and --wide is not"


# Out of the bounds of one option, that of `estimate` and of `estimate_kernel`.
@pytest.mark.parametrize(
    ("name", "flag", "value"),
    [
        ("time_s", "--time-s", -1.0),
        ("temperature_c", "--temperature-c", 200.0),
        ("memory_ratio", "--memory-ratio", 2.0),
        ("limit_w", "--set-limit-w", 0.5),
        ("operands", "--operands", 1.5),
        ("operands", "--operands", "nonsense"),
        ("clock_mhz", "--clock-mhz", 2500.0),
    ],
)
def test_one_bound_speaks_of_arguments_in_python_and_of_flags_on_the_command_line(capsys, name, flag, value):
    with pytest.raises(ptxbench.InputError, match=f"^{name} must be") as refused:
        ptxbench.estimate_kernel(PTX, table="h200", grid=1056, block=256, trips={0: 4096}, **{name: value})
    assert "--" not in str(refused.value)
    assert run(["estimate", str(PTX), "--table", "h200", *LAUNCH, f"{flag}={value}"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert flag in said
    assert name == "operands" or name not in said


def test_operands_of_an_estimate_have_one_name(capsys):
    told = {}
    for words in (["--operands=0"], ["--activity=0"], ["--operands=zeros"], ["--data=zeros"]):
        assert run(["estimate", str(PTX), "--table", "h200", *LAUNCH, *words, "--json"]) == 0
        told[words[0]] = capsys.readouterr()
    assert told["--activity=0"].out == told["--operands=0"].out
    assert told["--data=zeros"].out == told["--operands=zeros"].out
    assert told["--data=zeros"].err == "ptxbench: --data is now called --operands\n"
    assert told["--operands=zeros"].err == ""

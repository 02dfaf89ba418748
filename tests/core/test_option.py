"""Options said once: what a dataclass says of them holds for functions, in the words of Python."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

import pytest

from ptxbench.core.errors import ArgumentError
from ptxbench.core.option import Arg, Opt, checked, named_options, takes


@dataclass(frozen=True)
class Base:
    """What others share.

    Attributes:
        seed: Seed of the order.
    """

    _: KW_ONLY
    seed: Annotated[int, Opt(0, 9)] = 0


@dataclass(frozen=True)
class Options(Base):
    """Options of a test.

    Attributes:
        share: Share of the whole, of
            all that is there (see --time-s).
        time_s: Time of one launch.
    """

    name: Annotated[str, Arg()] = "a"
    _: KW_ONLY
    share: Annotated[float | None, Opt(0, 1, above=True)] = None
    time_s: Annotated[tuple[float, ...], Opt(1e-9, 1e6)] = ()
    level: Annotated[str, Opt(choices=("O0", "O3"))] = "O3"
    grid: Annotated[int | Sequence[int] | None, Opt(1, 8)] = None
    operands: Annotated[str | float | None, Opt(0, 1, former=("data",))] = None
    trips: Mapping[str, float] | None = None
    out: Path | str | None = None


@takes(Options)
def function(options: Options) -> Options:
    """Return what it was given.

    Raises:
        InputError: A value is out of bounds.
    """
    return options


def test_fields_are_options_in_order_with_type_and_help():
    found = {one.name: one for one in named_options(Options)}
    # Of a shared dataclass the fields come first.
    assert list(found) == ["seed", "name", "share", "time_s", "level", "grid", "operands", "trips", "out"]
    assert found["seed"].help == "Seed of the order."
    assert found["share"].help == "Share of the whole, of all that is there (see --time-s)."
    assert [found[name].type for name in ("share", "time_s", "out")] == [float, float, Path]
    assert [one.name for one in found.values() if one.many] == ["time_s", "trips"]
    assert found["time_s"].flag == "--time-s"


def test_a_function_has_the_fields_as_its_arguments():
    made = function("b", share=0.5, time_s=(1.0,))
    assert made == Options("b", share=0.5, time_s=(1.0,))
    signature = inspect.signature(function)
    assert list(signature.parameters) == ["name", "seed", *list(signature.parameters)[2:]]
    assert signature.parameters["share"].default is None
    with pytest.raises(TypeError, match="nonsense"):
        function(nonsense=1)


def test_its_documentation_names_arguments_in_place_of_flags():
    text = inspect.getdoc(function)
    assert "share: Share of the whole, of all that is there (see time_s)." in text
    assert text.index("Args:") < text.index("Raises:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"share": 0}, "share must be above 0 and up to 1, not 0"),
        ({"share": 2}, "share must be above 0 and up to 1, not 2"),
        ({"share": float("nan")}, "share must be above 0"),
        ({"share": "0.5"}, "share must be a number, not '0.5'"),
        ({"time_s": (1.0, -1.0)}, "time_s must be from 1e-09 to 1e+06, not -1"),
        ({"seed": 10}, "seed must be from 0 to 9, not 10"),
        ({"seed": 1.5}, "seed must be a whole number, not 1.5"),
        ({"level": "O2"}, "level must be one of O0, O3, not 'O2'"),
        ({"grid": 9}, "grid must be from 1 to 8, not 9"),
        ({"operands": 2}, "operands must be from 0 to 1, not 2"),
    ],
)
def test_an_argument_out_of_its_bounds_is_refused_by_name(words, said):
    with pytest.raises(ArgumentError) as refused:
        function(**words)
    assert said in str(refused.value)


@pytest.mark.parametrize("words", [{"operands": "zeros"}, {"operands": 0.5}, {"grid": (4, 4)}, {"share": 1}])
def test_values_within_their_bounds_are_taken(words):
    function(**words)


def test_a_former_name_is_taken_and_the_present_one_is_said():
    with pytest.warns(FutureWarning, match="data is now called operands"):
        assert function(data="zeros").operands == "zeros"
    with pytest.warns(FutureWarning), pytest.raises(ArgumentError, match="give that alone"):
        function(data="zeros", operands="random")


@checked
def summed(
    *values: float, share: Annotated[float, Opt(0, 1, help="Part of the sum.")] = 1.0, name: str = ""
) -> float:
    """Add some.

    Args:
        values: Numbers.

    Returns:
        A part of their sum.
    """
    return share * sum(values)


def test_a_function_of_any_number_of_arguments_checks_those_that_are_annotated():
    assert summed(1, 2, share=0.5) == 1.5
    with pytest.raises(ArgumentError, match="share must be from 0 to 1, not 2"):
        summed(1, share=2)
    with pytest.raises(TypeError, match="shares"):
        summed(1, shares=2)
    assert "values: Numbers.\n    share: Part of the sum.\n\nReturns:" in summed.__doc__
    assert str(inspect.signature(summed)) == ("(*values: float, share: float = 1.0, name: str = '') -> float")

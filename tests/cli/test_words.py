"""What a command was given, as words: they give the same command the same options again."""

import math
from pathlib import Path

import pytest
from cli.test_options import ALL
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxbench.cli.parameters import AxisValues, Fraction, SizeList
from ptxbench.core.condition import ARRAY_PATTERNS, Pattern
from ptxbench.core.option import Arg, named_options, words_of
from ptxbench.core.shared_options import BY_DIMENSION, OF_ARRAYS, PATTERNS
from ptxbench.tune.clocks.axes import Values

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1)
NAME = st.text("abcxyz", min_size=1)
# Types of their own: a value of each.
OF_KIND = {
    SizeList: st.lists(st.integers(16, 16384), min_size=1, unique=True).map(tuple),
    Fraction: st.floats(0, 1),
    AxisValues: st.builds(Values, st.lists(st.integers(1, 100_000), min_size=1).map(tuple))
    | st.builds(Values, st.just(()), st.integers(2, 1000)),
}
# A file that is looked at when the words are read: it must have an ending that can be drawn, and so on.
LOOKED_AT = {"PictureFile": st.just(Path("a b.svg")), "PictureFolder": st.just(Path("-new folder"))}
LOOKED_AT["FormatName"] = st.sampled_from(("csv", "text"))
PAIRS = {
    "LOOP=N": st.dictionaries(st.integers(0, 99).map(str) | st.just("0x1a0"), st.floats(0, 1e18), min_size=1),
    "ADDRESS=P": st.dictionaries(st.just("all") | st.just("0x1b0"), st.floats(0, 1), min_size=1),
    "NAME=N": st.dictionaries(NAME, st.integers(-(10**15), 10**15) | st.floats(0.1, 0.9), min_size=1),
    "UNIT=N": st.dictionaries(NAME, st.floats(0.5, 1e18), min_size=1),
}

OPERANDS = {
    BY_DIMENSION: st.integers(1, 32) | st.lists(st.integers(1, 8), min_size=2, max_size=3).map(tuple),
    OF_ARRAYS: st.sampled_from(ARRAY_PATTERNS).map(str),
    PATTERNS: st.sampled_from(Pattern).map(str),
    "KIND|0..1": st.floats(0, 1) | NAME,
}


def values_of(one):
    """Return values of one option, as the command line may give them."""
    said = one.said
    kind = type(said.kind)
    if kind in OF_KIND:
        return OF_KIND[kind]
    if kind.__name__ in LOOKED_AT:
        return LOOKED_AT[kind.__name__]
    if said.metavar in PAIRS:
        return PAIRS[said.metavar]
    if not isinstance(said, Arg) and said.choices:
        return st.sampled_from(said.choices)
    if said.metavar in OPERANDS:
        return OPERANDS[said.metavar]
    if one.type is bool:
        return st.booleans()
    if one.type is int:
        return st.integers(*bounds(said, 10**6))
    if one.type is float:
        return st.floats(*bounds(said, 1e6), exclude_min=said.above)
    return TEXT.map(Path) if issubclass(one.type, Path) else TEXT


def bounds(said, most):
    return (said.low, said.high) if math.isfinite(said.low) else (-most, most)


def options_of(options):
    """Return objects of a dataclass of options."""
    given_by = {}
    for one in named_options(options):
        value = values_of(one)
        if one.many and one.said.metavar not in PAIRS:
            value = st.lists(value, min_size=1, max_size=3).map(tuple)
        given_by[one.name] = value if one.is_required else st.just(one.default) | value
    return st.builds(options, **given_by)


@pytest.mark.parametrize("command", ALL.values(), ids=[" ".join(words) for words in ALL])
# There are 33 commands.
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data())
def test_the_words_of_options_give_the_same_options(command, data):
    options = data.draw(options_of(command.options))
    assert command.read(words_of(options)) == options


def test_what_is_the_default_needs_no_words():
    assert words_of(ALL[("table",)].options()) == []


def test_arguments_that_look_like_options_stay_arguments():
    table = ALL[("table",)]
    options = table.options(instructions=("--resume", "fma.*"), whole_catalogue=True, opt_levels=("O0", "O3"))
    assert words_of(options) == ["--all", "--opt-level=O0", "--opt-level=O3", "--", "--resume", "fma.*"]
    assert table.read(words_of(options)) == options

"""Expressions of a specification: arithmetic, and nothing that runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.core.errors import InputError
from ptxbench.tune.expression import parse


def value(text, **values):
    return parse(text, "here", values).value(values)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("ceil_div(n, 128)", {"n": 1000}, 8),
        ("a * b <= 1024 and not a % 32", {"a": 64, "b": 4}, 1),
        ("32 <= a < 64", {"a": 64}, 0),
        ("min(a, b) if kind == 'fast' else max(a, b)", {"a": 1, "b": 2, "kind": "fast"}, 1),
        ("2 ** 10 // 3 - 1", {}, 340),
        (7, {}, 7),
        ("log2(n)", {"n": 8}, 3),
    ],
)
def test_arithmetic(text, values, expected):
    assert value(text, **values) == expected


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
def test_ceil_div_is_the_least_that_covers(a, b):
    found = value("ceil_div(a, b)", a=a, b=b)
    assert (found - 1) * b < a <= found * b


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os').system('id')", "may call only"),
        ("(1).__class__", "holds Attribute"),
        ("[x for x in (1,)]", "only arithmetic"),
        ("lambda: 1", "holds Lambda"),
        ("n[0]", "holds Subscript"),
        ("f'{n}'", "only arithmetic"),
        ("(n := 3)", "holds NamedExpr"),
        ("min(n, key=n)", "may call only"),
        ("True", "neither number nor text"),
        ("m + 1", "unknown name m"),
        ("min", "unknown name min"),
        ("n +", "is no expression"),
        ("", "is no expression"),
        ("n +" * 200 + "1", "over 500"),
        ("+".join(["n"] * 240), "parts is over"),
        ("(" * 240 + "n" + ")" * 240, "is no expression"),
        (True, "must be a number or an expression"),
        (None, "must be a number or an expression"),
    ],
)
def test_what_is_no_arithmetic_is_refused_before_it_runs(text, words):
    with pytest.raises(InputError, match="here: ") as refused:
        parse(text, "here", {"n"})
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text",
    ["1 / (n - n)", "9 ** 9 ** 9", "'a' * 9", "n ** 60 ** 1 * n ** 60", "(-8) ** 0.5", "log2(0)", "1e999"],
)
def test_what_has_no_value_is_one_line(text):
    with pytest.raises(InputError, match="has no value"):
        value(text, n=8)

"""Numbers of the locales of the world, and what a file's numbers tell of their decimal sign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import DecimalSign, is_number, parse_number


@pytest.mark.parametrize(
    ("text", "decimal", "value", "unit"),
    [
        ("186,368,000", ".", 186368000, ""),
        ("186.368.000", ",", 186368000, ""),
        ("1,234.5", ".", 1234.5, ""),
        ("1.234,5", ",", 1234.5, ""),
        ("1 234,5", ",", 1234.5, ""),
        ("1\u00a0234,5", ",", 1234.5, ""),
        ("186\u202f368\u202f000", ",", 186368000, ""),
        ("1\u2009234", ".", 1234, ""),
        ("186'368'000.5", ".", 186368000.5, ""),
        ("186\u2019368\u2019000", ".", 186368000, ""),
        ("18,63,68,000", ".", 186368000, ""),
        ("\u22120,5", ",", -0.5, ""),
        ("-.5e-3", ".", -0.0005, ""),
        (" 126.89 W", ".", 126.89, "W"),
        ("126,89 mW", ",", 126.89, "mW"),
        ("12V", ".", 12, "V"),
        ("25 °C", ".", 25, "°C"),
        ("7.", ".", 7, ""),
    ],
)
def test_number_of_each_locale(text, decimal, value, unit):
    assert parse_number(text, decimal) == (value, unit)
    assert is_number(text)


@pytest.mark.parametrize(
    "text", ["", "-", ".", "nan", "inf", "1_000", "0x10", "1,2", "1,23,4", "1,234 567", "1.2.3", "٣", "P0"]
)
def test_what_is_no_number_is_an_error(text):
    with pytest.raises(ValueError, match="is no number"):
        parse_number(text, ".")


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["4,43"], ","),
        (["4.43"], "."),
        (["138.412.032"], ","),
        (["138,412,032"], "."),
        (["1 234,567"], ","),
        (["0,123"], ","),
        (["1234,567"], ","),
        (["1,234e3"], ","),
        (["1,234.567"], "."),
        (["4,430 Gbyte"], None),
        (["1,234", "998"], None),
        (["998", "12"], None),
        (["18:27:36,359", "[N/A]"], None),
    ],
)
def test_decimal_sign_that_numbers_tell(cells, told):
    sign = DecimalSign()
    sign.see("a", cells)
    assert sign.told() == told


def test_sign_that_stands_in_some_numbers_of_a_column_only_is_mixed():
    sign = DecimalSign()
    sign.see("every", ["136.210", "132.842"])
    assert (sign.mixed, sign.unclear) == (set(), {".": "132.842"})
    sign.see("some", ["998"])
    sign.see("some", ["1.012"])
    assert sign.mixed == {"."}


def test_sign_in_whole_numbers_groups_their_digits():
    sign = DecimalSign()
    sign.see("count", ["8.650"], whole=True)
    assert sign.told() == ","


def test_numbers_of_two_locales_are_refused():
    sign = DecimalSign()
    sign.see("a", ["4,43", "4.43"])
    with pytest.raises(InputError, match=r"two locales: '4[,.]43' and '4[,.]43'"):
        sign.told()


@given(
    value=st.decimals(-(10**12), 10**12, places=2, allow_nan=False),
    locale=st.sampled_from([(",", "."), (".", ","), ("\u202f", ","), ("\u2019", "."), ("", ","), (" ", ".")]),
)
def test_what_a_locale_writes_is_read(value, locale):
    group, decimal = locale
    text = f"{value:,.2f}".replace(",", "g").replace(".", decimal).replace("g", group)
    assert parse_number(text, decimal) == (float(value), "")
    sign = DecimalSign()
    sign.see("a", [text])
    assert sign.told() == decimal

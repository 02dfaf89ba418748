"""Numbers as the locales of the world write them: "1,234.5", "1.234,5", "1 234,5" and "1'234.5"."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable

POINT, COMMA = ".", ","
_OTHER = {POINT: COMMA, COMMA: POINT}
# Blanks (plain, no-break, thin, narrow no-break) and apostrophes, which only group digits.
_GROUPS = " \u00a0\u2009\u202f'\u2019"
_SIGN = "[+\\-\u2212]?"
_UNIT = r"(?:[^\W\d_]|[%°/]){0,8}"
# Digits in groups: of three, or in India of two before the last three; one sign between all of them.
_NUMBERS = {
    decimal: re.compile(
        rf"(?P<sign>{_SIGN})"
        rf"(?P<whole>[0-9]{{1,3}}(?P<group>[{_GROUPS}{other}])(?:[0-9]{{2,3}}(?P=group))*[0-9]{{3}}|[0-9]*)"
        rf"(?:\{decimal}(?P<part>[0-9]*))?(?P<power>[eE][+-]?[0-9]+)?\s*(?P<unit>{_UNIT})"
    )
    for decimal, other in _OTHER.items()
}
_UNGROUPED = str.maketrans("", "", _GROUPS + POINT + COMMA)
# A number's shape has 9 for each digit, and z for a zero before the sign.
_DIGITS = str.maketrans("012345678", "9" * 9)
_LEADING_ZERO = re.compile(rf"^({_SIGN})0(?=[.,])", re.MULTILINE)
_SHAPE = re.compile(rf"{_SIGN}(?P<digits>[9z{_GROUPS}.,]*?)(?P<power>[eE][+-]?9+)?\s*{_UNIT}")
# How much of a foreign cell a message shows.
_SHOWN = 40


def parse_number(text: str, decimal: str) -> tuple[float, str]:
    """Return the number that a cell holds, and the unit behind it.

    Args:
        text: Such as "1,234.5", "-0.5e-3" or "126.89 W".
        decimal: Decimal sign, a point or a comma; the other one may group digits.

    Raises:
        ValueError: It is no number; "nan" and "inf" are none.
    """
    found = _NUMBERS[decimal].fullmatch(text.strip())
    if found is None or not (found["whole"] or found["part"]):
        raise ValueError(f"{quoted(text)} is no number")
    sign, whole, _, part, power, unit = found.groups()
    digits = f"{whole.translate(_UNGROUPED)}.{part or 0}{power or ''}"
    return float(digits if sign in ("", "+") else f"-{digits}"), unit


def is_number(text: str) -> bool:
    """Return whether a cell is a number in any locale, with or without a unit."""
    for decimal in _NUMBERS:
        try:
            parse_number(text, decimal)
        except ValueError:
            continue
        return True
    return False


def quoted(cell: str) -> str:
    """Return a foreign cell in quotes for a message, cut where it is long."""
    return repr(printable(cell[:_SHOWN]))


class DecimalSign:
    """What the numbers of a file tell of their decimal sign.

    "4,43" or "1.234.567" tells it. "1,234" alone does not: it may be 1234 or 1.234.

    Attributes:
        unclear: An example of a number whose sign may be either, by that sign.
        mixed: Signs that a column has in some of its numbers only, such as 998 beside "1,012".
    """

    def __init__(self) -> None:
        self.unclear: dict[str, str] = {}
        self.mixed: set[str] = set()
        self._told: dict[str, str] = {}
        self._seen: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def see(self, column: str, cells: Sequence[str], *, whole: bool = False) -> None:
        """Take cells of one column as evidence.

        Args:
            column: Its name.
            cells: Its cells, or some of them.
            whole: Whether they are whole numbers, so that a sign in them groups digits.
        """
        text = _LEADING_ZERO.sub(r"\1z", "\n".join(cells)).translate(_DIGITS)
        shapes = dict(zip(text.split("\n"), cells, strict=False))
        seen = self._seen[column]
        for shape in [one for one in shapes if one not in seen]:
            found = _SHAPE.fullmatch(shape.strip())
            if found is None or not found["digits"]:
                continue
            decimal, unclear = _sign_of(found["digits"], has_power=found["power"] is not None)
            if unclear and whole:
                decimal, unclear = _OTHER[unclear], ""
            if decimal:
                self._told.setdefault(decimal, shapes[shape])
            if unclear:
                self.unclear.setdefault(unclear, shapes[shape])
            seen[shape] = unclear
        signs = set(seen.values())
        if len(signs) > 1:
            self.mixed |= signs - {""}

    def told(self) -> str | None:
        """Return the decimal sign, None where no number tells it.

        Raises:
            InputError: Two numbers contradict each other.
        """
        if len(self._told) > 1:
            raise InputError(f"numbers of two locales: {' and '.join(map(quoted, self._told.values()))}")
        return next(iter(self._told), None)


def _sign_of(digits: str, *, has_power: bool) -> tuple[str, str]:
    """Return the decimal sign that the digits of a number tell, or else the sign that may be either."""
    last = next((c for c in reversed(digits) if c in _OTHER), "")
    if not last:
        return "", ""
    before, _, after = digits.rpartition(last)
    if last in before:
        return _OTHER[last], ""
    grouped = any(c in before for c in _GROUPS + _OTHER[last])
    if grouped or has_power or len(after) != 3 or not 0 < len(before) <= 3 or before == "z":
        return last, ""
    return "", last

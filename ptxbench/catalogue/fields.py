"""One row's table, read with a check of every value: nothing unchecked reaches a template."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any, TypeVar

# What reaches PTX text, or the shell of whoever copies it, is spelled with these characters and no others.
NAME = re.compile(r"[a-z][a-z0-9_.:]*")
OPCODE = re.compile(r"[a-z][A-Za-z0-9_.:]*")
WORD = re.compile(r"[a-z][a-z0-9_]*")
SENTENCE = re.compile(r"[A-Za-z0-9 .,:;=/*+()'<>|!_\[\]-]+")
SASS = re.compile(r"[A-Z][A-Za-z0-9_.]*(\|[A-Z][A-Za-z0-9_.]*)*")
STEP = re.compile(r"(cvt|mov|selp|pack|abs|neg|not)(\.[a-z0-9]+)+")
VERSION = re.compile(r"[6-9]\.[0-9]")
PARAMETER = re.compile(r"[A-Za-z0-9_.:]*")

ROLES = ("x", "w", "y", "z", "v", "u", "a", "b", "c", "d", "m", "n")
PREDICATES = ("p", "never", "divergent")
_OPERAND = re.compile(r"([xwyzvabcd]|[xwyz]\|[xwyz]|p|never|divergent|0[fFdDxX][0-9A-Fa-f]{1,16})")

_Value = TypeVar("_Value")


class Fields:
    """A table whose values are checked as they are read; ValueError says what is wrong.

    Args:
        table: As TOML gives it.
        required: Keys that must be there.
        optional: Keys that may be there.
    """

    def __init__(self, table: dict[str, Any], required: Collection[str], optional: Collection[str]) -> None:
        missing = sorted(set(required) - set(table))
        unknown = sorted(set(table) - set(required) - set(optional))
        if missing:
            raise ValueError(f"missing fields {missing}")
        if unknown:
            raise ValueError(f"unknown fields {unknown}")
        self._table = table

    def has(self, key: str) -> bool:
        """Return whether the table has a key."""
        return key in self._table

    def get(self, key: str) -> object:
        """Return a value as it stands, None where there is none."""
        return self._table.get(key)

    def text(self, key: str, pattern: re.Pattern[str], default: str = "") -> str:
        """Return a text of a form; the default is not checked."""
        return checked_text(self._table[key], pattern, key) if key in self._table else default

    def choice(self, key: str, options: Collection[str], default: str = "") -> str:
        """Return a text out of a few; the default is not checked."""
        return checked_choice(self._table[key], options, key) if key in self._table else default

    def whole(self, key: str, low: int, high: int, default: int) -> int:
        """Return a whole number within bounds."""
        return checked_whole(self._table[key], low, high, key) if key in self._table else default

    def table(
        self, key: str, keys: Collection[str], check: Callable[[object, str], _Value]
    ) -> tuple[tuple[str, _Value], ...]:
        """Return a table's pairs, its keys out of a few and its values checked."""
        value = self._table.get(key, {})
        if not isinstance(value, dict) or not set(value) <= set(keys):
            raise ValueError(f"{key} must be a table of {', '.join(keys)}")
        return tuple((name, check(item, f"{key}.{name}")) for name, item in value.items())

    def words(self, key: str, options: Collection[str]) -> tuple[str, ...]:
        """Return a list of words out of a few."""
        value = self._table.get(key, [])
        if not isinstance(value, list):
            raise ValueError(f"{key} {value!r} must be a list")  # noqa: TRY004 (one kind of complaint)
        return tuple(checked_choice(item, options, key) for item in value)

    def operands(self, key: str) -> tuple[str, ...]:
        """Return operand tokens; a whole number is a constant."""
        value = self._table.get(key, [])
        if not isinstance(value, list) or not all(_is_operand(token) for token in value):
            roles = "x, w, y, z, v, a, b, c, d, p, never, divergent, role|role and constants"
            raise ValueError(f"{key} {value!r} must be a list of {roles}")
        return tuple(str(token) for token in value)

    def parameters(self, key: str) -> tuple[tuple[str, int | str], ...]:
        """Return a family's own parameters: words and whole numbers by name."""
        value = self._table.get(key, {})
        if not isinstance(value, dict):
            raise ValueError(f"{key} must be a table")  # noqa: TRY004 (one kind of complaint)
        return tuple(
            (checked_text(name, WORD, key), _checked_parameter(item, f"{key}.{name}"))
            for name, item in value.items()
        )


def checked_text(value: object, pattern: re.Pattern[str], where: str) -> str:
    """Return a text of a form, or raise ValueError."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{where} {value!r} is not of the form {pattern.pattern}")
    return value


def checked_choice(value: object, options: Collection[str], where: str) -> str:
    """Return a text out of a few, or raise ValueError."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{where} {value!r} is none of {', '.join(options)}")
    return value


def checked_whole(value: object, low: int, high: int, where: str) -> int:
    """Return a whole number within bounds, or raise ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{where} {value!r} must be a whole number from {low} to {high}")
    return value


def checked_count(value: object, where: str) -> float:
    """Return a number above 0, or raise ValueError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError(f"{where} {value!r} must be a number above 0")
    return float(value)


def _is_operand(token: object) -> bool:
    if isinstance(token, int) and not isinstance(token, bool):
        return -(1 << 63) <= token < 1 << 64
    return isinstance(token, str) and _OPERAND.fullmatch(token) is not None


def _checked_parameter(value: object, where: str) -> int | str:
    if isinstance(value, str):
        return checked_text(value, PARAMETER, where)
    return checked_whole(value, -(1 << 63), (1 << 64) - 1, where)

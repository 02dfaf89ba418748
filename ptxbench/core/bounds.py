"""Arguments of a user, checked where they come in: a bad one is an ArgumentError that names it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any, TypeVar

from ptxbench.core.errors import ArgumentError, InputError

Choice = TypeVar("Choice", bound=str)


def within(name: str, value: float, low: float, high: float, *, above: bool = False) -> float:
    """Return a number that is finite and within its range.

    Args:
        name: Name of the argument, for the message.
        value: What was given.
        low: Least value that is allowed.
        high: Greatest value that is allowed.
        above: Whether it must be greater than `low`.

    Raises:
        ArgumentError: It is no number, not finite, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentError(name, f"must be a number, not {value!r}")
    number = float(value)
    if not (math.isfinite(number) and low <= number <= high) or (above and number == low):
        least = f"above {low:g} and up to" if above else f"from {low:g} to"
        raise ArgumentError(name, f"must be {least} {high:g}, not {number:g}")
    return number


def positive(name: str, value: float) -> float:
    """Return a number that is finite and above 0.

    Raises:
        InputError: It is not.
    """
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} is {value}; it must be a positive, finite number")
    return value


def whole_within(name: str, value: int, low: int, high: int) -> int:
    """Return a whole number within its range.

    Raises:
        ArgumentError: It is no whole number, or out of range.
    """
    if within(name, value, low, high) != int(value):
        raise ArgumentError(name, f"must be a whole number, not {value!r}")
    return int(value)


def listed(name: str, given: Any, of: str) -> list[Any]:
    """Return the items of a list, a tuple or the like; a text is none.

    Args:
        name: Name of the argument, for the message.
        given: What was given.
        of: What it holds, for the message.

    Raises:
        ArgumentError: It is no list.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ArgumentError(name, f"must be a list of {of}, not {given!r}")
    return list(given)


def require_callable(name: str, given: object) -> None:
    """Refuse what cannot be called; None is left out.

    Raises:
        ArgumentError: It cannot be called.
    """
    if given is not None and not callable(given):
        raise ArgumentError(name, f"must be a function, not {given!r}")


def one_of(name: str, value: str, choices: Iterable[Choice]) -> Choice:
    """Return the one of some words, such as the members of an enumeration, that equals `value`.

    Raises:
        ArgumentError: None does.
    """
    known = tuple(choices)
    for choice in known:
        if choice == value:
            return choice
    raise ArgumentError(name, f"must be one of {', '.join(known)}, not {value!r}")

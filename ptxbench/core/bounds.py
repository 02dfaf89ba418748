"""Arguments of a user, checked where they come in: a bad one is an InputError that names it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import TypeVar

from ptxbench.core.errors import InputError

Choice = TypeVar("Choice", bound=str)


def within(name: str, value: float, low: float, high: float) -> float:
    """Return a number that is finite and within its range.

    Args:
        name: Name of the argument, for the message.
        value: What was given.
        low: Least value that is allowed.
        high: Greatest value that is allowed.

    Raises:
        InputError: It is no number, not finite, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number, not {value!r}")
    number = float(value)
    if not (math.isfinite(number) and low <= number <= high):
        raise InputError(f"{name} must be from {low:g} to {high:g}, not {number:g}")
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
        InputError: It is no whole number, or out of range.
    """
    if within(name, value, low, high) != int(value):
        raise InputError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def one_of(name: str, value: str, choices: Iterable[Choice]) -> Choice:
    """Return the one of some words, such as the members of an enumeration, that equals `value`.

    Raises:
        InputError: None does.
    """
    known = tuple(choices)
    for choice in known:
        if choice == value:
            return choice
    raise InputError(f"{name} must be one of {', '.join(known)}, not {value!r}")

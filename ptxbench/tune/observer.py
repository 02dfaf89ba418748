"""A user's own readings around the launches whose power is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from ptxbench.core.errors import InputError


class Observer(Protocol):
    """Something that looks on while a variant runs, such as at a meter or a counter of the user's own."""

    def before(self) -> object:
        """Begin: the launches follow."""
        ...

    def after(self) -> Mapping[str, float]:
        """End; return what was seen by name. The launches are over."""
        ...


def checked(seen: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return what an observer saw, as a trial keeps it.

    Raises:
        InputError: It is no mapping of names to numbers.
    """
    try:
        found = tuple((str(name), float(value)) for name, value in seen.items())
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"an observer's `after` must return numbers by name, not {type(seen).__name__}: {error}"
        ) from error
    for name, value in found:
        if not name.isidentifier() or math.isinf(value):
            raise InputError(f"an observer's `after` must give finite numbers by name, not {name!r}: {value}")
    return found

"""For which rows N copies of an instruction are checked against 2N."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.starters import STARTERS
from ptxbench.storage.manifest import RunArguments


class Linearity(StrEnum):
    """For which rows N copies are checked against 2N."""

    ALL = "all"
    SAMPLE = "sample"
    NONE = "none"


def checked_for_linearity(arguments: RunArguments) -> frozenset[str]:
    """Return the names of the instructions of which N copies are checked against 2N."""
    linearity = Linearity(arguments.linearity)
    if linearity is Linearity.NONE:
        return frozenset()
    return _representatives() if linearity is Linearity.SAMPLE else frozenset(arguments.instructions)


@cache
def _representatives() -> frozenset[str]:
    """Return one row of every template: a starter, or else the catalogue's first; the loop is the template's.

    Whatever else a run measures, these are the rows that it checks.
    """
    rows = sorted(load_catalogue(), key=lambda row: row.name not in STARTERS)
    first: dict[str, str] = {}
    for row in rows:
        if not row.refused:
            first.setdefault(row.family, row.name)
    return frozenset(first.values())

"""`ptxbench cost --list`: what the catalogue holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ptxbench.cli.output import print_table
from ptxbench.core.condition import OptLevel
from ptxbench.core.shared_options import OPT_LEVELS

if TYPE_CHECKING:
    from ptxbench.catalogue.model import Expectation, Instruction

_SASS_COLUMNS = 40


def print_instructions(rows: Sequence[Instruction]) -> None:
    """Print instructions, and the SASS that each becomes."""
    print_table(
        ("instruction", "category", "type", "for each", *(f"SASS at -{level}" for level in OPT_LEVELS)),
        [(row.name, row.category, row.type, row.unit, *_sass(row)) for row in rows],
        optional=("category", "for each", "type"),
    )


def _sass(row: Instruction) -> tuple[str, ...]:
    """Return the SASS columns; what cannot be measured says so, and `show` says why."""
    if row.refused:
        return tuple("refused" for _ in OPT_LEVELS)
    return tuple(_short(row.expected(OptLevel(level))) for level in OPT_LEVELS)


def _short(expected: Expectation) -> str:
    """Return a SASS column that leaves space for the others; `show` and --json have all of it."""
    if len(expected.text) <= _SASS_COLUMNS:
        return expected.text
    total = sum(count for _, count in expected.counts)
    return f"{total:g} of {len(expected.counts)} kinds"

"""Rows that missed their precision by far."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ptxbench.core.status import Status
from ptxbench.storage.schema import TableRow


@dataclass(frozen=True)
class PrecisionLimit:
    """When a row is `imprecise`."""

    ci95: float = 0.1
    """Relative half-width from which on a row says no more than rows like it do: half of the rows of one SASS
    opcode lie within 7 to 8% of their median (docs/accuracy.md).
    """


PRECISION = PrecisionLimit()
_SAID = re.compile(r"^known to ± \d+% only(; )?")


def judged(rows: Iterable[TableRow], requested: float = 0.0) -> tuple[TableRow, ...]:
    """Return rows; those that missed their precision by far have the status `imprecise`, and keep the number.

    Args:
        rows: Rows of any status.
        requested: Relative half-width that was requested; one above `PRECISION` takes its place.
    """
    limit = max(PRECISION.ci95, requested)
    return tuple(_judged(row, limit) for row in rows)


def _judged(row: TableRow, limit: float) -> TableRow:
    # An interval that is not known says nothing.
    if row.status is not Status.OK or not row.ci95_pj > limit * abs(row.energy_pj):
        return row
    reason = f"known to ± {row.ci95_pj / abs(row.energy_pj):.0%} only"
    return replace(row, status=Status.IMPRECISE, reason="; ".join(filter(None, (reason, row.reason))))


def without_precision(reason: str) -> str:
    """Return the reason of a row without what `judged` says of its interval, which another one has not."""
    return _SAID.sub("", reason)

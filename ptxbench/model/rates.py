"""Dynamic energy per byte that an instruction moves, and per floating-point operation that it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.catalogue.load import load_named
from ptxbench.core.condition import DYNAMIC
from ptxbench.storage.schema import TableRow

_BITS = 8


@dataclass(frozen=True)
class Rate:
    """What one row's energy is for one byte or operation; NaN where the catalogue gives it none.

    Attributes:
        pj_per_byte: Energy of one byte moved, pJ.
        pj_per_bit: The same of one bit.
        pj_per_flop: Energy of one floating-point operation, pJ.
    """

    pj_per_byte: float
    pj_per_bit: float
    pj_per_flop: float

    @property
    def known(self) -> bool:
        """Whether there is any."""
        return not (math.isnan(self.pj_per_byte) and math.isnan(self.pj_per_flop))


def rates(rows: Sequence[TableRow]) -> tuple[Rate, ...]:
    """Return the rate of every row, in order; only valid dynamic energies have one.

    Bytes and operations are those of one execution by the row's unit, as its energy is.

    Args:
        rows: A run's rows.
    """
    catalogue = load_named(frozenset(row.instruction for row in rows))
    return tuple(
        _rate(row.dynamic_pj, catalogue[row.instruction].bytes, catalogue[row.instruction].flops)
        # A run may be older than the catalogue.
        if row.instruction in catalogue and row.protocol == DYNAMIC and row.status.has_number
        else Rate(math.nan, math.nan, math.nan)
        for row in rows
    )


def _rate(energy_pj: float, size_bytes: int, flops: int) -> Rate:
    per_byte = energy_pj / size_bytes if size_bytes else math.nan
    return Rate(per_byte, per_byte / _BITS, energy_pj / flops if flops else math.nan)

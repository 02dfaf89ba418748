"""Turn the cells of a column into numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ptxbench.core.numbers import COMMA, POINT, parse_number
from ptxbench.meter.readers.text import is_absent
from ptxbench.meter.readers.units import Quantity, unit_of
from ptxbench.sensors.trace import Float64s

_PLAIN = "0123456789+-.eE \n"


def numbers(
    cells: Sequence[str], decimal: str, factor: float = 1.0, quantity: Quantity | None = None
) -> Float64s:
    """Return the numbers of cells in the SI unit, NaN where one holds none, shape (n,).

    Args:
        cells: The cells.
        decimal: Their decimal sign.
        factor: Factor to the SI unit of cells that name no unit.
        quantity: What the unit must be of that stands behind a number; None where none may stand there.
    """
    text = "\n".join(cells)
    # A sign that groups digits is left to the parser.
    is_plain = decimal == POINT or POINT not in text
    if decimal == COMMA:
        text = text.replace(COMMA, POINT)
    if cells and is_plain and not text.strip(_PLAIN):
        try:
            return np.fromiter(map(float, text.split("\n")), np.float64, len(cells)) * factor
        except ValueError:
            pass
    return np.array([_number(cell, decimal, factor, quantity) for cell in cells], dtype=np.float64)


def are_absent(cells: Sequence[str], values: Float64s) -> npt.NDArray[np.bool_]:
    """Return which of the cells that gave no number say that there is no value, shape (n,)."""
    found = np.isnan(values)
    found[found] = [is_absent(cells[i]) for i in np.flatnonzero(found).tolist()]
    return found


def _number(cell: str, decimal: str, factor: float, quantity: Quantity | None) -> float:
    try:
        value, name = parse_number(cell, decimal)
    except ValueError:
        return np.nan
    if not name:
        return value * factor
    unit = unit_of(name)
    return value * unit.factor if unit is not None and unit.quantity is quantity else np.nan

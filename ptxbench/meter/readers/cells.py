"""What stands in a cell: units as meters and instruments write them, and numbers in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ptxbench.core.numbers import COMMA, POINT, parse_number
from ptxbench.sensors.trace import Float64s


class Quantity(StrEnum):
    """What a column holds."""

    TIME = "time"
    VOLTAGE = "voltage"
    CURRENT = "current"
    POWER = "power"
    ENERGY = "energy"
    RESISTANCE = "resistance"


@dataclass(frozen=True)
class Unit:
    """A unit.

    Attributes:
        quantity: Of what.
        factor: Factor to the SI unit.
    """

    quantity: Quantity
    factor: float


_BASES = {
    Quantity.TIME: ("s", "sec", "secs", "second", "seconds"),
    Quantity.VOLTAGE: ("v", "volt", "volts"),
    Quantity.CURRENT: ("a", "amp", "amps", "ampere", "amperes"),
    Quantity.POWER: ("w", "watt", "watts"),
    Quantity.ENERGY: ("j", "joule", "joules"),
    Quantity.RESISTANCE: ("ohm", "ohms", "ω"),
}
_PREFIXES = {
    "": 1.0,
    "k": 1e3,
    "kilo": 1e3,
    "m": 1e-3,
    "milli": 1e-3,
    "u": 1e-6,
    "µ": 1e-6,
    "μ": 1e-6,
    "micro": 1e-6,
    "n": 1e-9,
    "nano": 1e-9,
}
_UNITS = {
    prefix + base: Unit(quantity, factor)
    for quantity, bases in _BASES.items()
    for base in bases
    for prefix, factor in _PREFIXES.items()
} | {"us": Unit(Quantity.TIME, 1e-6), "hms": Unit(Quantity.TIME, 1.0)}
_ABSENT = {"", "-", "--", "nan", "n/a", "na", "none", "null", "unavailable", "unknown"}
_PLAIN = "0123456789+-.eE \n"
# "Voltage (V)", "CH1 in V" (R&S), "slot_v" and "Current mA"; "Channel A" names no unit.
_TAILS = (
    re.compile(r"[\[(]\s*([^\[\]()]*?)\s*[\])]\s*$"),
    re.compile(r"\bin ([a-zµμω]+)$", re.IGNORECASE),
    re.compile(r"_([a-zµμ]+)$", re.IGNORECASE),
    re.compile(r" ([mkuµμn][a-z]{1,7})$", re.IGNORECASE),
)


def unit_of(text: str) -> Unit | None:
    """Return the unit that `text` names, such as "mW" or "(ms)", None where it is none.

    Upper-case M is read as m: no meter of a GPU logs megawatts.
    """
    return _UNITS.get(text.strip().strip("()[]").lower())


def split_unit(name: str) -> tuple[str, Unit | None]:
    """Split a column name such as "slot_v", "Voltage (V)" or "power.draw [mW]" into name and unit."""
    for tail in _TAILS:
        found = tail.search(name)
        unit = unit_of(found[1]) if found is not None else None
        if found is not None and unit is not None:
            return name[: found.start()].strip(), unit
    return name.strip(), None


def is_absent(cell: str) -> bool:
    """Return whether a cell says that there is no value; nvidia-smi says why in brackets, "[GPU is lost]"."""
    return cell.lower() in _ABSENT or (cell.startswith("[") and cell.endswith("]"))


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

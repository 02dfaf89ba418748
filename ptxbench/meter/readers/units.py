"""Units as the headers of meters and instruments write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


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

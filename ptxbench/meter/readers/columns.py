"""Tell from its header what each column of a meter's file is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.meter.readers.units import Quantity, Unit, split_unit, unit_of

_TIME_NAMES = re.compile(
    r"(t|time|times?tamp|timestamps?|date ?time|x-?axis|seconds?|elapsed.*|time .*)", re.IGNORECASE
)
_TOTAL_NAMES = re.compile(r"(|total|sum|power|board|gpu|p|sigma|Σ)", re.IGNORECASE)
_POWER_WORD = re.compile(r"(power|watts?|p)", re.IGNORECASE)
_CURRENT_WORD = re.compile(r"(current|amperes?|amps?|curr|a|i(rms|dc)?)", re.IGNORECASE)
_VOLTAGE_WORD = re.compile(r"(voltage|volts?|v|u(rms|dc)?)", re.IGNORECASE)
_SENSE = re.compile(r"(.*?)[ _.-]?(vs|vg)(\d*)", re.IGNORECASE)
_WORDS = {
    Quantity.VOLTAGE: _VOLTAGE_WORD,
    Quantity.CURRENT: _CURRENT_WORD,
    Quantity.POWER: _POWER_WORD,
}


@dataclass(frozen=True)
class Channel:
    """One column, or a constant, and the factor to its SI unit.

    Attributes:
        column: Column name; None for a constant.
        factor: Factor to V, A, W or ohm; the value itself for a constant.
    """

    column: str | None
    factor: float = 1.0


@dataclass(frozen=True)
class Rail:
    """How the power of one rail is made: watts, or volts and amperes, or the two sides of a shunt.

    Attributes:
        name: Rail.
        watts: Power, where the meter logs it.
        volts: Voltage at the GPU; the V_g of a shunt.
        amperes: Current, from a clamp or a sensor.
        source_volts: V_s, the supply's side of a shunt.
        shunt_ohm: R_s.
    """

    name: str
    watts: Channel | None = None
    volts: Channel | None = None
    amperes: Channel | None = None
    source_volts: Channel | None = None
    shunt_ohm: Channel | None = None

    @property
    def is_whole(self) -> bool:
        """Whether a power can be made of it."""
        shunt = self.source_volts is not None and self.shunt_ohm is not None
        return self.watts is not None or (self.volts is not None and (self.amperes is not None or shunt))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it needs."""
        channels = (self.watts, self.volts, self.amperes, self.source_volts, self.shunt_ohm)
        return tuple(c.column for c in channels if c is not None and c.column is not None)


@dataclass
class _Parts:
    watts: Channel | None = None
    volts: Channel | None = None
    amperes: Channel | None = None
    source_volts: Channel | None = None
    shunt_ohm: Channel | None = None


def time_column(names: Sequence[str], units: Sequence[str]) -> tuple[str, Unit | None] | None:
    """Return the column of time with its unit, None where no header says it."""
    for position, name in enumerate(names):
        bare, unit = _named_unit(name, units, position)
        if unit is not None and unit.quantity is not Quantity.TIME:
            continue
        if _TIME_NAMES.fullmatch(bare) or (unit is not None and position == 0):
            return name, unit if unit is not None else unit_of(bare)
    return None


def find_rails(names: Sequence[str], units: Sequence[str]) -> tuple[Rail, ...]:
    """Return the rails that the headers describe; empty where they describe none.

    Volts and amperes of one rail are found by what is left of their names without the
    word or letter of the quantity: "slot_v" and "slot_a", "PCIE1 Voltage" and "PCIE1
    Current", "U-1" and "I-1". Power columns count only where no rail has both.
    """
    parts: dict[str, _Parts] = {}
    for position, name in enumerate(names):
        bare, unit = _named_unit(name, units, position)
        _place(parts, name, bare, unit)
    rails = [
        Rail(key or "board", p.watts, p.volts, p.amperes, p.source_volts, p.shunt_ohm)
        for key, p in parts.items()
    ]
    measured = [Rail(r.name, None, r.volts, r.amperes, r.source_volts, r.shunt_ohm) for r in rails]
    whole = tuple(rail for rail in measured if rail.is_whole)
    return whole or _power_rails(rails) or _only_pair(rails)


def half_rails(names: Sequence[str], units: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of volts or amperes, for a message about what is missing."""
    kinds = (Quantity.VOLTAGE, Quantity.CURRENT)
    quantities = ((name, _quantity(*_named_unit(name, units, i))) for i, name in enumerate(names))
    return tuple(name for name, quantity in quantities if quantity in kinds)


def _named_unit(name: str, units: Sequence[str], position: int) -> tuple[str, Unit | None]:
    bare, unit = split_unit(name)
    if unit is None and position < len(units):
        unit = unit_of(units[position])
    return bare, unit


def _quantity(bare: str, unit: Unit | None) -> Quantity | None:
    if unit is not None:
        return unit.quantity
    return next((quantity for quantity, word in _WORDS.items() if _has_word(bare, word)), None)


def _has_word(bare: str, word: re.Pattern[str]) -> bool:
    return any(word.fullmatch(token) for token in _tokens(bare))


def _tokens(bare: str) -> list[str]:
    return [token for token in re.split(r"[ _.\-]+|(?<=[A-Za-z])(?=\d)", bare) if token]


def _place(parts: dict[str, _Parts], name: str, bare: str, unit: Unit | None) -> None:
    factor = unit.factor if unit is not None else 1.0
    sense = _SENSE.fullmatch(bare)
    if sense is not None and (unit is None or unit.quantity is Quantity.VOLTAGE):
        part = parts.setdefault((sense[1] + sense[3]).lower(), _Parts())
        if sense[2].lower() == "vs":
            part.source_volts = Channel(name, factor)
        else:
            part.volts = Channel(name, factor)
        return
    quantity = _quantity(bare, unit)
    key = _rail_key(bare)
    if quantity is Quantity.RESISTANCE:
        parts.setdefault(re.sub(r"[ _.-]?rs?$", "", key), _Parts()).shunt_ohm = Channel(name, factor)
    elif quantity is Quantity.POWER:
        parts.setdefault(key, _Parts()).watts = Channel(name, factor)
    elif quantity is Quantity.VOLTAGE:
        parts.setdefault(key, _Parts()).volts = Channel(name, factor)
    elif quantity is Quantity.CURRENT:
        parts.setdefault(key, _Parts()).amperes = Channel(name, factor)


def _rail_key(bare: str) -> str:
    kept = [t for t in _tokens(bare) if not any(word.fullmatch(t) for word in _WORDS.values())]
    return re.sub(r"(?<=[a-z]) (?=\d)", "", " ".join(kept).lower())


def _only_pair(rails: Sequence[Rail]) -> tuple[Rail, ...]:
    """Return one rail of the only voltage and the only current, whatever they are called."""
    volts = [rail.volts for rail in rails if rail.volts is not None]
    amperes = [rail.amperes for rail in rails if rail.amperes is not None]
    if len(volts) == len(amperes) == 1:
        return (Rail("board", volts=volts[0], amperes=amperes[0]),)
    return ()


def _power_rails(rails: Sequence[Rail]) -> tuple[Rail, ...]:
    """Return the total where one is named, or else every power column."""
    powers = [rail for rail in rails if rail.watts is not None]
    totals = [rail for rail in powers if _TOTAL_NAMES.fullmatch(rail.name)]
    total = next((rail for rail in totals if rail.name in {"total", "sum", "sigma", "Σ"}), None)
    if total is not None:
        return (total,)
    return tuple(totals[:1] if totals and len(powers) > 1 else powers)

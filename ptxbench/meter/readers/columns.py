"""Tell from its header what each column of a meter's file is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ptxbench.core.errors import InputError
from ptxbench.meter.readers.cells import Quantity, Unit, split_unit, unit_of
from ptxbench.meter.readers.mapping import Channel, Rail
from ptxbench.meter.readers.names import PATTERNS
from ptxbench.meter.readers.text import TextTable, is_stamp

_OF_DAY = re.compile(r"\d{1,2}:\d\d", re.ASCII)
_ROLES: dict[Quantity | None, str] = {
    Quantity.VOLTAGE: "volts",
    Quantity.CURRENT: "amperes",
    Quantity.POWER: "watts",
    Quantity.RESISTANCE: "shunt_ohm",
}
_WORDS = {quantity: PATTERNS[role] for quantity, role in _ROLES.items() if role in PATTERNS}
# Between words, before a number, and within "VAvg" and "PowerTotal".
_BETWEEN = re.compile(r"[ _.\-]+|(?<=[A-Za-z])(?=\d)|(?<=^[VIUPW])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z][a-z])")
# The PMD-USB's own labels: what feeds the CPU, where it is wired as labelled.
_CPU_RAILS = {"eps1", "eps2"}
_PMD_RAILS = {"pcie1", "pcie2"}
_CHOOSE = "choose the rails in a mapping (`mapping`)"


@dataclass(frozen=True)
class TimeColumns:
    """Where the times of the rows stand.

    Attributes:
        time: Column of the time, or of the time of day.
        unit: Unit that its header names.
        date: Column of the date, where it is apart.
        milliseconds: Column of the milliseconds, where they are apart.
    """

    time: str
    unit: Unit | None = None
    date: str | None = None
    milliseconds: str | None = None


def time_columns(table: TextTable, name: str | None = None) -> TimeColumns | None:
    """Return the columns of time, None where neither a header nor the cells say it.

    Args:
        table: The table.
        name: Column of the time, where a mapping says it.
    """
    found = _time_column(table) if name is None else (name, _unit_of(table, name))
    if found is None:
        return None
    name, unit = found
    cells = table.samples(name)
    if not cells or not is_stamp(cells[0]):
        return TimeColumns(name, unit)
    milliseconds = next((one for one in table.names if PATTERNS["milliseconds"].fullmatch(one)), None)
    dates = (one for one in table.names if PATTERNS["date"].fullmatch(one))
    date = next(dates, None) if _OF_DAY.match(cells[0]) else None
    return TimeColumns(name, unit, date, milliseconds)


def _time_column(table: TextTable) -> tuple[str, Unit | None] | None:
    stamped = []
    for position, name in enumerate(table.names):
        bare, unit = named_unit(name, table.units, position)
        if unit is not None and unit.quantity is not Quantity.TIME:
            continue
        if PATTERNS["time"].fullmatch(bare) or (unit is not None and position == 0):
            return name, unit if unit is not None else unit_of(bare)
        if any(map(is_stamp, table.samples(name)[:1])):
            stamped.append(name)
    # No other column is a time, whatever the language of its name.
    return (stamped[0], None) if len(stamped) == 1 else None


def _unit_of(table: TextTable, name: str) -> Unit | None:
    bare, unit = named_unit(name, table.units, table.names.index(name) if name in table.names else -1)
    return unit if unit is not None else unit_of(bare)


def find_rails(names: Sequence[str], units: Sequence[str]) -> tuple[tuple[Rail, ...], tuple[str, ...]]:
    """Return the rails that the headers describe, none where they describe none, and notes.

    Volts and amperes of one rail are found by what is left of their names without the
    word or letter of the quantity: "slot_v" and "slot_a", "PCIE1 Voltage" and "PCIE1
    Current", "U-1" and "I-1". Power columns of no such rail count only where there is none.

    Raises:
        InputError: The columns are of several GPUs, or of devices that make no sum.
    """
    found: dict[str, dict[str, Channel]] = {}
    for position, name in enumerate(names):
        bare, unit = named_unit(name, units, position)
        _place(found, name, bare, unit)
    rails = [Rail(key or "board", **channels) for key, channels in found.items()]
    measured = [rail for rail in rails if rail.is_measured]
    if any(map(PATTERNS["power_factor"].fullmatch, names)) and any(rail.watts is None for rail in measured):
        raise InputError("a power factor, but no power: volts times amperes are not watts; log the power")
    if not measured:
        powers, notes = _of_one_gpu([rail for rail in rails if rail.watts is not None])
        return _power_rails(powers) or _only_pair(rails), notes
    kept, notes = _of_one_gpu(measured)
    logged = ", ".join(rail.name for rail in kept if rail.watts is not None)
    if logged:
        notes += (f"rail {logged}: the logged power is taken, not volts times amperes",)
    return tuple(kept), notes


def half_rails(names: Sequence[str], units: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of volts or amperes, for a message about what is missing."""
    kinds = (Quantity.VOLTAGE, Quantity.CURRENT)
    quantities = ((name, _quantity(*named_unit(name, units, i))) for i, name in enumerate(names))
    return tuple(name for name, quantity in quantities if quantity in kinds)


def _of_one_gpu(rails: Sequence[Rail]) -> tuple[list[Rail], tuple[str, ...]]:
    """Leave out the rails that their names give to other devices than the GPU."""
    names = {rail.name for rail in rails}
    if names & _CPU_RAILS and names & _PMD_RAILS:
        note = "the rails eps1 and eps2 are labelled as the CPU's and left out; a mapping can add them"
        return [rail for rail in rails if rail.name not in _CPU_RAILS], (note,)
    boards = {rail.name: found[1] for rail in rails for found in [PATTERNS["gpu"].search(rail.name)] if found}
    if len(set(boards.values())) > 1:
        raise InputError(f"columns of several GPUs ({', '.join(boards)}); {_CHOOSE}")
    others = [rail.name for rail in rails if rail.name not in boards and PATTERNS["no_gpu"].search(rail.name)]
    # The total of several devices is not the GPU's.
    totals = [name for name in names if others and name not in boards and PATTERNS["total"].fullmatch(name)]
    kept = [rail for rail in rails if rail.name not in {*others, *totals}]
    if not kept and len(rails) > 1:
        listed = ", ".join(rail.name for rail in rails)
        raise InputError(f"columns of several devices ({listed}), none the GPU's; {_CHOOSE}")
    if not others or not kept:
        return list(rails), ()
    left_out = ", ".join((*others, *sorted(totals)))
    return kept, (f"left out as other devices', by their names: {left_out}; a mapping can add them",)


def named_unit(name: str, units: Sequence[str], position: int) -> tuple[str, Unit | None]:
    """Return a column's name without its unit, and the unit that the name or the line of units gives."""
    bare, unit = split_unit(name)
    if unit is None and 0 <= position < len(units):
        unit = unit_of(units[position])
    return PATTERNS["paired"].sub(r"\1 \2", bare) if PATTERNS["paired"].fullmatch(bare) else bare, unit


def _quantity(bare: str, unit: Unit | None) -> Quantity | None:
    if unit is not None:
        return unit.quantity
    return next((quantity for quantity, word in _WORDS.items() if _has_word(bare, word)), None)


def _has_word(bare: str, word: re.Pattern[str]) -> bool:
    return any(word.fullmatch(token) for token in _tokens(bare))


def _tokens(bare: str) -> list[str]:
    return [token for token in _BETWEEN.split(bare) if token]


def _place(rails: dict[str, dict[str, Channel]], name: str, bare: str, unit: Unit | None) -> None:
    if _has_word(bare, PATTERNS["other"]) or PATTERNS["power_factor"].fullmatch(bare):
        return
    quantity, key = _quantity(bare, unit), _rail_key(bare)
    role = _ROLES.get(quantity, "")
    sense = PATTERNS["sense"].fullmatch(bare)
    if sense is not None and (unit is None or unit.quantity is Quantity.VOLTAGE):
        key = (sense[1].rstrip(" _.-") + sense[3]).lower()
        role = "source_volts" if sense[2].lower() == "vs" else "volts"
    elif role == "shunt_ohm":
        key = re.sub(r"[ _.-]?rs?$", "", key)
    # Of two columns of one rail and quantity, such as power and mean power, the first counts.
    if role:
        channel = Channel(name, unit.factor if unit is not None else 1.0)
        rails.setdefault(key, {}).setdefault(role, channel)


def _rail_key(bare: str) -> str:
    words = (*_WORDS.values(), PATTERNS["mean"])
    kept = [token for token in _tokens(bare) if not any(word.fullmatch(token) for word in words)]
    return re.sub(r"(?<=[a-z]) (?=\d)", "", " ".join(kept).lower())


def _only_pair(rails: Sequence[Rail]) -> tuple[Rail, ...]:
    """Return one rail of the only voltage and the only current, whatever they are called."""
    volts = [rail.volts for rail in rails if rail.volts is not None]
    amperes = [rail.amperes for rail in rails if rail.amperes is not None]
    if len(volts) == len(amperes) == 1:
        return (Rail("board", volts=volts[0], amperes=amperes[0]),)
    return ()


def _power_rails(powers: Sequence[Rail]) -> tuple[Rail, ...]:
    """Return the total where one is named, or else every power column."""
    totals = [rail for rail in powers if PATTERNS["total"].fullmatch(rail.name)]
    total = next((rail for rail in totals if rail.name in {"total", "sum", "sigma", "Σ"}), None)
    if total is not None:
        return (total,)
    return tuple(totals[:1] if totals and len(powers) > 1 else powers)

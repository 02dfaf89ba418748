"""What the columns of a file are, and the mapping file that says it where a header does not."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import COMMA, POINT
from ptxbench.core.printable import printable
from ptxbench.meter.readers.cells import Quantity, unit_of
from ptxbench.meter.readers.stamps import DATE_ORDERS
from ptxbench.sensors.base import POWER_SOURCES, SourceName
from ptxbench.storage.file_errors import read_text

# No volts, amperes or factor of theirs is larger; NaN is not smaller.
_MAX_NUMBER = 1e12
_TIME_KEYS = {"column", "unit", "zone", "date_order"}
_FORMAT_KEYS = {"separator", "decimal"}
_ROWS_KEYS = {"column", "value"}
_QUANTITIES = ("watts", "volts", "amperes", "source_volts", "shunt_ohm")
_RAIL_KEYS = {"name", *_QUANTITIES, *(f"{quantity}_scale" for quantity in _QUANTITIES)}
_SOURCE_KEYS = {*POWER_SOURCES, *(f"{source}_scale" for source in POWER_SOURCES)}


@dataclass(frozen=True)
class Channel:
    """One column, or a constant, and the factor to its SI unit.

    Attributes:
        column: Column name; None for a constant.
        factor: Factor to V, A, W or ohm of a number that names no unit; the value itself for a constant.
        scale: Further factor of every number.
    """

    column: str | None
    factor: float = 1.0
    scale: float = 1.0


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
    def is_measured(self) -> bool:
        """Whether a power can be made of its voltage."""
        shunt = self.source_volts is not None and self.shunt_ohm is not None
        return self.volts is not None and (self.amperes is not None or shunt)

    @property
    def is_whole(self) -> bool:
        """Whether a power can be made of it."""
        return self.watts is not None or self.is_measured

    @property
    def channels(self) -> tuple[tuple[Channel, Quantity], ...]:
        """What its power is made of: a logged power alone, for it also holds where the current lags."""
        if self.watts is not None:
            return ((self.watts, Quantity.POWER),)
        current = (
            ((self.amperes, Quantity.CURRENT),)
            if self.amperes is not None
            else ((self.source_volts, Quantity.VOLTAGE), (self.shunt_ohm, Quantity.RESISTANCE))
        )
        every = ((self.volts, Quantity.VOLTAGE), *current)
        return tuple((channel, quantity) for channel, quantity in every if channel is not None)


@dataclass(frozen=True)
class Mapping:
    """What a mapping file says of one log.

    Attributes:
        rails: Rails to sum; empty to go by the header.
        time: Column of time; None to go by the header.
        time_unit_s: Length of its unit in seconds; None to go by the header.
        zone: Time zone of stamps that name none.
        date_order: Order of day, month and year in dates; None to tell it from them.
        separator: Separator of the cells; None to find it.
        decimal: Decimal sign; None to find it.
        rows: A column and the value that the rows to read have in it; None for every row.
        sources: Columns of an NVML log, by the source that they are of; empty to go by the header.
        nvml: What it says of the NVML log; None where it says nothing.
    """

    rails: tuple[Rail, ...] = ()
    time: str | None = None
    time_unit_s: float | None = None
    zone: str | None = None
    date_order: str | None = None
    separator: str | None = None
    decimal: str | None = None
    rows: tuple[str, str] | None = None
    sources: tuple[tuple[SourceName, Channel], ...] = ()
    nvml: Mapping | None = None


def read_mapping(path: Path) -> Mapping:
    """Read a mapping file (docs/reference/meter.md describes it).

    Raises:
        InputError: It cannot be read, or says something that is not known.
    """
    text = read_text(path, "name a mapping, as docs/reference/meter.md describes it")
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a mapping: {error}") from error
    _only(path, "the file", data, {"time", "format", "rows", "rails", "nvml"})
    nvml = _table(path, data, "nvml")
    _only(path, "[nvml]", nvml, {"time", "format", "rows", *_SOURCE_KEYS})
    return replace(_mapping(path, data), nvml=_mapping(path, nvml))


def _mapping(path: Path, data: dict[str, Any]) -> Mapping:
    time, form, rows = (_table(path, data, key) for key in ("time", "format", "rows"))
    _only(path, "[time]", time, _TIME_KEYS)
    _only(path, "[format]", form, _FORMAT_KEYS)
    _only(path, "[rows]", rows, _ROWS_KEYS)
    rails = data.get("rails", [])
    if not isinstance(rails, list) or not all(isinstance(rail, dict) for rail in rails):
        raise InputError(f"{path}: rails must be tables, each under [[rails]]")
    column, value = _text(path, rows, "column"), _text(path, rows, "value")
    if (column is None) != (value is None):
        raise InputError(f"{path}: [rows] needs both column and value")
    separator = _text(path, form, "separator")
    if separator is not None and len(separator) != 1:
        raise InputError(f"{path}: separator must be one character, not {separator!r}")
    channels = ((source, _channel(path, "[nvml]", data, source.value)) for source in POWER_SOURCES)
    return Mapping(
        tuple(_rail(path, number, rail) for number, rail in enumerate(rails, 1)),
        _text(path, time, "column"),
        _time_unit_s(path, _text(path, time, "unit")),
        _text(path, time, "zone"),
        _one_of(path, time, "date_order", DATE_ORDERS),
        separator,
        _one_of(path, form, "decimal", (POINT, COMMA)),
        None if column is None or value is None else (column, value),
        tuple((source, channel) for source, channel in channels if channel is not None),
    )


def _rail(path: Path, number: int, data: dict[str, Any]) -> Rail:
    name = printable(str(data.get("name", f"rail{number}")))
    where = f"rail {name}"
    _only(path, where, data, _RAIL_KEYS)
    rail = Rail(name, **{quantity: _channel(path, where, data, quantity) for quantity in _QUANTITIES})
    if not rail.is_whole:
        raise InputError(
            f"{path}: {where} needs watts, or volts and amperes, or volts, source_volts and shunt_ohm"
        )
    return rail


def _channel(path: Path, where: str, data: dict[str, Any], quantity: str) -> Channel | None:
    value, scale = data.get(quantity), data.get(f"{quantity}_scale", 1.0)
    if not _is_number(scale):
        raise InputError(f"{path}: {quantity}_scale of {where} must be a number, not {_shown(scale)}")
    if value is None:
        return None
    if _is_number(value):
        return Channel(None, float(value), float(scale))
    if isinstance(value, str):
        return Channel(value, scale=float(scale))
    raise InputError(f"{path}: {quantity} of {where} must be a column or a number, not {_shown(value)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits.
        return "a number of thousands of digits"


def _time_unit_s(path: Path, unit: str | None) -> float | None:
    if unit is None:
        return None
    known = unit_of(unit)
    if known is None or known.quantity is not Quantity.TIME:
        raise InputError(f"{path}: {unit!r} is no unit of time; use s, ms, us or ns")
    return known.factor


def _table(path: Path, data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise InputError(f"{path}: {key} must be a table")
    return value


def _text(path: Path, data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{path}: {key} must be a text, not {_shown(value)}")
    return value


def _one_of(path: Path, data: dict[str, Any], key: str, known: tuple[str, ...]) -> str | None:
    value = _text(path, data, key)
    if value is not None and value not in known:
        raise InputError(f"{path}: {key} must be one of {', '.join(map(repr, known))}, not {value!r}")
    return value


def _only(path: Path, where: str, data: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(data.keys() - known)
    if unknown:
        raise InputError(
            f"{path}: {where} has the unknown key {printable(unknown[0])}; "
            f"known are {', '.join(sorted(known))}"
        )

"""The mapping file: says what the columns are where a header does not."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable
from ptxbench.meter.readers.columns import Channel, Rail
from ptxbench.meter.readers.units import Quantity, unit_of
from ptxbench.storage.file_errors import read_text

# No volts, amperes or factor of theirs is larger; NaN is not smaller.
_MAX_NUMBER = 1e12
_TIME_KEYS = {"column", "unit", "zone"}
_FORMAT_KEYS = {"separator", "decimal"}
_QUANTITIES = ("watts", "volts", "amperes", "source_volts", "shunt_ohm")
_RAIL_KEYS = {"name", *_QUANTITIES, *(f"{quantity}_scale" for quantity in _QUANTITIES)}


@dataclass(frozen=True)
class Mapping:
    """What a mapping file says.

    Attributes:
        rails: Rails to sum; empty to go by the header.
        time: Column of time; None to go by the header.
        time_unit_s: Length of its unit in seconds; None to go by the header.
        zone: Time zone of stamps that name none.
        separator: Separator of the cells; None to find it.
        decimal: Decimal sign; None to find it.
    """

    rails: tuple[Rail, ...] = ()
    time: str | None = None
    time_unit_s: float | None = None
    zone: str | None = None
    separator: str | None = None
    decimal: str | None = None


def read_mapping(path: Path) -> Mapping:
    """Read a mapping file (docs/validation.md describes it).

    Raises:
        InputError: It cannot be read, or says something that is not known.
    """
    text = read_text(path, "name a mapping, as docs/validation.md describes it")
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as a mapping: {error}") from error
    _only(path, "the file", data, {"time", "format", "rails"})
    time, form = _table(path, data, "time"), _table(path, data, "format")
    _only(path, "[time]", time, _TIME_KEYS)
    _only(path, "[format]", form, _FORMAT_KEYS)
    rails = data.get("rails", [])
    if not isinstance(rails, list) or not all(isinstance(rail, dict) for rail in rails):
        raise InputError(f"{path}: rails must be tables, each under [[rails]]")
    return Mapping(
        tuple(_rail(path, number, rail) for number, rail in enumerate(rails, 1)),
        _text(path, time, "column"),
        _time_unit_s(path, _text(path, time, "unit")),
        _text(path, time, "zone"),
        _text(path, form, "separator"),
        _text(path, form, "decimal"),
    )


def _rail(path: Path, number: int, data: dict[str, Any]) -> Rail:
    name = printable(str(data.get("name", f"rail{number}")))
    _only(path, f"rail {name}", data, _RAIL_KEYS)
    rail = Rail(name, **{quantity: _channel(path, name, data, quantity) for quantity in _QUANTITIES})
    if not rail.is_whole:
        raise InputError(
            f"{path}: rail {name} needs watts, or volts and amperes, or volts, source_volts and shunt_ohm"
        )
    return rail


def _channel(path: Path, rail: str, data: dict[str, Any], quantity: str) -> Channel | None:
    value, scale = data.get(quantity), data.get(f"{quantity}_scale", 1.0)
    if not _is_number(scale):
        raise InputError(f"{path}: {quantity}_scale of rail {rail} must be a number, not {scale!r}")
    if value is None:
        return None
    if _is_number(value):
        return Channel(None, float(value) * float(scale))
    if isinstance(value, str):
        return Channel(value, float(scale))
    raise InputError(f"{path}: {quantity} of rail {rail} must be a column or a number, not {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER


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
        raise InputError(f"{path}: {key} must be a text, not {value!r}")
    return value


def _only(path: Path, where: str, data: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(data.keys() - known)
    if unknown:
        raise InputError(
            f"{path}: {where} has the unknown key {printable(unknown[0])}; "
            f"known are {', '.join(sorted(known))}"
        )

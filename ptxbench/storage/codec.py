"""Frozen dataclasses to and from plain JSON values, read strictly, and so that they can grow.

A field with a default may be missing: what wrote the file did not know it. A key that is no field is passed
over: something newer wrote it.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from ptxbench.core.errors import InputError
from ptxbench.core.printable import printable_lines
from ptxbench.storage.file_errors import read_bytes

T = TypeVar("T")
# Whole numbers go into columns of 64 bits.
_INT64 = 2**63


@dataclass(frozen=True)
class Place:
    """Where a value stands, for the error that names it.

    Attributes:
        file: The file.
        key: Path of the key in it, such as "gpus[0].driver"; "" for the whole.
    """

    file: Path
    key: str = ""

    def at(self, key: str) -> Place:
        """Return the place of `key` below this one."""
        return Place(self.file, f"{self.key}.{key}" if self.key else key)

    def item(self, index: int) -> Place:
        """Return the place of one item of the list at this one."""
        return Place(self.file, f"{self.key}[{index}]")

    def error(self, text: str) -> InputError:
        """Return the error `text` about this place."""
        return InputError(f"{self.file}: {self.key or 'the file'} {text}")


# Metadata of a field that is not written where it has its default, so that older files stay as they are.
UNLESS_DEFAULT = {"unless_default": True}
_FORMER = "former"
# Most values are of one of these.
_PLAIN = frozenset({str, int, bool, type(None)})


def formerly(name: str) -> Mapping[str, str]:
    """Return the metadata of a field that older files have by another name."""
    return {_FORMER: name}


def encode(value: object) -> object:
    """Return `value` as JSON takes it: NaN as null, enums as their value, times as UTC ISO 8601."""
    if type(value) in _PLAIN:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        named = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: encode(of) for f, of in named if f.metadata != UNLESS_DEFAULT or of != f.default}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def decode(kind: type[T], plain: object, place: Place) -> T:
    """Return the dataclass `kind` that `encode` made `plain` from.

    Raises:
        InputError: A key without a default is missing, or a value's type or range does not fit.
    """
    return cast(T, _decode(kind, plain, place))


def to_text(value: object) -> str:
    """Return the JSON file of a dataclass or of a list of them."""
    return json.dumps(encode(value), indent=2, ensure_ascii=False) + "\n"


def to_lines(value: object) -> str:
    """Return the JSON file of a dataclass, each item of its lists on a line of its own."""
    plain = cast(dict[str, object], encode(value))
    parts = []
    for key, item in plain.items():
        if isinstance(item, list) and item:
            body = ",\n".join(f"  {_one_line(each)}" for each in item)
            parts.append(f" {json.dumps(key)}: [\n{body}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {_one_line(item)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _one_line(plain: object) -> str:
    return json.dumps(plain, ensure_ascii=False)


def read_json(path: Path) -> object:
    """Return the plain values of one JSON file.

    Raises:
        InputError: The file cannot be read or is not JSON.
    """
    return parse(read_bytes(path), Place(path))


def read_file(kind: type[T], path: Path) -> T:
    """Return the dataclass of one JSON file.

    Raises:
        InputError: The file cannot be read, or does not fit.
    """
    return decode(kind, read_json(path), Place(path))


def decode_list(kind: type[T], plain: object, place: Place) -> tuple[T, ...]:
    """Return the dataclasses of a list.

    Raises:
        InputError: It is none, or an item does not fit.
    """
    return cast(tuple[T, ...], _decode_list(kind, plain, place))


def parse(data: bytes, place: Place) -> object:
    """Return the plain values of one JSON text.

    Raises:
        InputError: It is not JSON.
    """
    try:
        return json.loads(data)
    except ValueError as error:
        raise place.error(f"is not JSON ({error})") from error
    except RecursionError as error:
        raise place.error("is nested too deeply for a file of ptxbench") from error


@lru_cache(maxsize=64)
def type_hints(kind: type) -> Mapping[str, Any]:
    """Return the type of each field of a dataclass, in order; of a generic one with its arguments."""
    plain = get_origin(kind) or kind
    named = dict(zip(getattr(plain, "__parameters__", ()), get_args(kind), strict=False))
    hints = get_type_hints(plain)
    return types.MappingProxyType({f.name: named.get(hints[f.name], hints[f.name]) for f in fields(plain)})


@lru_cache(maxsize=64)
def optional_fields(kind: type) -> frozenset[str]:
    """Return the fields that a file may leave out, which have their default then."""
    plain = get_origin(kind) or kind
    return frozenset(f.name for f in fields(plain) if not (f.default is f.default_factory is MISSING))


@lru_cache(maxsize=64)
def _former_names(kind: type) -> Mapping[str, str]:
    """Return what fields were called in older files."""
    return {f.name: f.metadata[_FORMER] for f in fields(get_origin(kind) or kind) if _FORMER in f.metadata}


def _decode(hint: Any, plain: object, place: Place) -> object:
    return _reader(hint)(plain, place)


@lru_cache(maxsize=512)
def _reader(hint: Any) -> Callable[[object, Place], object]:
    """Return what reads values of a type; a run has millions of them, and few types."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is types.UnionType:
        arms = [arm for arm in arguments if arm is not type(None)]
        may_be_none = len(arms) < len(arguments)
        return lambda plain, place: (
            None if plain is None and may_be_none else _decode(_arm(arms, plain), plain, place)
        )
    if origin is tuple:
        return partial(_decode_list, arguments[0])
    if origin is Mapping:
        return partial(_decode_mapping, arguments[1])
    if is_dataclass(origin or hint):
        return partial(_decode_dataclass, cast(type, hint))
    if issubclass(hint, StrEnum):
        return partial(_decode_enum, hint)
    if hint is datetime:
        return _decode_time
    return partial(_decode_scalar, hint)


def _arm(arms: Sequence[Any], plain: object) -> Any:
    """Return the one of several dataclasses that a value lacks least of and has least beside."""
    if len(arms) == 1 or not isinstance(plain, dict):
        return arms[0]
    keys = set(plain)

    def misfit(arm: Any) -> tuple[int, int]:
        known = set(type_hints(arm))
        return len(known - optional_fields(arm) - keys), len(keys - known)

    return min(arms, key=misfit)


@lru_cache(maxsize=64)
def _fields_of(kind: type) -> tuple[tuple[str, Any, str, bool, Mapping[object, object]], ...]:
    """Return each field's name, type, former name, whether a file may leave it out, and members by value."""
    former, optional = _former_names(kind), optional_fields(kind)
    return tuple(
        (key, hint, former.get(key, key), key in optional, _members(hint))
        for key, hint in type_hints(kind).items()
    )


def _members(hint: Any) -> Mapping[object, object]:
    """Return the members of an enumeration by value, {} of another type."""
    is_enum = isinstance(hint, type) and issubclass(hint, StrEnum)
    return {member.value: member for member in hint} if is_enum else {}


def _decode_dataclass(kind: type, plain: object, place: Place) -> object:
    if not isinstance(plain, dict):
        raise place.error("must be an object")
    values = {}
    for key, hint, former, is_optional, members in _fields_of(kind):
        name = key if key in plain else former
        if name not in plain:
            if not is_optional:
                raise place.at(key).error("is missing")
            continue
        value = plain[name]
        # A run has millions of plain numbers and texts: for those that fit no place is made.
        if type(value) is hint and (hint is float or _is_plain(value)):
            values[key] = value
        elif members and type(value) is str and value in members:
            values[key] = members[value]
        else:
            values[key] = _decode(hint, value, place.at(name))
    made = (get_origin(kind) or kind)(**values)
    # A dataclass that knows what its values must be has a method that says what is wrong with them.
    fault = made.fault() if hasattr(made, "fault") else ""
    if fault:
        raise place.error(fault)
    return cast(object, made)


def _is_plain(value: object) -> bool:
    """Whether a text can be shown as it is, and a whole number fits its column."""
    if type(value) is str:
        return value.isprintable()
    return type(value) is not int or -_INT64 <= value < _INT64


def _decode_list(hint: Any, plain: object, place: Place) -> tuple[object, ...]:
    if not isinstance(plain, list):
        raise place.error("must be a list")
    # As of plain numbers of a dataclass; a session has half a million in its lists.
    if hint is float and set(map(type, plain)) == {float}:
        return tuple(plain)
    return tuple(_decode(hint, item, place.item(i)) for i, item in enumerate(plain))


def _decode_mapping(hint: Any, plain: object, place: Place) -> Mapping[str, object]:
    if not isinstance(plain, dict):
        raise place.error("must be an object")
    return {key: _decode(hint, value, place.at(key)) for key, value in plain.items()}


def _decode_enum(kind: type[StrEnum], plain: object, place: Place) -> StrEnum:
    try:
        return kind(cast(str, plain))
    except ValueError:
        raise place.error(f"must be one of {', '.join(kind)}, not {plain!r}") from None


def _decode_time(plain: object, place: Place) -> datetime:
    try:
        moment = datetime.fromisoformat(cast(str, plain))
    except (TypeError, ValueError):
        raise place.error(f"must be a UTC time such as 2026-11-21T03:13:00+00:00, not {plain!r}") from None
    if moment.tzinfo is None:
        raise place.error(f"must name its time zone, unlike {plain!r}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise place.error(f"must be a time within the years 1 to 9999 of UTC, not {plain!r}") from None


def _decode_scalar(hint: type, plain: object, place: Place) -> object:
    if hint is float:
        if plain is None:
            return math.nan
        if type(plain) in (int, float):
            try:
                return float(cast(float, plain))
            except OverflowError:
                raise place.error("is too large for a number") from None
    elif type(plain) is hint:  # exact: True is no whole number
        # Reasons may have several lines.
        if isinstance(plain, str):
            return printable_lines(plain)
        if hint is not int or -_INT64 <= cast(int, plain) < _INT64:
            return plain
        raise place.error("is too large for a whole number")
    words = {int: "a whole number", float: "a number or null", str: "text", bool: "true or false"}
    raise place.error(f"must be {words[hint]}, not {plain!r}")

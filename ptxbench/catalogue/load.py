"""Read and check the catalogue; only values that passed here reach a template."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from ptxbench.catalogue.model import Expectation, Instruction, Unit
from ptxbench.errors import InputError
from ptxbench.gpu.protocol import OptLevel

TYPES = ("u32", "s32", "b32", "f32", "f64", "f16x2")

# What reaches PTX text, or the shell of whoever copies it, is spelled with these characters and no others.
_NAME = re.compile(r"[a-z][a-z0-9_.:]*")
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_SENTENCE = re.compile(r"[A-Za-z0-9 .,:;=/*+()'<>-]+")
_SASS = re.compile(r"[A-Z][A-Z0-9_.]*(\|[A-Z][A-Z0-9_.]*)*")
_ROLES = ("x", "y", "a", "b", "c")

_REQUIRED = frozenset({"name", "category", "family", "type", "operands", "values", "alive", "sass"})
_OPTIONAL = frozenset(
    {
        "opcode",
        "companions",
        "copies",
        "chains",
        "unit",
        "min_target",
        "tolerance",
        "loop_moves",
        "note",
    }
)


@cache
def load_catalogue() -> tuple[Instruction, ...]:
    """Return every row that ptxbench ships, in the order of its files.

    Raises:
        InputError: A row is not legal; the text names it.
    """
    folder = files("ptxbench.catalogue").joinpath("data")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    rows = [
        row for name in names for row in parse_rows(folder.joinpath(name).read_text(encoding="utf-8"), name)
    ]
    return check_unique(rows)


def find_instruction(name: str) -> Instruction:
    """Return the row called `name`.

    Raises:
        InputError: There is none; the text offers the nearest names.
    """
    import difflib

    catalogue = {row.name: row for row in load_catalogue()}
    if name in catalogue:
        return catalogue[name]
    near = difflib.get_close_matches(name, catalogue, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "see 'ptxbench list'"
    raise InputError(f"unknown instruction {name!r}; {hint}")


def parse_rows(text: str, origin: str) -> tuple[Instruction, ...]:
    """Parse one catalogue file.

    Args:
        text: TOML with `[[instruction]]` tables.
        origin: File name, for messages.

    Raises:
        InputError: The TOML or a row is not legal.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"catalogue {origin}: not TOML: {error}") from error
    rows = document.get("instruction", [])
    if not isinstance(rows, list) or set(document) - {"instruction"}:
        raise InputError(f"catalogue {origin}: holds something else than [[instruction]] tables")
    return tuple(_parse_row(row, origin) for row in rows)


def check_unique(rows: Iterable[Instruction]) -> tuple[Instruction, ...]:
    """Return the rows as a tuple.

    Raises:
        InputError: Two rows have one name.
    """
    seen: set[str] = set()
    checked = tuple(rows)
    for row in checked:
        if row.name in seen:
            raise InputError(f"catalogue: two rows are called {row.name!r}")
        seen.add(row.name)
    return checked


def _parse_row(row: object, origin: str) -> Instruction:
    name = row.get("name") if isinstance(row, dict) else row
    try:
        if not isinstance(row, dict):
            raise TypeError("a row is a table")
        return _read_row(_Fields(row))
    except (TypeError, ValueError) as error:
        raise InputError(f"catalogue {origin}, row {name!r}: {error}") from error


def _read_row(row: _Fields) -> Instruction:
    name = row.text("name", _NAME)
    return Instruction(
        name=name,
        opcode=row.text("opcode", _NAME) if row.has("opcode") else name,
        category=row.text("category", _SENTENCE),
        family=row.text("family", _WORD),
        type=row.choice("type", TYPES),
        operands=row.roles("operands"),
        values=row.text("values", _WORD),
        alive=row.text("alive", _SENTENCE),
        companions=row.whole("companions", 0, 8, default=0),
        copies=row.whole("copies", 4, 512, default=64),
        chains=row.whole("chains", 1, 4, default=4),
        unit=Unit(row.choice("unit", tuple(Unit), default=Unit.THREAD)),
        min_target=row.whole("min_target", 50, 999, default=75),
        sass=row.expectations(),
        note=row.text("note", _SENTENCE) if row.has("note") else "",
    )


class _Fields:
    """One row's table, read with a check of every value; ValueError says what is wrong."""

    def __init__(self, table: dict[str, Any]) -> None:
        missing = sorted(_REQUIRED - set(table))
        unknown = sorted(set(table) - _REQUIRED - _OPTIONAL)
        if missing:
            raise ValueError(f"missing fields {missing}")
        if unknown:
            raise ValueError(f"unknown fields {unknown}")
        self._table = table

    def has(self, key: str) -> bool:
        return key in self._table

    def text(self, key: str, pattern: re.Pattern[str]) -> str:
        return _checked_text(self._table[key], pattern, key)

    def choice(self, key: str, options: tuple[str, ...], default: str = "") -> str:
        value = self._table.get(key, default)
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"{key} {value!r} is none of {', '.join(options)}")
        return value

    def whole(self, key: str, low: int, high: int, default: int) -> int:
        return _checked_whole(self._table.get(key, default), low, high, key)

    def roles(self, key: str) -> tuple[str, ...]:
        value = self._table[key]
        if not isinstance(value, list) or not all(role in _ROLES for role in value):
            raise ValueError(f"{key} {value!r} must be a list of {', '.join(_ROLES)}")
        return tuple(value)

    def expectations(self) -> tuple[Expectation, ...]:
        levels, moves, tolerances = (self._table.get(key, {}) for key in ("sass", "loop_moves", "tolerance"))
        if not isinstance(levels, dict) or set(levels) != set(OptLevel):
            raise ValueError("sass must name O0 and O3, and nothing else")
        for key, table in (("loop_moves", moves), ("tolerance", tolerances)):
            if not isinstance(table, dict) or not set(table) <= set(OptLevel):
                raise ValueError(f"{key} must be a table of O0 and O3")
        return tuple(
            _expectation(level, levels[level], moves.get(level, 0), tolerances.get(level, {}))
            for level in OptLevel
        )


def _expectation(level: OptLevel, counts: object, moves: object, tolerances: object) -> Expectation:
    if not isinstance(counts, dict) or not counts:
        raise ValueError(f"sass.{level} must be a table of opcodes and their counts")
    if not isinstance(tolerances, dict) or not set(tolerances) <= set(counts):
        raise ValueError(f"tolerance.{level} must be a table of opcodes that stand in sass.{level}")
    return Expectation(
        level,
        tuple(
            (_checked_text(op, _SASS, f"sass.{level}"), _checked_count(n, f"sass.{level} {op}"))
            for op, n in counts.items()
        ),
        _checked_whole(moves, 0, 16, f"loop_moves.{level}"),
        tuple((op, _checked_count(n, f"tolerance.{level} {op}")) for op, n in tolerances.items()),
    )


def _checked_text(value: object, pattern: re.Pattern[str], where: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{where} {value!r} is not of the form {pattern.pattern}")
    return value


def _checked_whole(value: object, low: int, high: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{where} {value!r} must be a whole number from {low} to {high}")
    return value


def _checked_count(value: object, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError(f"{where} {value!r} must be a number above 0")
    return float(value)

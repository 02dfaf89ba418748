"""Read and check the catalogue; only values that passed here reach a template."""

from __future__ import annotations

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

_NAME = re.compile(r"[a-z][a-z0-9_.:]*")
_FAMILY = re.compile(r"[a-z][a-z0-9_]*")
_ROLE = re.compile(r"[a-z]")
_SENTENCE = re.compile(r"[A-Za-z0-9 .,:;=/*+()'<>-]*")
_SASS = re.compile(r"[A-Z][A-Z0-9_.]*(\|[A-Z][A-Z0-9_.]*)*")

_DEFAULTS: dict[str, Any] = {
    "opcode": "",
    "companions": 0,
    "copies": 64,
    "chains": 4,
    "unit": "thread",
    "min_target": 75,
    "tolerance": 0.0,
    "loop_moves": {},
    "note": "",
}
_REQUIRED = ("name", "category", "family", "type", "operands", "values", "alive", "sass")


@cache
def load_catalogue() -> tuple[Instruction, ...]:
    """Return every row that ptxbench ships, in the order of its files.

    Raises:
        InputError: A row is not legal; the text names it.
    """
    folder = files("ptxbench.catalogue").joinpath("data")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    rows = [row for name in names for row in parse_rows(folder.joinpath(name).read_text(), name)]
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
    return tuple(_parse_row(row, origin) for row in document.get("instruction", []))


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


def _parse_row(row: dict[str, Any], origin: str) -> Instruction:
    where = f"catalogue {origin}, row {row.get('name')!r}"
    missing = [key for key in _REQUIRED if key not in row]
    unknown = sorted(set(row) - set(_REQUIRED) - set(_DEFAULTS))
    if missing or unknown:
        raise InputError(f"{where}: missing {missing}, unknown {unknown}")
    full = _DEFAULTS | row
    full["opcode"] = full["opcode"] or full["name"]
    for key, pattern in (("name", _NAME), ("opcode", _NAME), ("family", _FAMILY), ("values", _FAMILY)):
        _check_text(full[key], pattern, f"{where}: {key}")
    for key in ("category", "alive", "note"):
        _check_text(full[key], _SENTENCE, f"{where}: {key}")
    if full["type"] not in TYPES:
        raise InputError(f"{where}: type {full['type']!r} is none of {', '.join(TYPES)}")
    for role in full["operands"]:
        _check_text(role, _ROLE, f"{where}: operand")
    for key, low, high in (
        ("copies", 4, 512),
        ("chains", 1, 4),
        ("companions", 0, 8),
        ("min_target", 50, 999),
    ):
        if not isinstance(full[key], int) or not low <= full[key] <= high:
            raise InputError(f"{where}: {key} must be a whole number from {low} to {high}")
    if full["unit"] not in list(Unit):
        raise InputError(f"{where}: unit {full['unit']!r} is none of {', '.join(Unit)}")
    return Instruction(
        name=full["name"],
        opcode=full["opcode"],
        category=full["category"],
        family=full["family"],
        type=full["type"],
        operands=tuple(full["operands"]),
        values=full["values"],
        alive=full["alive"],
        companions=full["companions"],
        copies=full["copies"],
        chains=full["chains"],
        unit=Unit(full["unit"]),
        min_target=full["min_target"],
        sass=_parse_sass(full["sass"], full["loop_moves"], where),
        tolerance=float(full["tolerance"]),
        note=full["note"],
    )


def _check_text(value: object, pattern: re.Pattern[str], where: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InputError(f"{where} {value!r} is not of the form {pattern.pattern}")


def _parse_sass(table: object, moves: object, where: str) -> tuple[Expectation, ...]:
    if not isinstance(table, dict) or set(table) != set(OptLevel):
        raise InputError(f"{where}: sass must name O0 and O3")
    if not isinstance(moves, dict) or not all(isinstance(n, int) and 0 <= n <= 16 for n in moves.values()):
        raise InputError(f"{where}: loop_moves must be whole numbers from 0 to 16 by level")
    expectations = []
    for level, counts in table.items():
        for opcode, count in counts.items():
            _check_text(opcode, _SASS, f"{where}: sass.{level}")
            if not isinstance(count, int | float) or count <= 0:
                raise InputError(f"{where}: sass.{level} {opcode} must be a number above 0")
        expectations.append(
            Expectation(
                OptLevel(level),
                tuple((opcode, float(count)) for opcode, count in counts.items()),
                moves.get(level, 0),
            )
        )
    return tuple(expectations)

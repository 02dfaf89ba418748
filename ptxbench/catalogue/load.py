"""Read and check the catalogue; only values that passed here reach a template."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from ptxbench.catalogue.arafa import arafa_rows
from ptxbench.catalogue.expect import EXPECTATION_KEYS, read_expectations
from ptxbench.catalogue.fields import (
    NAME,
    OPCODE,
    PREDICATES,
    ROLES,
    SENTENCE,
    STEP,
    VERSION,
    WORD,
    Fields,
    checked_choice,
    checked_text,
)
from ptxbench.catalogue.model import Instruction, Unit
from ptxbench.catalogue.own_files import OWN_FILES, OwnFile
from ptxbench.catalogue.types import COMPANIONS, TYPES, default_companion
from ptxbench.core.cache import Cache
from ptxbench.core.errors import InputError
from ptxbench.core.target import TARGETS

_REFUSED = frozenset({"name", "category", "type"})
_REQUIRED = _REFUSED | {"family", "operands", "values", "alive", "O0", "O3"}
_OPTIONAL = {
    *("opcode", "companions", "companion", "before", "after", "guard", "copies", "chains", "unit"),
    *("min_target", "max_target", "targets", "ptx_version", "refused", "flops", "bytes", "block"),
    *("scratch", "paper", "note", "types", "values_of", "params"),
    *EXPECTATION_KEYS,
}
TEMPLATE_SUFFIX = ".ptx.j2"
_PARSED = Cache("catalogue", quiet=True)
# From so many names on, all rows take little longer.
_MANY = 400
_NAMED = re.compile(r'name = "([^"]*)"')
# Tables of a group that a row adds to; everything else of a row stands in the group's place.
_MERGED = ("types", "values_of", "params")


def load_catalogue() -> tuple[Instruction, ...]:
    """Return every row that ptxbench ships, in the order of its files, and those that were added.

    Raises:
        InputError: A row is not legal; the text names it.
    """
    return _catalogue(tuple(OWN_FILES.items()))


@lru_cache(maxsize=8)
def _catalogue(own: tuple[OwnFile, ...]) -> tuple[Instruction, ...]:
    return check_unique(row for name, text in _texts(own) for row in parse_rows(text, name))


def load_named(names: frozenset[str]) -> Mapping[str, Instruction]:
    """Return the rows of these names, in catalogue order, without unknown names.

    It parses only the files that hold such a row, where all of them take 0.2 s; none that are parsed already.

    Args:
        names: Catalogue names.

    Raises:
        InputError: A row is not legal; the text names it.
    """
    if len(names) > _MANY or _catalogue.cache_info().currsize:
        return MappingProxyType({row.name: row for row in load_catalogue() if row.name in names})
    return _named(names, tuple(OWN_FILES.items()))


@lru_cache(maxsize=64)
def _named(names: frozenset[str], own: tuple[OwnFile, ...]) -> Mapping[str, Instruction]:
    found: dict[str, Instruction] = {}
    for name, text in _texts(own):
        if not names.isdisjoint(_NAMED.findall(text)):
            found.update({row.name: row for row in parse_rows(text, name, names)})
    return MappingProxyType(found)


def rows_naming(opcodes: Collection[str]) -> tuple[Instruction, ...]:
    """Return at least the rows that name one of some SASS opcodes, or one that begins so, in catalogue order.

    It makes only these, where all of them take 0.2 s.

    Args:
        opcodes: SASS opcodes, with all of their modifiers or the first of them, in capitals or not.

    Raises:
        InputError: A row is not legal.
    """
    if not opcodes or len(opcodes) > _MANY or _catalogue.cache_info().currsize:
        return load_catalogue() if opcodes else ()
    wanted = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, opcodes))})(?!\w)", re.IGNORECASE)
    return tuple(
        _parse_row(row, shared, name)
        for name, text in _texts(tuple(OWN_FILES.items()))
        if wanted.search(text)
        for row, shared in _rows_of(_groups(text, name), name)
        if wanted.search(f"{row}{shared}")
    )


def _texts(own: Iterable[OwnFile]) -> Iterator[OwnFile]:
    """Yield the name and the text of each catalogue file."""
    folder = files("ptxbench.catalogue").joinpath("data")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            yield entry.name, entry.read_text(encoding="utf-8")
    yield from ((name, text) for name, text in own if not name.endswith(TEMPLATE_SUFFIX))


def find_instruction(name: str) -> Instruction:
    """Return the row called `name`.

    Raises:
        InputError: There is none; the text offers the nearest names.
    """
    import difflib

    # A name of a user's own may be one of ours, which reading all finds out.
    found = {} if OWN_FILES else load_named(frozenset({name}))
    if name in found:
        return found[name]
    catalogue = {row.name: row for row in load_catalogue()}
    if name in catalogue:
        return catalogue[name]
    near = difflib.get_close_matches(name, catalogue, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "see `ptxbench cost --list`"
    raise InputError(f"unknown instruction {name!r}; {hint}")


@lru_cache(maxsize=64)
def parse_rows(text: str, origin: str, names: frozenset[str] | None = None) -> tuple[Instruction, ...]:
    """Parse one catalogue file, once.

    Args:
        text: TOML with `[[group]]` tables: what rows share, and the list `rows`.
        origin: File name, for messages.
        names: The rows to return, None for all.

    Raises:
        InputError: The TOML or a row is not legal.
    """
    return tuple(
        _parse_row(row, shared, origin)
        for row, shared in _rows_of(_groups(text, origin), origin)
        if names is None or (isinstance(row, dict) and row.get("name") in names)
    )


@lru_cache(maxsize=64)
def _groups(text: str, origin: str) -> list[Any]:
    """Return the groups of a catalogue file, which nobody changes."""
    document = _parsed(text, origin)
    groups = document.get("group", [])
    if not isinstance(groups, list) or set(document) - {"group"}:
        raise InputError(f"catalogue {origin}: holds something else than [[group]] tables")
    if not groups:
        raise InputError(f"catalogue {origin}: has no [[group]] table")
    return groups


def _parsed(text: str, origin: str) -> dict[str, Any]:
    """Return what TOML says, kept by its text: to parse all files takes 0.2 s, most of a look-up."""

    def parse() -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"catalogue {origin}: not TOML: {error}") from error

    return _kept(text, parse)


def kept_words(made_by: str, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Return words that are worked out of all rows, kept by the text of all files.

    Args:
        made_by: What else they are made by, such as code: another one makes others.
        make: Makes them.
    """
    return _kept("".join((made_by, *(text for _, text in _texts(tuple(OWN_FILES.items()))))), make)


def _kept(text: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what is made of a text, kept by this text; without the cache it is made each time."""
    name = f"{hashlib.sha256(text.encode()).hexdigest()}.json"
    with suppress(ValueError, RecursionError):
        held = json.loads(_PARSED.get(name) or b"null")
        if isinstance(held, dict):
            return held
    made = make()
    with suppress(TypeError, ValueError):  # a date, which no row takes
        _PARSED.put(name, json.dumps(made).encode())
    return made


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


def _rows_of(groups: list[Any], origin: str) -> Iterator[tuple[object, dict[str, Any]]]:
    for number, group in enumerate(groups, 1):
        if not isinstance(group, dict) or not isinstance(group.get("rows"), list) or not group["rows"]:
            raise InputError(f"catalogue {origin}, group {number}: has no list of rows")
        shared = {key: value for key, value in group.items() if key != "rows"}
        for row in group["rows"]:
            yield row, shared


def _parse_row(row: object, shared: dict[str, Any], origin: str) -> Instruction:
    name = row.get("name") if isinstance(row, dict) else row
    try:
        if not isinstance(row, dict):
            raise TypeError("a row is a table")
        table = _merge(shared, row)
        required = _REFUSED if "refused" in table else _REQUIRED
        return _check_whole(_read_row(Fields(table, required, _REQUIRED | _OPTIONAL)))
    except (TypeError, ValueError) as error:
        raise InputError(f"catalogue {origin}, row {name!r}: {error}") from error


def _merge(shared: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    merged = shared | row
    for key in _MERGED:
        if isinstance(shared.get(key), dict) and isinstance(row.get(key), dict):
            merged[key] = shared[key] | row[key]
    return merged


def _read_row(row: Fields) -> Instruction:
    name = row.text("name", NAME)
    ptx_type = row.choice("type", TYPES)
    types = row.table("types", ROLES, lambda value, where: checked_choice(value, TYPES, where))
    companions = row.whole("companions", 0, 8, default=0)
    companion = row.choice("companion", COMPANIONS, default_companion(dict(types).get("x", ptx_type)))
    refused = row.text("refused", SENTENCE)
    return Instruction(
        name=name,
        opcode=row.text("opcode", OPCODE, default=name),
        category=row.text("category", SENTENCE),
        family=row.text("family", WORD),
        type=ptx_type,
        operands=row.operands("operands"),
        values=row.text("values", WORD, default="none"),
        alive=row.text("alive", SENTENCE),
        companions=companions,
        copies=row.whole("copies", 4, 512, default=64),
        chains=row.whole("chains", 1, 4, default=4),
        unit=Unit(row.choice("unit", tuple(Unit), default=Unit.THREAD)),
        min_target=row.whole("min_target", 50, 999, default=75),
        sass=() if refused else read_expectations(row),
        note=row.text("note", SENTENCE),
        types=types,
        values_of=row.table("values_of", ROLES, lambda value, where: checked_text(value, WORD, where)),
        companion=companion if companions else "",
        before=row.text("before", STEP),
        after=row.text("after", STEP),
        guard=row.choice("guard", PREDICATES),
        params=row.parameters("params"),
        max_target=row.whole("max_target", 50, 999, default=0),
        targets=row.words("targets", tuple(target.name for target in TARGETS)),
        ptx_version=row.text("ptx_version", VERSION),
        refused=refused,
        flops=row.whole("flops", 0, 1 << 40, default=0),
        bytes=row.whole("bytes", 0, 1 << 40, default=0),
        block=row.whole("block", 1, 1024, default=1) if row.has("block") else None,
        scratch=row.whole("scratch", 0, 1 << 30, default=8),
        paper=row.choice("paper", arafa_rows()),
    )


def _check_whole(row: Instruction) -> Instruction:
    """Check what concerns several fields at once, or ptxas would complain, and less clearly."""
    if ("v" in row.roles) != bool(row.before):
        raise ValueError("before and the operand v go together")
    if row.before and "v" not in dict(row.types):
        raise ValueError("before needs types.v")
    if row.family == "mixed" and not row.refused and not row.companions and not row.after:
        raise ValueError("family mixed needs companions or after")
    if row.companion and row.type_of("x") == "pred":
        raise ValueError("a chain of predicates has no companions")
    return row

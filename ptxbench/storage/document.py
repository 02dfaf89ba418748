"""JSON files that say their schema: one rule by which all of them can grow.

The reader finds fields by their name (see `codec`). Of an older major schema it migrates what it reads, and
never the file. Only a newer major schema is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar, cast

from ptxbench.storage import codec
from ptxbench.storage.atomic import write_text
from ptxbench.storage.codec import Place
from ptxbench.storage.file_errors import reading

# Of all files. A new field that has a default raises the second number; what an older reader would take for
# something else raises the first, and needs a migration.
SCHEMA = "2.1"
_MAJOR = 2
_KEY = "schema"
_SPELLED = re.compile(r"(\d{1,6})\.\d{1,6}")

T = TypeVar("T")
Plain = dict[str, object]


def write_document(path: Path, value: object) -> None:
    """Write a dataclass atomically, with the schema before all else.

    Raises:
        InputError: The file cannot be written.
    """
    write_text(path, codec.to_text(stamped(value)))


def write_beside(path: Path, value: object) -> None:
    """Write a dataclass atomically, without a schema: what was fitted for a table stands beside it.

    Raises:
        InputError: The file cannot be written.
    """
    write_text(path, codec.to_text(value))


def stamped(value: object) -> Plain:
    """Return the plain values of a dataclass, with the schema before all else."""
    return {_KEY: SCHEMA, **cast(Plain, codec.encode(value))}


def read_document(path: Path, kind: type[T], first: str) -> T:
    """Read a JSON file that says its schema; the first one differs from this by its key, `first`, alone.

    Raises:
        InputError: The file cannot be read, is of a newer major schema, or a key is missing or does not fit.
    """
    plain = read_plain(path)
    major_schema(plain, first, Place(path))
    return codec.decode(kind, plain, Place(path))


def read_plain(path: Path) -> Plain:
    """Return the keys and plain values of a JSON file.

    Raises:
        InputError: The file cannot be read, or holds something else.
    """
    with reading(path, cure="name a folder that ptxbench has written"):
        plain = codec.read_json(path)
    if not isinstance(plain, dict):
        raise Place(path).error("must be an object")
    return plain


def major_schema(plain: Plain, first: str, place: Place) -> int:
    """Return the major schema of a file's plain values; `first` is the key by which the first schema said it.

    Raises:
        InputError: It says none, though there is a `first`, or a newer one than this version reads.
    """
    key = _KEY if _KEY in plain else first
    if not key:
        return 1
    found = plain.get(key)
    spelled = _SPELLED.fullmatch(found) if isinstance(found, str) else None
    major = int(spelled[1]) if spelled else found
    if type(major) is not int or major < 1:
        raise place.at(key).error(f"must be the schema of the file, such as {SCHEMA!r}, not {found!r}")
    if major > _MAJOR:
        raise place.at(key).error(
            f"is {found}, and this ptxbench reads up to {_MAJOR}.x: read it with a newer ptxbench"
        )
    return major

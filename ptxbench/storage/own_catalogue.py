"""Read instructions that a user adds to the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptxbench.catalogue.load import TEMPLATE_SUFFIX, parse_rows
from ptxbench.catalogue.own import add_own
from ptxbench.catalogue.own_files import OwnFile
from ptxbench.storage.file_errors import read_text

_CURE = "name a catalogue file (docs/howto/extend.md)"


def read_own(path: Path) -> tuple[OwnFile, ...]:
    """Return a catalogue file, and the templates beside it that have the name of a family of its rows.

    Args:
        path: TOML as in ptxbench/catalogue/data.

    Raises:
        InputError: A file cannot be read, or a row is not legal.
    """
    text = read_text(path, _CURE)
    families = dict.fromkeys(row.family for row in parse_rows(text, path.name))
    places = [path.with_name(family + TEMPLATE_SUFFIX) for family in families]
    return ((path.name, text), *((one.name, read_text(one, _CURE)) for one in places if one.is_file()))


def with_own(path: Path | None, patterns: Sequence[str]) -> Sequence[str]:
    """Add the instructions of a file to the catalogue; return what a command is about.

    Args:
        path: The file, None for none.
        patterns: What was named.

    Returns:
        The patterns; without any, the names in the file.

    Raises:
        InputError: As `read_own`, or an instruction has the name of another one.
    """
    if path is None:
        return patterns
    rows = add_own(read_own(path))
    return patterns or tuple(row.name for row in rows)

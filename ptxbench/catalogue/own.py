"""Instructions that a user adds to the catalogue, and the templates that they need.

They are files as those below ptxbench/catalogue/data and ptx_templates are, and pass the same checks. A run
keeps them in its manifest, so that it can be gone on with, read and worked out again elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ptxbench.catalogue.load import (
    TEMPLATE_SUFFIX,
    check_unique,
    load_catalogue,
    parse_rows,
)
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.own_files import OWN_FILES, OwnFile
from ptxbench.core.errors import InputError


def add_own(files: Iterable[OwnFile]) -> tuple[Instruction, ...]:
    """Add files to the catalogue; return the rows of those that are catalogue files.

    They stay to the end of `own_instructions`, which the command line has around each command.

    Raises:
        InputError: A row is not legal, has the name of another row, or a file of this name with another text
            was added before.
    """
    added = dict(files)
    for name, text in added.items():
        if OWN_FILES.get(name, text) != text:
            raise InputError(f"two runs have instructions of their own in a file {name}, which are not alike")
    rows = _rows_in(added)
    new = {name: text for name, text in added.items() if name not in OWN_FILES}
    if new:
        check_unique((*load_catalogue(), *_rows_in(new)))
        OWN_FILES.update(new)
    return rows


def own_files(names: Iterable[str]) -> tuple[OwnFile, ...]:
    """Return the files that were added and that hold one of these instructions, with their templates.

    Args:
        names: Names of instructions.
    """
    wanted = frozenset(names)
    kept: dict[str, str] = {}
    for name, text in OWN_FILES.items():
        rows = () if name.endswith(TEMPLATE_SUFFIX) else parse_rows(text, name)
        if wanted.isdisjoint(row.name for row in rows):
            continue
        kept[name] = text
        families = dict.fromkeys(f"{row.family}{TEMPLATE_SUFFIX}" for row in rows)
        kept.update((family, OWN_FILES[family]) for family in families if family in OWN_FILES)
    return tuple(kept.items())


def _rows_in(files: Mapping[str, str]) -> tuple[Instruction, ...]:
    return tuple(
        row
        for name, text in files.items()
        if not name.endswith(TEMPLATE_SUFFIX)
        for row in parse_rows(text, name)
    )

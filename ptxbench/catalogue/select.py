"""Choose catalogue rows by name and by what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ptxbench.catalogue.load import find_instruction, load_catalogue
from ptxbench.catalogue.model import Instruction
from ptxbench.core.errors import InputError
from ptxbench.core.target import Target

_GLOB = "*?["


def named_instructions(names: Iterable[str]) -> tuple[Instruction, ...]:
    """Return the rows that names or globs stand for, in catalogue order; without names, every row.

    Raises:
        InputError: A name is unknown or a glob fits no row.
    """
    catalogue = load_catalogue()
    wanted: set[str] = set()
    for name in names:
        if _is_glob(name):
            fitting = {row.name for row in catalogue if fnmatchcase(row.name, name)}
            if not fitting:
                raise InputError(f"no instruction fits {name!r}; see 'ptxbench list'")
            wanted |= fitting
        else:
            wanted.add(find_instruction(name).name)
    return tuple(row for row in catalogue if row.name in wanted) if wanted else catalogue


def chosen_names(names: Iterable[str], category: str = "") -> tuple[str, ...]:
    """Return the names that names and globs stand for, in the order given, of one category if it is named.

    Nothing named is nothing chosen, except by a category, which then stands for all of its rows.

    Raises:
        InputError: A name or the category is unknown, a glob fits no row, or no row is left.
    """
    given = tuple(names)
    if not category and not given:
        return ()
    chosen = [row for name in given or ("*",) for row in named_instructions((name,))]
    _check_known("category", category, {row.category for row in load_catalogue()})
    left = dict.fromkeys(row.name for row in chosen if category in ("", row.category))
    if not left:
        raise InputError(f"no instruction named is of category {category!r}; see 'ptxbench list'")
    return tuple(left)


def matching_instructions(
    text: str = "", category: str = "", ptx_type: str = "", opcode: str = "", target: Target | None = None
) -> tuple[Instruction, ...]:
    """Return the rows that fit every condition that is given, in catalogue order.

    Args:
        text: Part of the name, or a glob of all of it.
        category: A category of the catalogue.
        ptx_type: Register type of the result.
        opcode: SASS mnemonic that a copy becomes at either optimization level, with all or the first of its
            modifiers ("IMAD" fits IMAD.U32), or a glob.
        target: GPU target that has the instruction.

    Raises:
        InputError: No row at all has the category or the type.
    """
    rows = load_catalogue()
    _check_known("category", category, {row.category for row in rows})
    _check_known("type", ptx_type, {row.type for row in rows})
    conditions: list[Callable[[Instruction], bool]] = []
    if text:
        pattern = text if _is_glob(text) else f"*{text}*"
        conditions.append(lambda row: fnmatchcase(row.name, pattern))
    if category:
        conditions.append(lambda row: row.category == category)
    if ptx_type:
        conditions.append(lambda row: row.type == ptx_type)
    if opcode:
        conditions.append(lambda row: _becomes(row, opcode.upper()))
    if target is not None:
        conditions.append(lambda row: row.exists_on(target))
    return tuple(row for row in rows if all(condition(row) for condition in conditions))


def nothing_fits(text: str) -> str:
    """Return the message for conditions that no row fits, with names like `text` where there are any.

    Args:
        text: Part of a name, or a glob of all of it; "" where only other conditions were given.
    """
    names = [row.name for row in load_catalogue()]
    if not text:
        return "no instruction fits all of these conditions; leave one out"
    pattern = text if _is_glob(text) else f"*{text}*"
    if any(fnmatchcase(name, pattern) for name in names):
        return f"no instruction named {text!r} fits the other conditions; leave one out"
    near = get_close_matches(text, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "see 'ptxbench list'"
    return f"no instruction fits {text!r}; {hint}"


def _is_glob(text: str) -> bool:
    return any(character in text for character in _GLOB)


def _check_known(what: str, value: str, known: set[str]) -> None:
    if value and value not in known:
        raise InputError(f"unknown {what} {value!r}; the catalogue has {', '.join(sorted(known))}")


def _becomes(row: Instruction, opcode: str) -> bool:
    found = {
        alternative
        for level in row.sass
        for alternatives, _ in level.counts
        for alternative in alternatives.split("|")
    }
    return any(fnmatchcase(o, opcode) or o.startswith(f"{opcode}.") for o in found)

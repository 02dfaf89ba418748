"""Choose catalogue rows for a command: by what was typed (`catalogue.search`) and by what they are."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace

from ptxbench.catalogue.load import load_catalogue
from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.search import Selection, find, fitting, opcodes_of, patterns_for
from ptxbench.core.errors import InputError
from ptxbench.core.target import Target

# Rows that a word may stand for which is neither a name nor a pattern, where each takes seconds.
MOST_FOR_A_WORD = 40


def named_instructions(patterns: Iterable[str]) -> tuple[Instruction, ...]:
    """Return the rows that patterns stand for, in catalogue order; without patterns, every row.

    Raises:
        InputError: The catalogue has nothing of a pattern.
    """
    given = tuple(patterns)
    return find(given).rows if given else load_catalogue()


def few(selection: Selection) -> Selection:
    """Return the selection, if no word in it stands for very many instructions.

    Raises:
        InputError: One does; the text has the pattern that does so on purpose.
    """
    for found in selection.found:
        if found.is_word and len(found.rows) > MOST_FOR_A_WORD:
            word, patterns = shlex.quote(found.pattern), shlex.join(patterns_for(found))
            raise InputError(
                f"{found.pattern!r} stands for {len(found.rows)} instructions, more than {MOST_FOR_A_WORD}; "
                f"give {patterns} for all of them, or names (`ptxbench cost --list {word}`)"
            )
    return selection


def chosen(patterns: Iterable[str], category: str = "") -> Selection:
    """Return what to measure, of one category if it is named.

    Nothing named is nothing chosen, except by a category, which then stands for all of its rows.

    Raises:
        InputError: The category is unknown, the catalogue has nothing of a pattern, no row is left, or a word
            stands for very many.
    """
    given = tuple(patterns)
    if not category:
        return few(find(given))
    _check_known("category", category, {row.category for row in load_catalogue()})
    left = tuple(
        replace(found, rows=tuple(row for row in found.rows if row.category == category))
        for found in find(given or ("*",)).found
    )
    if not any(found.rows for found in left):
        raise InputError(f"no instruction named is of category {category!r}; see `ptxbench cost --list`")
    return few(Selection(left))


def matching_instructions(
    wanted: Selection,
    category: str = "",
    ptx_type: str = "",
    opcode: str = "",
    target: Target | None = None,
) -> tuple[Instruction, ...]:
    """Return the rows that fit every condition that is given, in catalogue order.

    Args:
        wanted: Rows by what was typed; where nothing was, every row.
        category: A category of the catalogue.
        ptx_type: Register type of the result.
        opcode: SASS mnemonic that a copy becomes at either optimization level, with all or the first of its
            modifiers ("IMAD" fits IMAD.U32), or a glob.
        target: GPU target that has the instruction.

    Raises:
        InputError: No row at all has the category or the type, or none fits all conditions.
    """
    catalogue = load_catalogue()
    _check_known("category", category, {row.category for row in catalogue})
    _check_known("type", ptx_type, {row.type for row in catalogue})
    conditions: list[Callable[[Instruction], bool]] = []
    if category:
        conditions.append(lambda row: row.category == category)
    if ptx_type:
        conditions.append(lambda row: row.type == ptx_type)
    if opcode:
        becomes = fitting(opcode.upper())
        conditions.append(lambda row: any(map(becomes, opcodes_of(row))))
    if target is not None:
        conditions.append(lambda row: row.exists_on(target))
    rows = tuple(row for row in wanted.rows or catalogue if all(fits(row) for fits in conditions))
    if not rows:
        named = " or ".join(repr(found.pattern) for found in wanted.found)
        which = f"named {named} fits the other" if named else "fits all of these"
        raise InputError(f"no instruction {which} conditions; leave one out")
    return rows


def narrowed(wanted: Selection, rows: Iterable[Instruction]) -> Selection:
    """Return the part of a selection that is among these rows, such as those of `matching_instructions`."""
    names = {row.name for row in rows}
    # "by" keeps a glob from standing for more than its rows.
    left = (
        replace(found, rows=tuple(row for row in found.rows if row.name in names), by=found.by or "name")
        for found in wanted.found
    )
    return Selection(tuple(found for found in left if found.rows))


def _check_known(what: str, value: str, known: set[str]) -> None:
    if value and value not in known:
        raise InputError(f"unknown {what} {value!r}; the catalogue has {', '.join(sorted(known))}")

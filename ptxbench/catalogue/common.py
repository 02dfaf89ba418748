"""The commonest opcodes of real kernels, and the rows that measure them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files

from ptxbench.catalogue.load import load_catalogue, rows_naming
from ptxbench.catalogue.model import Instruction
from ptxbench.core.condition import OptLevel

FILE = "common_opcodes.csv"
# Rows of this family are loads and stores of one memory level: an opcode has one for each.
_LEVELS = "level"
# A row measures an opcode where at least so much of what one copy becomes is of it.
_MOSTLY = 0.5
# What one copy becomes over what of it is an opcode, at most, for a row that tells something of it.
_MOST_BESIDE = 4.0


@cache
def common_opcodes() -> tuple[str, ...]:
    """Return SASS opcodes of real kernels, the commonest first.

    Every kernel that was counted weighs as much as every other, whatever its length;
    runners/refresh_common.py counts.
    """
    text = files("ptxbench.catalogue").joinpath("data", FILE).read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(line["opcode"] for line in csv.DictReader(lines))


@cache
def common_rows() -> tuple[str, ...]:
    """Return the names of the rows that measure the commonest opcodes, the commonest first.

    Of each opcode it is the row whose -O3 code holds least else, or, of what moves data, that of every
    memory level.
    """
    best: dict[str, tuple[int, str]] = {}
    levels: dict[str, list[str]] = {}
    for row in load_catalogue():
        beside = len(_counts(row)) - 1
        for opcode in main_opcodes(row):
            if row.family == _LEVELS:
                levels.setdefault(opcode, []).append(row.name)
            elif opcode not in best or beside < best[opcode][0]:
                best[opcode] = (beside, row.name)
    names: list[str] = []
    for opcode in common_opcodes():
        names += levels.get(opcode, ())
        if opcode in best:
            names.append(best[opcode][1])
    return tuple(dict.fromkeys(names))


def measuring(opcodes: Iterable[str]) -> dict[str, str]:
    """Return the instruction to measure for each opcode: at -O3 it runs with the fewest others.

    An opcode that makes up less than a quarter of what every instruction becomes is not in it: such a row
    says nothing of it.

    Args:
        opcodes: SASS opcodes with their modifiers.
    """
    wanted = frozenset(opcodes)
    best: dict[str, tuple[float, str]] = {}
    for row in rows_naming(wanted):
        # A guard asks what its lanes change.
        counts = () if row.guard else _counts(row)
        whole = sum(n for _, n in counts)
        for either, n in counts:
            alike = wanted.intersection(either.split("|"))
            beside = whole / n * len(either.split("|"))
            for opcode in alike:
                if beside <= _MOST_BESIDE and (opcode not in best or beside < best[opcode][0]):
                    best[opcode] = (beside, row.name)
    return {opcode: name for opcode, (_, name) in best.items()}


def main_opcodes(row: Instruction, passed_over: Collection[str] = ()) -> tuple[str, ...]:
    """Return the SASS opcodes that make up at least half of what a copy of a row becomes at -O3.

    Args:
        row: Catalogue row.
        passed_over: Opcodes that do not count.
    """
    counts = [(either, n) for either, n in _counts(row) if either not in passed_over]
    whole = sum(n for _, n in counts)
    return tuple(opcode for either, n in counts if n >= _MOSTLY * whole for opcode in either.split("|"))


def _counts(row: Instruction) -> tuple[tuple[str, float], ...]:
    if row.refused:
        return ()
    return row.expected(OptLevel.O3, form=row.forms(OptLevel.O3)[-1]).counts

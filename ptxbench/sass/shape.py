"""The shape of a machine instruction: what follows its mnemonic, without register numbers."""

from __future__ import annotations

import re
from functools import cache
from itertools import permutations

from ptxbench.sass.operand import Kind, Operand, parse_operands
from ptxbench.sass.program import SassInstruction

_DIGITS = re.compile(r"(?<=P)\d+")
_GENERAL = re.compile(r"(?<!U)R\d")
# The last operand of these says which of two operations they are: the lower (PT) or the higher value (!PT).
_EXTREMES = frozenset({"FMNMX", "FMNMX3", "IMNMX", "VIMNMX", "VIMNMX3", "DMNMX", "HMNMX2"})


def shape_of(instruction: SassInstruction) -> str:
    """Return guard, destination and sources of an instruction without the numbers of its registers.

    Two instructions that do the same work have the same shape, whichever of its opcodes the assembler
    picks: `IADD3 R1, R2, R3, RZ` and `IMAD.IADD R1, R2, 0x1, R3` are both "R < R R". So operands that add
    nothing (RZ, PT) and immediates are left out, and the sources stand in alphabetical order. Kept are the
    guard, signs, halves, constant and uniform operands, whether an address names a register, the truth table
    of a LOP3, and which of the two extremes a minimum or maximum takes.
    """
    return _shape(instruction.predicate, instruction.base, instruction.operands)


@cache
def _shape(predicate: str, base: str, text: str) -> str:
    operands = parse_operands(text)
    results = _results(operands)
    sources = sorted(_part(o) for o in operands[len(results) :] if not o.lost and o.kind not in _PASSED_OVER)
    if base == "LOP3":
        sources.append(f"table {truth_table(operands)}")
    elif base == "PLOP3":
        sources += [o.text for o in operands if o.kind is Kind.IMMEDIATE]
    elif base in _EXTREMES and (len(results) == 1 or len(operands) > len(results) + 2):
        # Of 64 bits, what says which of the two it is stands behind two sources, before a carry.
        chosen = operands[-1 if len(results) == 1 else len(results) + 2].shape
        sources.append("min" if chosen == "PT" else "max" if chosen == "-PT" else "by P")
    return " ".join((_DIGITS.sub("", predicate), *map(_part, results), "<", *sources)).strip()


_RESULTS = frozenset({Kind.REGISTER, Kind.ZERO, Kind.UNIFORM, Kind.UNIFORM_ZERO})
_PASSED_OVER = frozenset({Kind.IMMEDIATE, Kind.LABEL, Kind.OTHER})


def _results(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Return the first operand; where that is a predicate that nobody asks for, also the register behind it.

    Such are "SHFL.IDX PT, R1, ..." and "IMNMX.U64 PT, PT, R2, ...".
    """
    unasked = 0
    while unasked < len(operands) and operands[unasked].kind in (Kind.TRUE, Kind.UNIFORM_TRUE):
        unasked += 1
    if 0 < unasked < len(operands) and operands[unasked].kind in _RESULTS:
        return operands[: unasked + 1]
    return operands[:1]


def _part(operand: Operand) -> str:
    if operand.kind is Kind.ADDRESS:
        # How it is put together is the assembler's choice: [R2.64], [R2.U32+UR4].
        return "[R]" if _GENERAL.search(operand.text) else "[]"
    return operand.shape


def truth_table(operands: tuple[Operand, ...]) -> str:
    """Return what a LOP3 computes, as the table of its inputs that are not RZ; their order does not matter.

    The immediate holds one bit for each value of its inputs a, b, c, at 4 a + 2 b + c (CUDA, "lop3").

    Args:
        operands: Those of the LOP3: destinations, a, b, c, the immediate, a predicate.

    Returns:
        Such as "0001" for a and b, "0110" for a xor b; "?" where the operands are none of a LOP3.
    """
    position = next((n for n in range(len(operands) - 1, -1, -1) if operands[n].kind is Kind.IMMEDIATE), -1)
    table = operands[position].number if position >= 3 else None
    if table is None:
        return "?"
    inputs = operands[position - 3 : position]
    live = [n for n, o in enumerate(inputs) if o.kind not in (Kind.ZERO, Kind.UNIFORM_ZERO)]
    return min(_table(table, order) for order in permutations(live))


def _table(table: int, order: tuple[int, ...]) -> str:
    """Return the bits of a table for all values of the inputs in `order`, the others 0."""
    bits = ""
    for value in range(1 << len(order)):
        index = sum(1 << (2 - place) for n, place in enumerate(order) if value >> (len(order) - 1 - n) & 1)
        bits += str(table >> index & 1)
    return bits

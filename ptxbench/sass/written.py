"""Which of its operands a machine instruction may write."""

from __future__ import annotations

import re
from functools import cache

from ptxbench.sass.operand import Kind, Operand, parse_operands
from ptxbench.sass.program import SassInstruction

# What writes one register, unless a modifier says otherwise. Of anything else the result is taken for as wide
# as its first register allows: a pair begins at an even number, four registers at a multiple of four.
_NARROW = frozenset(
    {
        *("MOV", "SEL", "PRMT", "SHF", "SHL", "SHR", "LOP3", "LOP", "BMSK", "SGXT", "LEA", "POPC", "FLO"),
        *("BREV", "IADD", "IADD3", "IMAD", "IMUL", "IABS", "ISCADD", "IMNMX", "IDP", "VIADD", "VIMNMX"),
        *("VIMNMX3", "VIADDMNMX", "VABSDIFF", "VABSDIFF4", "VHMNMX", "I2I", "I2IP", "I2F", "I2FP", "F2I"),
        *("F2IP", "F2F", "F2FP", "FRND", "FADD", "FMUL", "FFMA", "FSEL", "FSET", "FMNMX", "FMNMX3", "MUFU"),
        *("HADD2", "HMUL2", "HFMA2", "HMNMX2", "HSET2", "SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "S2R"),
        *("S2UR", "B2R", "P2R", "R2UR", "UP2UR", "MOVM", "LD", "LDG", "LDS", "LDL", "LDC", "LDCU"),
        *("ATOM", "ATOMG", "ATOMS"),
    }
)
_PAIRS = frozenset({"DADD", "DMUL", "DFMA", "DMNMX", "CS2R", "CS2UR"})
# One register, though a modifier tells of 64 bits: they read a pair, or make half of one.
_HALVES = ("MUFU.", "SHF.", "CS2R.32", "CS2UR.32")
_QUADS = frozenset({"128", "256"})
# A product of a warpgroup fills up to 128 registers of each thread, one of doubles by a warp 8.
_GROUP_PRODUCT = re.compile(r"[A-Z]+GMMA")
_GROUP_REGISTERS, _DOUBLE_REGISTERS = 128, 8
_ALL_PREDICATES = {
    "PR": frozenset(f"P{n}" for n in range(7)),
    "UPR": frozenset(f"UP{n}" for n in range(8)),
}
_REGISTERS = (Kind.REGISTER, Kind.UNIFORM)
_PREDICATES = (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)
_ZEROS = (Kind.ZERO, Kind.UNIFORM_ZERO)
_TRUE = (Kind.TRUE, Kind.UNIFORM_TRUE)
# They write predicates, and no register.
_COMPARISONS = ("SETP", "SETP2", "FCHK", "PLOP3")
# The predicates that they name are read.
_BRANCHES = ("BRA", "BREAK")
_MOST_RESULTS = 3
# What tells of 64 bits in a conversion's result; what it reads may have as many.
_WIDE_RESULT = {"I2F": {"F64"}, "F2F": {"F64"}, "F2I": {"S64", "U64"}}


def results(instruction: SassInstruction) -> tuple[Operand, ...]:
    """Return the operands that an instruction may write, those that are lost (RZ, PT) among them.

    They stand first: a register and up to two carries (`IADD3 R4, P0, P1, R5, ...`), or up to two predicates
    and a register (`SHFL.IDX P0, R4, ...`). Where that is not clear, there are too many.
    """
    return _results(instruction.opcode, instruction.operands)


def written(instruction: SassInstruction) -> frozenset[str]:
    """Return the registers and predicates that an instruction may write, such as {"R4", "P0"}."""
    return _written(instruction.opcode, instruction.operands)


@cache
def _results(opcode: str, text: str) -> tuple[Operand, ...]:
    operands = parse_operands(text)
    if operands and operands[0].text in _ALL_PREDICATES:
        return operands[:1]
    base = opcode.partition(".")[0]
    if base in _BRANCHES:
        return ()
    if base in ("VOTE", "VOTEU"):
        # All but what is voted on.
        return operands[:-1]
    compares = base.endswith(_COMPARISONS)
    registers = 0 if compares else 1
    count = 0
    for operand in operands[: _MOST_RESULTS - compares]:
        if operand.negative or operand.kind not in (*_REGISTERS, *_ZEROS, *_PREDICATES, *_TRUE):
            break
        if operand.kind in (*_REGISTERS, *_ZEROS):
            if not registers:
                break
            registers -= 1
        count += 1
    return operands[:count]


@cache
def _written(opcode: str, text: str) -> frozenset[str]:
    names: set[str] = set()
    for operand in _results(opcode, text):
        if operand.text in _ALL_PREDICATES:
            return _ALL_PREDICATES[operand.text]
        if operand.kind in _REGISTERS:
            names |= _registers(opcode, operand)
        elif not operand.lost:
            names.add(operand.name)
    return frozenset(names)


def _registers(opcode: str, first: Operand) -> set[str]:
    file, number = ("UR", 2) if first.kind is Kind.UNIFORM else ("R", 1)
    begin = int(first.name[number:])
    return {f"{file}{begin + n}" for n in range(_width(opcode, begin))}


def _width(opcode: str, first: int) -> int:
    """Return how many registers a result that begins at register `first` may fill."""
    base, *modifiers = opcode.split(".")
    if opcode.startswith(_HALVES):
        return 1
    if _GROUP_PRODUCT.fullmatch(base):
        return _GROUP_REGISTERS
    if base == "DMMA":
        return 4 if modifiers[:1] in (["884"], ["8x8x4"]) else _DOUBLE_REGISTERS
    if base in _WIDE_RESULT:
        words = modifiers if base == "F2I" else [word for word in modifiers if word != "FTZ"][:1]
        return 2 if _WIDE_RESULT[base] & set(words) else 1
    if _QUADS & set(modifiers):
        return 4
    if base in _PAIRS or any("64" in word or word == "WIDE" for word in modifiers):
        return 2
    if {base, base.removeprefix("U")} & _NARROW:
        return 1
    return 4 if first % 4 == 0 else 2 if first % 2 == 0 else 1

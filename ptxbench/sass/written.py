"""Which registers and predicates a machine instruction may write, so that nothing overwrites the counter."""

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
_COMPARISONS = ("SETP", "SETP2", "FCHK")
_MOST_RESULTS = 3


def written(instruction: SassInstruction) -> frozenset[str]:
    """Return the names of the registers and predicates that an instruction may write, such as {"R4", "P0"}.

    Results stand first: a register and up to two carries (`IADD3 R4, P0, P1, R5, ...`), or up to two
    predicates and a register (`SHFL.IDX P0, R4, ...`). Where that is not clear, too many are named.
    """
    return _written(instruction.opcode, instruction.operands)


@cache
def _written(opcode: str, text: str) -> frozenset[str]:
    operands = parse_operands(text)
    if operands and operands[0].text in _ALL_PREDICATES:
        return _ALL_PREDICATES[operands[0].text]
    names: set[str] = set()
    # A comparison has no register as a result; of the others each has one.
    registers = 0 if opcode.partition(".")[0].endswith(_COMPARISONS) else 1
    for operand in operands[:_MOST_RESULTS]:
        if operand.kind in _REGISTERS and registers and not operand.negative:
            names |= _registers(opcode, operand)
        elif operand.kind in _PREDICATES and not operand.negative:
            names.add(operand.name)
        elif not operand.lost or (operand.kind in _ZEROS and not registers):
            break
        registers -= operand.kind in (*_REGISTERS, *_ZEROS)
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
        return _DOUBLE_REGISTERS
    if _QUADS & set(modifiers):
        return 4
    if base in _PAIRS or any("64" in word or word == "WIDE" for word in modifiers):
        return 2
    if {base, base.removeprefix("U")} & _NARROW:
        return 1
    return 4 if first % 4 == 0 else 2 if first % 2 == 0 else 1

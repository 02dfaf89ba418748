"""Whether copies compute what their PTX instruction asks for, where its name says so in SASS as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.types import TYPES
from ptxbench.core.condition import OptLevel

# Truth table of two inputs, as sass/shape.py writes it.
_TABLES = {"and": "0001", "or": "0111", "xor": "0110"}
_ADDERS = frozenset({"IADD3", "IADD", "VIADD", "IMAD", "FADD", "DADD", "HADD2", "HFMA2", "FFMA", "DFMA"})
_OPPOSITE = {
    "EQ": {"NE", "NEU"},
    "NE": {"EQ", "EQU"},
    "LT": {"GE", "GEU"},
    "LE": {"GT", "GTU"},
    "GT": {"LE", "LEU"},
    "GE": {"LT", "LTU"},
    "LTU": {"GE"},
    "LEU": {"GT"},
    "GTU": {"LE"},
    "GEU": {"LT"},
    "EQU": {"NE"},
    "NEU": {"EQ"},
    "NUM": {"NAN"},
    "NAN": {"NUM"},
}
_PTX_COMPARISONS = {"LO": "LT", "LS": "LE", "HI": "GT", "HS": "GE"}
# Families whose operands are those of the row, one after the other.
_PLAIN_FAMILIES = frozenset({"arithmetic", "mixed", "compare"})

Shapes = Mapping[tuple[str, str], int]


def check_operation(instruction: Instruction, opt_level: OptLevel, shapes: Shapes) -> str:
    """Return how the copies compute something else than the row's instruction does, or "".

    Args:
        instruction: The row.
        opt_level: Optimization level of the assembler.
        shapes: Opcode and shape of what the target loop has more than the overhead loop, with how many;
            below 0 the overhead loop has more.
    """
    if instruction.family not in _PLAIN_FAMILIES:
        return ""
    stem = instruction.opcode.partition(".")[0]
    more = {key: n for key, n in shapes.items() if n > 0}
    if stem in _TABLES:
        return _wrong_table(_TABLES[stem], more)
    if stem in ("add", "sub"):
        return _wrong_sign(stem, more)
    if stem in ("min", "max"):
        return _wrong_extreme(stem, more)
    if stem == "setp" and opt_level is OptLevel.O3:
        return _wrong_choice(instruction, shapes)
    return ""


def _wrong_table(wanted: str, shapes: Shapes) -> str:
    for opcode, shape in shapes:
        table = shape.rpartition(" table ")[2]
        if opcode.startswith("LOP3") and len(table) == len(wanted) and table != wanted:
            return f"{opcode} computes the truth table {table} where {wanted} was wanted"
    return ""


def _wrong_sign(stem: str, shapes: Shapes) -> str:
    negated = sum(n * _sources(shape).count("-R") for (opcode, shape), n in shapes.items() if _adds(opcode))
    if stem == "add" and negated:
        return f"{negated} operands are subtracted where copies add"
    if stem == "sub" and not negated and any(_adds(opcode) for opcode, _ in shapes):
        return "no operand is subtracted where copies subtract"
    return ""


def _adds(opcode: str) -> bool:
    return opcode.partition(".")[0] in _ADDERS


def _sources(shape: str) -> list[str]:
    return [source.partition(".")[0] for source in shape.partition(" <")[2].split()]


def _wrong_extreme(stem: str, shapes: Shapes) -> str:
    other = "min" if stem == "max" else "max"
    for opcode, shape in shapes:
        if "MNMX" in opcode and shape.endswith(f" {other}"):
            return f"{opcode} takes the {other} where copies take the {stem}"
    return ""


def _wrong_choice(instruction: Instruction, shapes: Shapes) -> str:
    """Compare the comparison that the SASS makes, and how it is taken up, with the one that PTX asks for.

    ptxas may compare for the opposite, and choose by the inverted predicate.
    """
    comparison = instruction.opcode.split(".")[1].upper()
    comparison = _PTX_COMPARISONS.get(comparison, comparison)
    words = [
        word
        for opcode, _ in shapes
        if "SETP" in opcode and shapes[opcode, _] > 0
        for word in opcode.split(".")
        if word in _OPPOSITE
    ]
    choices = Counter[bool]()
    for (opcode, shape), n in shapes.items():
        if opcode.partition(".")[0] in ("SEL", "FSEL"):
            choices["-P" in _sources(shape)] += n
    if len(set(words)) != 1 or comparison not in _OPPOSITE:
        return ""
    if words[0] in _OPPOSITE[comparison] and choices[True] <= 0:
        return f"the copies compare for {words[0]}, and choose by it where {comparison} was wanted"
    if words[0] == comparison and choices[True] > 0:
        return f"the copies compare for {comparison}, and choose by its opposite"
    return ""


def check_sources(instruction: Instruction, shapes: Shapes, once: int) -> str:
    """Return how a copy reads fewer registers than its PTX instruction names, or "".

    An operand that became a constant, a uniform register or RZ costs another energy.

    Args:
        instruction: A row whose copies become one machine instruction each.
        shapes: As for `check_operation`, of the copies' opcode alone.
        once: How many instructions a pass may have besides the copies.
    """
    if instruction.family not in ("arithmetic", "mixed") or instruction.before or instruction.after:
        return ""
    sources = [part for token in instruction.operands[1:] for part in token.split("|") if part.isalpha()]
    wanted = sum(TYPES[instruction.type_of(role)].register != "pred" for role in sources if len(role) == 1)
    wanted -= sum(role in ("p",) for role in sources)
    for (opcode, shape), n in shapes.items():
        found = sum(source.strip("-|") == "R" for source in _sources(shape))
        if n > once and found < wanted:
            return f"{opcode} reads {found} registers where the copies name {wanted}"
    return ""

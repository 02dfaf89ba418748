"""Whether all copies of a loop are the same work: their shapes in the target loop against those of 2N."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ptxbench.catalogue.model import Expectation
from ptxbench.sass.program import SassInstruction
from ptxbench.sass.shape import shape_of

# What ptxas takes one for the other, where a row does not say so itself.
_EITHER = {"VIADD": "IADD3"}
# What has a result that a row need not take up.
_RESULT_UNUSED = ("ATOM", "SYNCS", "BMOV")
# From so many instructions a copy on, ptxas arranges the first and last copies of each chain as it likes:
# as many instructions of one opcode as a copy has, but at least these, may have another shape.
_LONG, _ENDS = 3, 8
_NEVER = ("@!PT", "@!UPT")
_LOST = frozenset({"RZ", "URZ", "PT", "UPT"})


def shapes_beyond(
    target: tuple[SassInstruction, ...], overhead: tuple[SassInstruction, ...]
) -> Counter[tuple[str, str]]:
    """Return opcode and shape of what the target loop has more (below 0: less) than the overhead loop."""
    found = Counter((i.opcode, shape_of(i)) for i in target)
    found.subtract((i.opcode, shape_of(i)) for i in overhead)
    return Counter({key: n for key, n in found.items() if n})


def check_alike(
    expected: Expectation, once: Mapping[tuple[str, str], int], twice: Mapping[tuple[str, str], int]
) -> str:
    """Return which shape is not there twice as often with twice the copies, or "".

    The catalogue says by how many one pass may differ (`once`), by kind of opcode.

    Args:
        expected: The row's expectation.
        once: Shapes of N copies.
        twice: Shapes of 2N copies.
    """
    either = dict(_EITHER)
    allowed: Counter[str] = Counter()
    for alternatives, _ in expected.counts:
        either |= dict.fromkeys(alternatives.split("|"), alternatives)
    for alternatives, times in expected.once:
        first = alternatives.split("|")[0]
        either |= {o: either.get(first, alternatives) for o in alternatives.split("|") if o not in either}
        allowed[either[first]] += abs(times)
    single = sum(n for _, n in expected.counts) == 1
    length = int(sum(n for _, n in expected.counts))
    slack = max(length, _ENDS) if length >= _LONG else 0
    less: dict[str, Counter[str]] = {}
    for counts, factor in ((once, 2), (twice, -1)):
        for (opcode, shape), n in counts.items():
            if not single and _moves(opcode, shape):
                shape = "a move"
            elif slack and opcode.startswith(("SEL", "FSEL")):
                shape = shape.replace(
                    "-P", "P"
                )  # the inverted predicate, and the operands the other way round
            less.setdefault(either.get(opcode, opcode), Counter())[shape] += factor * n
    for opcode, shapes in less.items():
        if sum(abs(n) for n in shapes.values()) > allowed[opcode] + slack:
            strange = min((s for s, n in shapes.items() if n), key=lambda s: (-shapes[s], s))
            return f"not all copies are alike: {opcode} {strange}"
    return ""


def check_guarded(expected: Expectation, shapes: Mapping[tuple[str, str], int], copies: int) -> str:
    """Return how other instructions than the row declares stand under a predicate of the copies', or "".

    Args:
        expected: The row's expectation.
        shapes: What the target loop has more than the overhead loop.
        copies: Copies in the loop.
    """
    found = sum(n for (opcode, shape), n in shapes.items() if _is_guarded(opcode, shape))
    wanted = expected.guarded * copies
    slack = _ENDS if expected.guarded and sum(n for _, n in expected.counts) >= _LONG else 0
    if wanted - slack <= found <= wanted:
        return ""
    return f"{found} instructions stand under a predicate where {copies} copies make {wanted}"


def _is_guarded(opcode: str, shape: str) -> bool:
    """Return whether a predicate decides on it; filler never takes place, and branches are declared."""
    return shape.startswith("@") and not shape.startswith(_NEVER) and not opcode.startswith("BRA")


def _moves(opcode: str, shape: str) -> bool:
    """Return whether an instruction moves a register or a constant: ptxas has several for that."""
    if opcode.startswith(("MOV", "IMAD.MOV")):
        return True
    # IMAD.U32 R1, RZ, RZ, UR4 and HFMA2 R1, -RZ, RZ, 0, 0.
    return shape in ("R <", "R < UR") and opcode.startswith(("IMAD.U32", "HFMA2"))


def check_results(shapes: Mapping[tuple[str, str], int]) -> str:
    """Return which instruction's result is lost, or "": it is written to RZ or PT, and carries nothing on."""
    for (opcode, shape), n in shapes.items():
        first = shape.partition(" <")[0].split()
        lost = bool(first) and all(part in _LOST for part in first if part[0] != "@")
        carries = "P" in shape.partition(" <")[2].split()
        filler = shape.startswith(_NEVER)
        if n > 0 and lost and not carries and not filler and not opcode.startswith(_RESULT_UNUSED):
            return f"the result of {opcode} is lost ({shape})"
    return ""

"""Trip counts that a loop's own code shows: a counter that is set, stepped and compared with constants."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ptxbench.emulator.sass.integer import COMPARES
from ptxbench.sass.program import SassInstruction

_REGISTER = re.compile(r"^U?R\d+$")


def counted_trips(
    code: Sequence[SassInstruction], body: Sequence[SassInstruction], tail: Sequence[SassInstruction]
) -> int | None:
    """Return the trip count of `for (i = a; i OP b; i += c)` with a, b and c immediates, else None.

    The counter must be set once before the loop, stepped once in it, and compared with an immediate there.

    Args:
        code: The function.
        body: What is in the loop.
        tail: Its last block, whose last instruction jumps back.
    """
    branch = tail[-1]
    predicate = branch.predicate.lstrip("@!")
    compares = [i for i in body if i.base in ("ISETP", "UISETP") and _words(i)[:1] == [predicate]]
    # Others may write the predicate in other blocks, and then the counter must not be that of a loop inside.
    written = [i for i in tail if predicate in _words(i)[:2]]
    shared = len(compares) > 1
    if written:
        compares = [i for i in compares if i is written[-1]]
    if len(compares) != 1:
        return None
    register, bound = _compared(compares[0])
    if register is None or bound is None:
        return None
    steps = [i for i in body if _words(i)[:1] == [register]]
    if shared and steps and steps[0] not in tail:
        return None
    inside = {i.address for i in body}
    starts = [
        i
        for i in code
        if i.address < branch.address and i.address not in inside and _words(i)[:1] == [register]
    ]
    if len(steps) != 1 or not starts:
        return None
    step, start = _step(steps[0], register), _immediate(starts[-1])
    if not step or start is None:
        return None
    return _trips(start, bound, step, compares[0], branch, steps[0].address < compares[0].address)


def _trips(
    start: int, bound: int, step: int, compare: SassInstruction, branch: SassInstruction, stepped_first: bool
) -> int | None:
    how, *kind = compare.opcode.split(".")[1:]
    goes_on = COMPARES.get(how)
    if goes_on is None:
        return None
    if "U32" in kind and how not in ("EQ", "NE"):
        start, bound = start % (1 << 32), bound % (1 << 32)
    wanted = not branch.predicate.startswith("@!")
    first = start + step if stepped_first else start
    # Until the counter is at the bound or passes it no compare changes.
    near = (bound - first) // step
    ends = (
        passes
        for passes in (1, near + 1, near + 2)
        if passes > 0 and goes_on(first + (passes - 1) * step, bound) is not wanted
    )
    return next(ends, None)


def _compared(compare: SassInstruction) -> tuple[str | None, int | None]:
    """Return the register and the immediate of a compare such as `P0, PT, R2, 0x80, PT`, and of no more."""
    words = _words(compare)[2:]
    if words[2:3] in ([], ["PT"], ["UPT"]) and len(words) > 1 and _REGISTER.match(words[0]):
        return words[0], _integer(words[1])
    return None, None


def _step(instruction: SassInstruction, register: str) -> int:
    """Return what an addition such as `R2, R2, 0x1, RZ` adds to its own register; 0 where it is none."""
    if instruction.base not in ("IADD3", "VIADD", "UIADD3", "IADD") or instruction.predicate:
        return 0
    words = [word for word in _words(instruction)[1:] if not word.startswith(("P", "!P", "UP", "!UP"))]
    if register not in words:
        return 0
    words.remove(register)
    numbers = [0 if word in ("RZ", "URZ") else _integer(word) for word in words]
    return sum(n for n in numbers if n is not None) if None not in numbers else 0


def _immediate(instruction: SassInstruction) -> int | None:
    """Return the constant that an instruction moves to its register, None where it does not."""
    words = _words(instruction)
    if instruction.base in ("MOV", "UMOV", "MOV32I") and len(words) > 1:
        return 0 if words[1] in ("RZ", "URZ") else _integer(words[1])
    if instruction.base in ("CS2R",) and "SRZ" in words:
        return 0
    if instruction.opcode.startswith("IMAD.MOV") and len(words) > 3 and words[1:3] == ["RZ", "RZ"]:
        return 0 if words[3] == "RZ" else _integer(words[3])
    if instruction.opcode == "HFMA2.MMA" and len(words) > 4 and words[1:3] == ["-RZ", "RZ"]:
        return packed_halves(words[3], words[4])
    return None


def packed_halves(high: str, low: str) -> int | None:
    """Return the word whose halves are two floats: ptxas writes constants so, to spare another pipe."""
    try:
        halves = np.array([float(low), float(high)], np.float16)
    except ValueError:
        return None
    return int(halves.view(np.int32)[0])


def _words(instruction: SassInstruction) -> list[str]:
    return [word.strip().removesuffix(".reuse") for word in instruction.operands.split(",")]


def _integer(word: str) -> int | None:
    """Return an immediate as a signed 32-bit number, None for what is none."""
    try:
        number = int(word, 0)
    except ValueError:
        return None
    return number - (1 << 32) if number >= 1 << 31 else number

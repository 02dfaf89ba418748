"""PTX text as the reference reads it: kernels, their lines, operands and constants."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ptxbench.emulator.bits import Opcode, UnknownInstructionError

_LINE = re.compile(
    r"\s*(?:@(?P<negated>!?)(?P<guard>%\w+)\s+)?(?P<opcode>[a-z][\w.:]*)(?:\s+(?P<operands>[^;]*))?;"
)
_BACK = re.compile(r"^.*\bbra\S* +again;\n", re.MULTILINE)
_LABEL = re.compile(r"(\w+):\s*$")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")


@dataclass(frozen=True)
class Line:
    """One instruction: opcode, operands, and its guard (a predicate's register and whether it is negated)."""

    opcode: Opcode
    operands: tuple[str, ...]
    guard: str
    negated: bool


def kernel_body(ptx: str, entry: str) -> str:
    """Return the text between the braces of a kernel."""
    begin = ptx.index(f".visible .entry {entry}(")
    return ptx[ptx.index("{\n", begin) : ptx.index("\n}\n", begin)]


def parted(text: str) -> tuple[str, str, str]:
    """Return what is before, in and after the loop.

    Raises:
        UnknownInstructionError: There is a label within a part: control flow of its own.
    """
    prologue, _, rest = text.partition("again:\n")
    loop, *rests = _BACK.split(rest, maxsplit=1)
    epilogue = "".join(rests).replace("done:", "")
    for part in (prologue, loop, epilogue):
        if any(_LABEL.match(line.strip()) for line in part.splitlines()):
            raise UnknownInstructionError("a label within the kernel")
    return prologue, loop, epilogue


def lines(text: str) -> Iterator[Line]:
    """Return the instructions of a text."""
    for written in text.splitlines():
        found = _LINE.match(written.partition("//")[0])
        if found:
            operands = tuple(o.strip() for o in _OPERAND.findall(found["operands"] or ""))
            yield Line(Opcode(found["opcode"]), operands, found["guard"] or "", bool(found["negated"]))


def parts_of(braced: str) -> Sequence[str]:
    """Return the registers that stand in braces."""
    return [part.strip() for part in braced.strip("{} ").split(",")]


def constant(text: str, op: Opcode) -> int:
    """Return the bits of a constant."""
    try:
        if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", text):
            return int(text[2:], 16)
        if re.fullmatch(r"-?\d+\.\d*(?:[eE][-+]?\d+)?", text):
            code = ("<d", "<Q") if op.kind.bits == 64 else ("<f", "<I")
            return int(struct.unpack(code[1], struct.pack(code[0], float(text)))[0])
        return int(text, 0) & ((1 << 64) - 1)
    except ValueError:
        raise op.unknown() from None


def inverse(op: Opcode) -> str:
    """Return the comparison that holds where this one does not, for the second predicate of setp."""
    turned = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
    name = next((m for m in op.modifiers if m in turned), "")
    if not name or op.kind.scalar or len(op.modifiers) > 1:
        raise op.unknown()
    return op.text.replace(f".{name}.", f".{turned[name]}.")

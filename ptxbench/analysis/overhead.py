"""Which overhead loops are one and the same, so that each is measured once for all rows that share it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.values import drawn_as
from ptxbench.core.condition import Pattern, lanes_key
from ptxbench.core.threads import WARP
from ptxbench.sass.loop import find_loop
from ptxbench.sass.program import SassKernel
from ptxbench.storage.schema import Role

OVERHEAD_ROLES = (Role.OVERHEAD, Role.OVERHEAD_2N)
OVERHEAD_PREFIX = "overhead"
# 64 bits of the hash: a run has hundreds of overhead loops.
_DIGITS = 16
# Labels are numbered through a module, so that one loop has other labels in another module.
_LABEL = re.compile(r"`?\(?\.L_x?_?\w+\)?")
_REGISTER = re.compile(r"\b(U?[RP])(\d+)\b")
# General registers lie in two banks by their parity since Volta, and two reads of one bank take longer.
_BANKS = 2
# What the companions of an overhead loop compute with.
_COMPANION_ROLES = ("x", "w", "m", "n")
# The move that never happens and holds a chain in the loop becomes a SEL or FSEL, which reads both anyhow:
# one such loop took 6% less on the values of add.f32 than on those of fma.rn.f32 (studies/h200/power.md).
_HOLDS = re.compile(r"^\W*[UF]?SEL\b", re.MULTILINE)
_HELD_ROLES = ("x", "a")


class Alike(Enum):
    """What loops that read their values must have in common to be one, beside their machine code.

    Runs name loops by the first of these; those that began before it by one of the others.
    """

    BITS = "the same bits"
    TYPES = "one type of values"
    CODE = "nothing, unless companions compute in them"


def overhead_loops(instruction: Instruction, kernels: Mapping[str, SassKernel]) -> dict[Role, str]:
    """Return the machine code of each overhead kernel's loop as one text, by role.

    Args:
        instruction: Catalogue row.
        kernels: Its module's kernels, which passed the loop check.

    Raises:
        LoopError: A kernel has no loop.
    """
    roles = OVERHEAD_ROLES if instruction.companions else OVERHEAD_ROLES[:1]
    return {role: _loop_text(kernels[role]) for role in roles}


def with_plain_companions(instruction: Instruction) -> Instruction:
    """Return a row as in runs until 2026-11-23, whose companions had no values of their own.

    Since then a row whose chains would settle has its companions' factor or addend drawn otherwise, and so
    overhead loops under another name.
    """
    plain = tuple((role, values) for role, values in instruction.values_of if role not in ("m", "n"))
    return replace(instruction, values_of=plain)


def overhead_subject(
    instruction: Instruction,
    loop: str,
    role: Role,
    pattern: Pattern,
    shape: str,
    alike: Alike = Alike.BITS,
    lanes: int = WARP,
) -> str:
    """Return the name under which an overhead kernel is measured: the same for all rows that share it.

    Two kernels are the same where their loops are the same machine code, launched in the same shape with as
    many lanes on the same pattern. A loop of companions computes, and one without may read its chains by a
    select, so that its energy depends on the operands: there the values count too. Any other only mixes its
    counter into one.

    Args:
        instruction: Catalogue row that the kernel is of.
        loop: Its loop (`overhead_loops`).
        role: Which overhead kernel.
        pattern: Operand pattern.
        shape: Blocks and threads, such as "132x1024".
        alike: What makes two loops that read their values one.
        lanes: Active lanes of each warp.
    """
    parts = [loop, role, shape, pattern, *lanes_key(lanes)]
    roles: tuple[str, ...] = _COMPANION_ROLES if instruction.companions else ()
    if alike is not Alike.CODE and not instruction.companions and _HOLDS.search(loop):
        roles = _HELD_ROLES
    for operand in roles:
        values, of_type = instruction.values_for(operand), instruction.type_of(operand)
        drawn = drawn_as(values, of_type) if alike is Alike.BITS else f"{values} {of_type}"
        parts.append(f"{operand} {drawn}")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]
    return f"{OVERHEAD_PREFIX}/{digest}"


def _loop_text(kernel: SassKernel) -> str:
    """Return a loop's instructions, one a line, with what names but does not change it taken out.

    Addresses and labels are left out; registers are numbered by their first appearance, bank by bank.
    """
    loop = find_loop(kernel)
    text = "\n".join(_LABEL.sub("L", str(instruction)) for instruction in loop.instructions)
    numbers: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        kind, bank = found[1], int(found[2]) % _BANKS if found[1] == "R" else 0
        return numbers.setdefault(found[0], f"{kind}{bank}.{len(numbers)}")

    return _REGISTER.sub(renamed, text)

"""Addition, subtraction and multiplication with a carry, for the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptxbench.emulator.bits import Bits, Opcode, masked, multiply_high

CARRYING = frozenset({"add", "addc", "sub", "subc", "mad", "madc"})


def carry_operation(op: Opcode, sources: Sequence[Bits], carry: Bits) -> tuple[Bits, Bits]:
    """Return the result of an instruction that takes or gives a carry, and the carry after it.

    Args:
        op: The opcode: add, sub or mad, with .cc, with c ("addc"), or both.
        sources: The operands.
        carry: The carry before it, 0 or 1.

    Raises:
        UnknownInstructionError: It has a modifier besides.
    """
    op.only("cc", "lo", "hi")
    taken = carry if op.base.endswith("c") else np.zeros_like(carry)
    a, b = sources[0], sources[-1]
    if op.base.startswith("mad"):
        if not op.modifiers & {"lo", "hi"}:
            raise op.unknown()
        kind = op.kind
        a = multiply_high(a, sources[1], kind) if "hi" in op.modifiers else masked(a * sources[1], kind.bits)
    if op.base.startswith("sub"):
        result = masked(a - b - taken, op.kind.bits)
        given = (a < b) | ((a == b) & (taken != 0))
    else:
        result = masked(a + b + taken, op.kind.bits)
        given = (result < a) | ((result == a) & (taken != 0))
    return result, given.astype(np.uint64) if "cc" in op.modifiers else carry

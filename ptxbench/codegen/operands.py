"""Operand values: what each thread's record holds, so that chains stay finite and varied.

A record is 44 slots of 8 bytes, by role. Of four chains each it has x, its partner w and the companions'
addend n. Of four sets each, which the chains share, it has a, c, d and the companions' factor m. And it has b
of four sets and four chains. The energy of an instruction depends on the bits that toggle, so every value
differs by thread and copy, and no chain may settle.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.model import Instruction
from ptxbench.codegen.alike import apart_by, refuse_alike, stand_still
from ptxbench.codegen.values import CHAINS, GENERATORS, NEVER_ZERO, RECORDS, SETS, Slots
from ptxbench.core.condition import Pattern
from ptxbench.core.errors import InputError, NotMeasurableError
from ptxbench.core.threads import WARP

PER_CHAIN, PER_SET = ("x", "w", "n"), ("a", "c", "d", "m")
_ROLES = (*PER_CHAIN, *PER_SET, "b")
_FIRST_SLOT = {role: 4 * place for place, role in enumerate(_ROLES)}
SLOTS = _FIRST_SLOT["b"] + SETS * CHAINS
RECORD_BYTES = 8 * SLOTS


def operand_bytes(instruction: Instruction, pattern: Pattern, seed: int) -> npt.NDArray[np.uint8]:
    """Return the input buffer of an instruction's kernels.

    Args:
        instruction: Catalogue row; its `values` names the generator, role by role.
        pattern: What the operands are.
        seed: Seed of the random operands.

    Returns:
        uint8, shape (RECORDS * RECORD_BYTES,).

    Raises:
        InputError: The row names no known generator.
        NotMeasurableError: The row, or a generator, has no such pattern.
    """
    refuse_alike(instruction, pattern)
    generators = {role: instruction.values_for(role) for role in _ROLES}
    for values in generators.values():
        if values not in GENERATORS:
            raise InputError(f"instruction {instruction.name}: no operand values called {values!r}")
    slots: Slots = np.zeros((RECORDS, SLOTS), np.uint64)
    if pattern is Pattern.ZEROS:
        for values in generators.values():
            if values in NEVER_ZERO:
                raise NotMeasurableError(
                    f"instruction {instruction.name}: no pattern zeros; {NEVER_ZERO[values]}"
                )
    else:
        rng = np.random.default_rng(seed)
        for role, values in generators.items():
            begin, end = _FIRST_SLOT[role], _FIRST_SLOT[role] + _width(role)
            ptx_type = instruction.type_of(role)
            drawn = GENERATORS[values](role, ptx_type, rng, end - begin)
            if pattern.bits_apart is not None:
                flips = np.random.default_rng((seed, begin))
                drawn = apart_by(drawn, values, ptx_type, pattern.bits_apart, flips)
            slots[:, begin:end] = stand_still(drawn, role, instruction) if pattern.is_still else drawn
    if pattern is Pattern.UNIFORM:
        slots = np.repeat(slots[::WARP], WARP, axis=0)
    return slots.reshape(-1).view(np.uint8)


def slot_of(role: str, set_number: int, chain: int) -> int:
    """Return the slot of an operand: by chain, by set, or (b) by set and chain."""
    if role in PER_CHAIN:
        return _FIRST_SLOT[role] + chain
    return _FIRST_SLOT[role] + (set_number if role in PER_SET else set_number * CHAINS + chain)


def _width(role: str) -> int:
    return SETS * CHAINS if role == "b" else 4

"""Operand values: what each thread's record holds, so that chains stay finite and varied.

A record is 40 slots of 8 bytes: x of four chains; a of four sets, which the chains share; b and c
of four sets and four chains. The energy of an instruction depends
on the bits that toggle, so every value differs by thread and copy, and no chain may settle.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.model import Instruction
from ptxbench.errors import InputError, NotMeasurableError

RECORDS = 4096
SETS = 4
CHAINS = 4
_FIRST_SLOT = {"x": 0, "a": CHAINS, "b": CHAINS + SETS, "c": CHAINS + SETS + SETS * CHAINS}
SLOTS = _FIRST_SLOT["c"] + SETS * CHAINS
RECORD_BYTES = 8 * SLOTS
_X = slice(0, CHAINS)
_A = slice(CHAINS, CHAINS + SETS)
_B = slice(_FIRST_SLOT["b"], _FIRST_SLOT["c"])

Slots = npt.NDArray[np.uint64]
_Generator = np.random.Generator
_Floats = npt.NDArray[np.float64]


class Pattern(StrEnum):
    """What the operands are."""

    RANDOM = "random"
    ZEROS = "zeros"


def operand_bytes(instruction: Instruction, pattern: Pattern, seed: int) -> npt.NDArray[np.uint8]:
    """Return the input buffer of an instruction's kernels.

    Args:
        instruction: Catalogue row; its `values` names the generator.
        pattern: What the operands are.
        seed: Seed of the random operands.

    Returns:
        uint8, shape (RECORDS * RECORD_BYTES,).

    Raises:
        InputError: The row names no known generator.
        NotMeasurableError: The generator has no such pattern.
    """
    if instruction.values not in _GENERATORS:
        raise InputError(f"instruction {instruction.name}: no operand values called {instruction.values!r}")
    if pattern is Pattern.ZEROS:
        if instruction.values == "quotient":
            raise NotMeasurableError(
                f"instruction {instruction.name}: no pattern zeros; 0 / 0 takes another path"
            )
        slots = np.zeros((RECORDS, SLOTS), np.uint64)
    else:
        slots = _GENERATORS[instruction.values](instruction.type, np.random.default_rng(seed))
    return slots.reshape(-1).view(np.uint8)


def slot_of(role: str, set_number: int, chain: int) -> int:
    """Return the slot of an operand: x by chain, a by set, b and c by set and chain."""
    place = {"x": chain, "a": set_number}.get(role, set_number * CHAINS + chain)
    return _FIRST_SLOT[role] + place


def encode(values: _Floats, ptx_type: str, partner: _Floats | None = None) -> Slots:
    """Return floats as the bits of a PTX type, one value an 8-byte slot.

    Args:
        values: Any shape.
        ptx_type: "f16x2", "f32" or "f64".
        partner: The upper halves of f16x2, same shape as `values`.
    """
    if ptx_type == "f64":
        return values.astype(np.float64).view(np.uint64)
    if ptx_type == "f32":
        return values.astype(np.float32).view(np.uint32).astype(np.uint64)
    upper = values if partner is None else partner
    low, high = (v.astype(np.float16).view(np.uint16).astype(np.uint64) for v in (values, upper))
    return low | (high << np.uint64(16))


def _integer(_type: str, rng: _Generator) -> Slots:
    """Random words; the factors (a) odd, so that multiplying loses no bit."""
    slots = rng.integers(0, 1 << 32, (RECORDS, SLOTS), dtype=np.uint64)
    slots[:, _A] |= np.uint64(1)
    return slots


def _cycle(ptx_type: str, rng: _Generator) -> Slots:
    """Factors that alternate above and below 1 with a product under 1, and addends of 1 to 2.

    x = a x + b then tends to a cycle of SETS values: varied, finite, and never a fixed point.
    """

    def draw() -> _Floats:
        sign = rng.choice([-1.0, 1.0], (RECORDS, SLOTS))
        values = sign * rng.uniform(1.0, 2.0, (RECORDS, SLOTS))
        values[:, CHAINS + 1 : CHAINS + SETS : 2] /= 4.0
        return values

    return encode(draw(), ptx_type, draw() if ptx_type == "f16x2" else None)


def _zero_sum(ptx_type: str, rng: _Generator) -> Slots:
    """Addends that sum to zero on a grid on which every partial sum is exact in binary."""
    grid = 2.0**-16
    values = rng.integers(-(1 << 17), 1 << 17, (RECORDS, SLOTS)).astype(np.float64) * grid
    addends = values[:, _B].reshape(RECORDS, SETS, CHAINS)
    addends[:, -1] = -addends[:, :-1].sum(axis=1)
    values[:, _B] = addends.reshape(RECORDS, -1)
    return encode(values, ptx_type)


def _quotient(ptx_type: str, rng: _Generator) -> Slots:
    """One dividend for all sets of a chain: x = b / x then alternates between two values."""
    if ptx_type == "u32":
        slots = rng.integers(1 << 30, 1 << 32, (RECORDS, SLOTS), dtype=np.uint64)
        slots[:, _X] = rng.integers(1 << 8, 1 << 16, (RECORDS, CHAINS), dtype=np.uint64)
        slots[:, _B] = np.tile(slots[:, _B][:, :CHAINS], SETS)
        return slots
    values = rng.uniform(1.0, 2.0, (RECORDS, SLOTS)) * 2.0 ** rng.integers(-8, 8, (RECORDS, SLOTS))
    values[:, _B] = np.tile(values[:, _B][:, :CHAINS], SETS)
    return encode(values, ptx_type)


def _exponent(ptx_type: str, rng: _Generator) -> Slots:
    """Factors under 0.2 and addends under 0.8: |x| stays under 4 and 2**x between 1/16 and 16."""
    values = rng.uniform(-0.8, 0.8, (RECORDS, SLOTS))
    values[:, _A] = rng.choice([-1.0, 1.0], (RECORDS, SETS)) * rng.uniform(0.1, 0.2, (RECORDS, SETS))
    return encode(values, ptx_type)


def _none(_type: str, _rng: _Generator) -> Slots:
    """The kernel makes its own values."""
    return np.zeros((RECORDS, SLOTS), np.uint64)


_GENERATORS: dict[str, Callable[[str, _Generator], Slots]] = {
    "integer": _integer,
    "cycle": _cycle,
    "zero_sum": _zero_sum,
    "quotient": _quotient,
    "exponent": _exponent,
    "none": _none,
}

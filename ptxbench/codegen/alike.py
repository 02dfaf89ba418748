"""Operands that are alike: in lanes of a warp, in all bits or all but some, and in all copies of a thread.

Bits that differ between the halves of a warp are chosen so that what a chain makes of them differs in hardly
more: the upper ones of whole numbers, since no sum, product or logic operation carries downwards, and the
lower ones of a float's fraction.
"""

from __future__ import annotations

import numpy as np

from ptxbench.catalogue.model import Instruction
from ptxbench.catalogue.types import TYPES
from ptxbench.codegen.values import Slots
from ptxbench.core.condition import LANE_PATTERNS, Pattern
from ptxbench.core.errors import NotMeasurableError
from ptxbench.core.threads import WARP

_HALF = WARP // 2
# Bits of a format's fraction, without the leading one.
_FRACTION_BITS = {"f64": 52, "f32": 23, "tf32": 10, "f16": 10, "bf16": 7}
# Generators of values of which any bit of a whole number or a fraction may change; others are drawn from a
# few numbers (shifts), or fit together (addends that sum to zero).
_ANY_BITS = ("integer", "odd", "even", "cycle", "unit", "positive", "exponent")
_WORD_BITS = 32
# What a copy works on that no lane has in registers of its own: memory, addresses, special registers, words
# of a warp.
_FAMILIES_WITHOUT_OWN = ("async", "chase", "uniform", "wgmma")
_FROM_ELSEWHERE = ("load", "prefetch", "read", "ask")
# Bare chains, x = x a + b, that tend to one value where the factors are small, or even.
_CONTRACTING = ("fma.", "mad.lo.")
# Opcodes that put the bits of an operand elsewhere, or choose between operands by them: the multiply-add
# behind each carries the difference on, and all bits of the next operand differ.
_MOVES_BITS = (
    *("popc.", "clz.", "bfind.", "brev.", "bfe.", "shr.", "shf.r", "min.", "max.", "slct.", "selp.", "set"),
    *("cvt.sat.", "mul.hi.", "mad.hi.", "madc.", "mad.lo.cc."),
)
_SMALL_FACTOR = 1  # of "cycle", the sets of odd number are below 1/2


def refuse_alike(instruction: Instruction, pattern: Pattern) -> None:
    """Refuse a row whose operands cannot be alike as a pattern says.

    Raises:
        NotMeasurableError: It is such a row.
    """
    if pattern in LANE_PATTERNS and (why := _refusal(instruction, pattern)):
        raise NotMeasurableError(f"instruction {instruction.name}: no pattern {pattern}; {why}")


def _refusal(instruction: Instruction, pattern: Pattern) -> str:
    loads_any = any(instruction.values_for(role) != "none" for role in "xwnacdmb")
    does = dict(instruction.params).get("does")
    if instruction.family in _FAMILIES_WITHOUT_OWN or does in _FROM_ELSEWHERE or not loads_any:
        return "what it works on is not in registers that each lane has of its own"
    if pattern.bits_apart and instruction.values_for("x") not in _ANY_BITS:
        return "its values fit together, so that no bit can be changed alone"
    if pattern.bits_apart and not pattern.is_still and instruction.opcode.startswith(_MOVES_BITS):
        return f"{instruction.opcode} moves bits to other places, so that all differ after a copy or two"
    bare = instruction.family == "arithmetic" and instruction.opcode.startswith(_CONTRACTING)
    mixed = instruction.family == "mixed" and instruction.companions == 1
    addend = instruction.mixer is not None and instruction.mixer.addend
    if pattern.is_still and not (bare or (mixed and addend) or does == "store"):
        return "its chain goes on from value to value"
    return ""


def apart_by(slots: Slots, values: str, ptx_type: str, bits: int, rng: np.random.Generator) -> Slots:
    """Return operands of which the upper half of each warp has those of the lower, with some bits changed.

    Args:
        slots: Operands of a role, shape (records, width).
        values: Their generator.
        ptx_type: PTX type of the role.
        bits: How many of 32 bits change, by mean; of a float as large a share of its fraction.
        rng: Source of the bits.
    """
    by_lane = slots.reshape(-1, WARP, slots.shape[-1]).copy()
    lower = by_lane[:, :_HALF]
    flips = rng.integers(0, 1 << 64, lower.shape, dtype=np.uint64)
    mask = _mask(ptx_type, bits) if values in _ANY_BITS else 0
    by_lane[:, _HALF:] = lower ^ (flips & np.uint64(mask))
    return by_lane.reshape(slots.shape)


def _mask(ptx_type: str, bits: int) -> int:
    """Return the bits of a type each of which changes in half of the lanes."""
    kind = TYPES[ptx_type]
    each = kind.bits // kind.lanes
    width = _FRACTION_BITS.get(kind.scalar, each)
    count = max(round(2 * bits * width / _WORD_BITS), 1) if bits else 0
    part = (1 << count) - 1 if kind.scalar else ((1 << count) - 1) << (width - count)
    # The low 13 bits of a tf32 are none of its fraction.
    part <<= 13 if kind.scalar == "tf32" else 0
    return sum(part << (lane * each) for lane in range(kind.lanes))


def stand_still(slots: Slots, role: str, instruction: Instruction) -> Slots:
    """Return operands of a role by which all chains have one value, and keep it.

    With a companion's factor of 0 the next x is its addend. A bare chain x = x a + b tends to one value: all
    whole numbers are there after 32 copies with even factors, floats with factors below 1/2 soon after.

    Args:
        slots: Operands of a role, shape (records, width).
        role: The role.
        instruction: Catalogue row.
    """
    if role == "m":
        return np.zeros_like(slots)
    kind = TYPES[instruction.type_of(role)]
    factor = role == "a" and instruction.family == "arithmetic"
    kept = np.repeat(slots[:, [_SMALL_FACTOR if factor else 0]], slots.shape[1], axis=1)
    return kept & ~np.uint64(1) if factor and not kind.scalar else kept

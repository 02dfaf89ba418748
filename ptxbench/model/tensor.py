"""Tensor-core opcodes: their shape, their multiply-adds and the kind of numbers that they work on."""

from __future__ import annotations

import re
from functools import lru_cache

from ptxbench.core.threads import WARP, WARPGROUP
from ptxbench.model.opcodes import OpcodeClass, opcode_class

# HGMMA.64x256x16.F32.BF16 and DMMA.8x8x4; HMMA.16816.F32 and HMMA.884.F32 run the three sizes together.
_SPELLED = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_RUN_TOGETHER = re.compile(r"^(16|8)(8)(\d+)$")

_HALF_BITS = 16
# What is not named has 16 bits; F32 is what HMMA adds up in.
_BITS = {
    "DMMA": 64,
    "BMMA": 1,
    "QMMA": 8,
    "QGMMA": 8,
    "IMMA": 8,
    "IGMMA": 8,
    "TF32": 32,
    "S8": 8,
    "U8": 8,
    "E4M3": 8,
    "E5M2": 8,
    "S4": 4,
    "U4": 4,
    "B1": 1,
}


@lru_cache(maxsize=4096)
def multiply_adds(opcode: str) -> float | None:
    """Return the multiply-adds of one execution a thread, None for what is no tensor-core opcode.

    A warpgroup's opcode (HGMMA and its like) is executed by four warps, which share its tile.
    """
    if opcode_class(opcode) is not OpcodeClass.TENSOR:
        return None
    base, *modifiers = opcode.split(".")
    for word in modifiers:
        match = _SPELLED.match(word) or _RUN_TOGETHER.match(word)
        if match:
            m, n, k = (int(number) for number in match.groups())
            return m * n * k / (WARPGROUP if "GMMA" in base else WARP)
    return None


def tensor_kind(opcode: str) -> str:
    """Return the opcode without its shape, such as "HGMMA.F32.BF16", which sets a multiply-add's energy."""
    words = opcode.split(".")
    return ".".join(w for w in words if not (_SPELLED.match(w) or _RUN_TOGETHER.match(w)))


def operand_bits(opcode: str) -> int:
    """Return the width of the numbers that a tensor-core opcode or kind multiplies, bits."""
    base, *modifiers = opcode.split(".")
    widths = [_BITS[word] for word in modifiers if word in _BITS]
    return min(widths) if widths else _BITS.get(base, _HALF_BITS)

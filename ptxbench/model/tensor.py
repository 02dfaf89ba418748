"""Tensor-core opcodes: their shape, their multiply-adds and the kind of numbers that they work on."""

from __future__ import annotations

import re

from ptxbench.core.threads import WARP, WARPGROUP
from ptxbench.model.opcodes import OpcodeClass, opcode_class

# HGMMA.64x256x16.F32.BF16 and DMMA.8x8x4; HMMA.16816.F32 and HMMA.884.F32 run the three sizes together.
_SPELLED = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_RUN_TOGETHER = re.compile(r"^(16|8)(8)(\d+)$")


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

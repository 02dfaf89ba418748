"""The smaller and the larger of two floats, as the reference works them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.emulator.bits import Opcode

_Floats = npt.NDArray[np.floating[Any]]

EXTREME_MODIFIERS = frozenset({"NaN", "xorsign", "abs"})


def extreme(op: Opcode, a: _Floats, b: _Floats) -> _Floats:
    """Return what min or max of one lane makes (PTX ISA, min and max of floating point).

    A number beats a NaN, with .NaN a NaN beats a number. With .xorsign.abs the magnitudes are compared,
    and the product of the signs is put before a result that is no NaN.

    Args:
        op: min or max, with its modifiers.
        a: First operand, any shape.
        b: Second operand, the same shape.
    """
    negative = np.signbit(a) ^ np.signbit(b)
    if "abs" in op.modifiers:
        a, b = np.abs(a), np.abs(b)
    if "NaN" in op.modifiers:
        result = np.minimum(a, b) if op.base == "min" else np.maximum(a, b)
    else:
        result = np.fmin(a, b) if op.base == "min" else np.fmax(a, b)
    if "xorsign" in op.modifiers:
        signed = np.copysign(result, np.where(negative, -1.0, 1.0))
        return np.where(np.isnan(result), result, signed)
    return result

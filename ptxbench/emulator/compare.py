"""Compare a GPU's results with the reference's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.types import PtxType
from ptxbench.emulator.bits import Bits, masked
from ptxbench.emulator.floats import decode

# Largest difference, relative to a result or, where that is less than 1, to 1.
_TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "tf32": 1e-2, "f16": 2e-2, "bf16": 1e-1}
# The same where an approximate function made them: its own error, carried through a chain of some 200.
_LOOSE = {"f16": 1e-1}
_LOOSE_AT_LEAST = 1e-2


def differing(
    found: Bits, expected: Bits, kind: PtxType, *, approximate: bool = False
) -> npt.NDArray[np.bool_]:
    """Return which results differ: integers in any bit, floats by more than their format's error.

    Args:
        found: What the GPU stored, shape (threads,).
        expected: What the reference did, the same shape.
        kind: The type of the results; bits beyond its width are left out.
        approximate: Whether an approximate function made them.
    """
    if not kind.scalar:
        width = max(kind.bits, 16) if kind.name != "pred" else 32
        return np.asarray(masked(found, width) != masked(expected, width), bool)
    tolerance = _TOLERANCE[kind.scalar]
    if approximate:
        tolerance = max(tolerance, _LOOSE.get(kind.scalar, _LOOSE_AT_LEAST))
    width = kind.bits // kind.lanes
    wrong = np.zeros(found.shape, bool)
    for lane in range(kind.lanes):
        by = np.uint64(lane * width)
        x, y = (decode(masked(bits >> by, width), kind.scalar) for bits in (found, expected))
        with np.errstate(invalid="ignore"):
            near = np.abs(x - y) <= tolerance * np.maximum(np.abs(y), 1.0)
        wrong |= ~(near | (x == y) | (np.isnan(x) & np.isnan(y)))
    return wrong

"""Any kernel as the roofline sees it: flops by kind and bytes by memory level, from what it executes.

A fused multiply-add is two flops, any other floating-point operation of a thread one, and so is a reciprocal
square root, as in section 5.3 of Choi and Vuduc (2012). Integer instructions, moves and branches are none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ptxbench.model.tensor import multiply_adds
from ptxbench.model.work import KernelWork, Level

_SCALAR = {
    **dict.fromkeys(("FADD", "FMUL", "MUFU"), ("f32", 1.0)),
    "FFMA": ("f32", 2.0),
    **dict.fromkeys(("DADD", "DMUL"), ("f64", 1.0)),
    "DFMA": ("f64", 2.0),
    **dict.fromkeys(("HADD2", "HMUL2"), ("f16x2", 2.0)),
    "HFMA2": ("f16x2", 4.0),
}
# Levels whose bytes a roofline has an energy for.
DRAM, L2, L1, SHARED = "dram", "l2", "l1", "shared"


@dataclass(frozen=True)
class RooflineWork:
    """What a kernel does in one launch.

    Attributes:
        flops: Flops by kind, such as "f32" or "mma-f16".
        bytes_moved: Bytes by the level that they come from: a byte of DRAM is none of L2 or L1.
    """

    flops: Mapping[str, float]
    bytes_moved: Mapping[str, float]

    @property
    def intensity(self) -> float:
        """Flops of all kinds over bytes of DRAM; infinite without such bytes."""
        moved = self.bytes_moved.get(DRAM, 0.0)
        return sum(self.flops.values()) / moved if moved > 0 else math.inf


def roofline_work(work: KernelWork) -> RooflineWork:
    """Return the flops and bytes of a kernel from its opcodes and its bytes."""
    flops: dict[str, float] = defaultdict(float)
    for opcode, count in work.opcodes:
        kind, each = _flops_of(opcode)
        if each:
            flops[kind] += each * count
    moved = dict(work.bytes_moved)
    dram, crossbar = moved.get(Level.DRAM, 0.0), moved.get(Level.CROSSBAR, 0.0)
    return RooflineWork(
        dict(flops),
        {
            DRAM: dram,
            L2: max(0.0, crossbar - dram),
            L1: max(0.0, moved.get(Level.L1, 0.0) - crossbar),
            SHARED: moved.get(Level.SHARED, 0.0),
        },
    )


def _flops_of(opcode: str) -> tuple[str, float]:
    """Return the kind of an opcode's flops, and how many a thread does; 0 for what computes none."""
    base, *words = opcode.split(".")
    macs = multiply_adds(opcode)
    if macs is None:
        return _SCALAR.get(base, ("", 0.0))
    if base.startswith("D"):
        return "mma-f64", 2 * macs
    if not base.startswith("H"):
        return "", 0.0
    inputs = next((word.lower() for word in words if word in ("BF16", "TF32")), "f16")
    return f"mma-{inputs}", 2 * macs

"""Fitted energies of a roofline beside those of the instruction table."""

from __future__ import annotations

import math

from ptxbench.core.condition import DYNAMIC, OptLevel
from ptxbench.core.errors import InputError
from ptxbench.report.cost import Cost, CostTable, find_costs

# The instruction that stands for each energy, and its flops or bytes: of a thread, of a warp for products of
# matrices.
_STANDS_FOR = {
    "f32": ("fma.rn.f32", 2),
    "f64": ("fma.rn.f64", 2),
    "f16x2": ("fma.rn.f16x2", 4),
    "dram": ("ld.global.v4.b32:hbm", 16),
    "l2": ("ld.global.cg.v4.b32:l2", 16),
    "l1": ("ld.global.ca.v4.b32:l1", 16),
    "shared": ("ld.shared.v4.b32:shared", 16),
    "mma-f16": ("mma.m16n8k16.f32.f16.f16.f32", 4096),
    "mma-bf16": ("mma.m16n8k16.f32.bf16.bf16.f32", 4096),
    "mma-tf32": ("mma.m16n8k8.f32.tf32.tf32.f32", 2048),
    "mma-f64": ("mma.m16n8k4.f64.f64.f64.f64", 1024),
}


def table_energy_pj(name: str, table: CostTable, pattern: str) -> float:
    """Return what the instruction table gives for a flop or a byte, pJ; NaN where it has no figure.

    Of an instruction that the table's own board has no figure for, the mean of other boards is taken.

    Args:
        name: Kind of flop or memory level.
        table: The instruction table.
        pattern: Operand pattern.
    """
    if name not in _STANDS_FOR:
        return math.nan
    instruction, parts = _STANDS_FOR[name]
    try:
        costs = find_costs(instruction, (table,))
    except InputError:
        return math.nan
    found = [
        _energy_pj(cost)
        for cost in costs
        if (cost.opt_level, cost.protocol, cost.operands) == (OptLevel.O3, DYNAMIC, pattern)
    ]
    return next((energy_pj / parts for energy_pj in found if not math.isnan(energy_pj)), math.nan)


def _energy_pj(cost: Cost) -> float:
    return cost.boards_pj if math.isnan(cost.energy_pj) else cost.energy_pj

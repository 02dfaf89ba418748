"""What operations cost, as a table and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ptxbench.core.estimate import finite
from ptxbench.core.gpu_info import without_maker
from ptxbench.model.operation_cost import OperationCost

COLUMNS = ("operation", "GPU", "mJ", "95%", "W", "ms", "MHz", "from")
NUMBERS = ("mJ", "95%", "W", "ms", "MHz")


def cells(cost: OperationCost) -> tuple[str, ...]:
    """Return the cells of an operation on one kind of GPU."""
    named = (str(cost.operation), without_maker(cost.device))
    if not math.isfinite(cost.energy_j):
        return (*named, "-", "-", "-", "-", "-", cost.how)
    how = f"{cost.boards} board{'s' if cost.boards > 1 else ''}" if cost.boards else cost.how
    how += ", at the power limit" if cost.capped else ""
    how += ", the GPU may have waited for the host" if cost.waits else ""
    return (
        *named,
        f"{1e3 * cost.energy_j:.4g}",
        f"{1e3 * cost.low_j:.4g} to {1e3 * cost.high_j:.4g}",
        f"{cost.power_w:.0f}",
        f"{1e3 * cost.time_s:.4g}",
        f"{cost.clock_mhz:.0f}" if math.isfinite(cost.clock_mhz) else "-",
        how,
    )


def document(costs: Sequence[OperationCost]) -> dict[str, Any]:
    """Return them for JSON; what is not known is None."""
    return {
        "operations": [
            {
                "operation": str(one.operation),
                "gpu": one.device,
                "energy_j": finite(one.energy_j),
                "interval_j": [finite(one.low_j), finite(one.high_j)],
                "power_w": finite(one.power_w),
                "time_s": finite(one.time_s),
                "clock_mhz": finite(one.clock_mhz),
                "boards": one.boards,
                "capped": one.capped,
                "waits": one.waits,
                "from": one.how,
            }
            for one in costs
        ]
    }

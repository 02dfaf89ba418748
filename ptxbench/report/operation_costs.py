"""What operations cost, as a table and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ptxbench.core.estimate import finite
from ptxbench.model.operation_cost import OperationCost

COLUMNS = ("operation", "GPU", "J", "95%", "W", "s", "MHz", "from")
NUMBERS = ("J", "95%", "W", "s", "MHz")


def cells(cost: OperationCost) -> tuple[str, ...]:
    """Return the cells of an operation on one kind of GPU."""
    if not math.isfinite(cost.energy_j):
        return (str(cost.operation), cost.device, "-", "-", "-", "-", "-", cost.how)
    how = f"{cost.how}, at the power limit" if cost.capped else cost.how
    return (
        str(cost.operation),
        cost.device,
        f"{cost.energy_j:.4g}",
        f"{cost.low_j:.4g} to {cost.high_j:.4g}",
        f"{cost.power_w:.0f}",
        f"{cost.time_s:.4g}",
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
                "capped": one.capped,
                "from": one.how,
            }
            for one in costs
        ]
    }

"""Tables of operations as one page for a browser, without a network: GPUs side by side.

The page is ptxbench/report/operations.html with what each operation costs in it as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ptxbench.core.gpu_info import without_maker
from ptxbench.core.version import VERSION
from ptxbench.model.operation_cost import OperationCost, measured_costs
from ptxbench.report.web_page import fill_page, plain
from ptxbench.storage.operations_file import OperationRow

_CELLS = ("mj", "low_mj", "high_mj", "w", "ms", "mhz", "pj_per_flop", "boards", "capped", "waits", "how")


def render_operations(rows: Sequence[OperationRow]) -> str:
    """Return the page of a table's operations, side by side for each GPU."""
    devices = list(dict.fromkeys(row.device for row in rows))
    found = {(cost.operation, cost.device): cost for cost in measured_costs(rows)}
    operations = sorted(dict.fromkeys(operation for operation, _ in found), key=lambda one: one.order)
    document = {
        "version": VERSION,
        "cells": list(_CELLS),
        "gpus": [_gpu(name, [row for row in rows if row.device == name]) for name in devices],
        "rows": [
            {
                "op": one.op,
                "shape": one.shape_text,
                "dtype": one.dtype,
                "size": one.bytes_moved,
                "gflop": plain(one.flops / 1e9),
                "gpus": [_cells(found.get((one, name))) for name in devices],
            }
            for one in operations
        ],
    }
    return fill_page("operations.html", "Energy of operations: " + ", ".join(devices), document)


def _gpu(device: str, rows: Sequence[OperationRow]) -> dict[str, str]:
    def all_of(name: str) -> str:
        return ", ".join(sorted({f"{getattr(row, name)}" for row in rows}))

    boards = {row.board for row in rows}
    said = (
        f"{len(boards)} board{'s' if len(boards) > 1 else ''} ({all_of('board')})",
        f"driver {all_of('driver')}",
        f"{all_of('framework')} {all_of('version')}",
        f"power source {all_of('sensor')}",
    )
    return {"device": device, "name": without_maker(device).split()[0], "about": " · ".join(said)}


def _cells(cost: OperationCost | None) -> list[object] | None:
    if cost is None:
        return None
    numbers = (
        *(1e3 * value for value in (cost.energy_j, cost.low_j, cost.high_j)),
        cost.power_w,
        1e3 * cost.time_s,
        cost.clock_mhz,
        1e12 * cost.energy_j / cost.operation.flops if cost.operation.flops else math.nan,
    )
    return [*map(plain, numbers), cost.boards, cost.capped, cost.waits, cost.how]

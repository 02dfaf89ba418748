"""What an operation costs by a table of operations: its rows, or what its neighbours tell.

Rows of several boards of a GPU are one: their mean, and the 95% interval of what a further board takes. It
has the own intervals of the rows, what a further board differs by (`BOARD_HALF`), and the same over the
root of n for the mean of n boards, in quadrature. It holds the intervals of the boards themselves.
Between rows of one kind and type the logarithm of the energy is taken to be linear in the logarithms of its
flops and bytes, near the operation: weighted least squares on the nearest rows, by the distance of the shapes
in powers of two. The interval is that of a prediction (t distribution), with the scatter of the rows about
the fit, each left out in turn, and never narrower than a row's own. Beyond the rows there is no number, nor
where it is not known within a factor of three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ptxbench.catalogue.operations import Operation
from ptxbench.catalogue.product import board_halves
from ptxbench.core.distributions import student_quantile
from ptxbench.sensors.trace import Float64s
from ptxbench.storage.operations_file import OperationRow

BOARD_HALF = board_halves()
# Rows that a cost is worked out from, and that an operation needs; chosen.
_NEIGHBOURS = 12
_LEAST_ROWS = 5
# Distance, in powers of two, within which a neighbour counts about fully.
_NEAR = 1.0
# So far beyond the rows, in powers of two, the next row is still near.
_BEYOND = 1e-6
# A call of PyTorch takes the host some 10 to 20 us.
_HOST_MS = 0.03
# Bytes go with flops where shapes have one dimension, and nearly so where a matrix is a vector.
_SINGULAR = 1e-2
# An interval of a factor of three either way says nothing.
_VAGUE = math.log(3)


@dataclass(frozen=True)
class OperationCost:
    """What an operation costs on one kind of GPU.

    Attributes:
        operation: The operation.
        device: Name of the GPU.
        energy_j: Energy of a call, J; NaN where it is not known.
        low_j: Low end of the 95% interval of what it takes on a further board of this kind.
        high_j: High end.
        time_s: Time of a call, s.
        clock_mhz: Mean SM clock; NaN where it is worked out from others.
        how: "measured", or which rows it is worked out from, or why there is no number.
        boards: Boards that were measured; 0 where it is worked out, or not known.
        capped: Whether the power limit held the clock down, in one of these rows.
        waits: Whether the GPU may have waited for the host: short calls that were launched one by one.
    """

    operation: Operation
    device: str
    energy_j: float
    low_j: float
    high_j: float
    time_s: float
    clock_mhz: float
    how: str
    boards: int = 0
    capped: bool = False
    waits: bool = False

    @property
    def power_w(self) -> float:
        """Mean power, W."""
        return self.energy_j / self.time_s if self.time_s > 0 else math.nan


def operation_costs(rows: Sequence[OperationRow], operation: Operation) -> tuple[OperationCost, ...]:
    """Return what an operation costs on each kind of GPU that a table has.

    Args:
        rows: A table of operations, of one or several kinds of GPU.
        operation: The operation.
    """
    alike = [row for row in rows if (row.op_name, row.gemm_dtype) == (operation.op, operation.dtype)]
    known = measured_costs(alike)
    devices = dict.fromkeys(row.device for row in rows)
    types = {row.gemm_dtype for row in rows if row.op_name == operation.op and row.valid}
    others = f"; it has {operation.op} in {', '.join(sorted(types))}" if types - {operation.dtype} else ""
    return tuple(
        _cost([one for one in known if one.device == name], operation, name, others) for name in devices
    )


def measured_costs(
    rows: Iterable[OperationRow], board_half: float | None = None
) -> tuple[OperationCost, ...]:
    """Return what each operation of a table costs on each kind of GPU, by all boards of it.

    Args:
        rows: The table.
        board_half: Relative half-width of what a board differs by from others; None: that of its GPU, and
            where nobody has compared boards of it, the widest that is known.
    """
    groups: dict[tuple[str, str, str, str], list[OperationRow]] = {}
    for row in rows:
        groups.setdefault((row.op_name, row.gemm_dtype, row.shape, row.device), []).append(row)
    return tuple(_measured(group, board_half) for group in groups.values())


def _cost(known: Sequence[OperationCost], operation: Operation, device: str, others: str) -> OperationCost:
    exact = [one for one in known if one.operation == operation]
    if exact:
        return exact[0]
    usable = [one for one in known if one.boards]
    if len(usable) < _LEAST_ROWS:
        few = f"{len(usable)} rows of {operation.op} {operation.dtype}, and {_LEAST_ROWS} are needed"
        return _unknown(operation, device, f"{few}{others}")
    shapes = np.log2([one.operation.shape for one in usable])
    at = np.log2(operation.shape)
    if (at < shapes.min(axis=0) - _BEYOND).any() or (at > shapes.max(axis=0) + _BEYOND).any():
        least, most = (
            "x".join(map(str, reach(np.array([one.operation.shape for one in usable]), axis=0)))
            for reach in (np.min, np.max)
        )
        return _unknown(
            operation, device, f"its shape lies beyond those that were measured, {least} to {most}"
        )
    return _interpolated(usable, np.linalg.norm(shapes - at, axis=1), operation, device)


def _measured(rows: Sequence[OperationRow], board_half: float | None) -> OperationCost:
    """Return what the boards of a GPU tell together; without a valid row there is no number."""
    valid = [row for row in rows if row.valid and row.energy_j > 0 and row.latency_ms > 0]
    operation, device = rows[0].operation, rows[0].device
    if not valid:
        return _unknown(operation, device, rows[0].reason or "its row is not valid")
    energy_j, boards = fmean(row.energy_j for row in valid), len({row.board for row in valid})
    own = math.hypot(*(row.relative_half for row in valid)) / len(valid)
    if board_half is None:
        board_half = BOARD_HALF.get(device, max(BOARD_HALF.values()))
    half = math.hypot(own, board_half * math.sqrt(1 + 1 / boards))
    return OperationCost(
        operation,
        device,
        energy_j,
        min(energy_j * (1 - half), *(row.ci_low_j for row in valid)),
        max(energy_j * (1 + half), *(row.ci_high_j for row in valid)),
        fmean(row.latency_ms for row in valid) / 1e3,
        fmean(row.clock_mhz for row in valid),
        "measured",
        boards,
        any(row.capped for row in valid),
        any(row.launched == "call" and row.latency_ms < _HOST_MS for row in valid),
    )


def _interpolated(
    known: Sequence[OperationCost], distance: Float64s, operation: Operation, device: str
) -> OperationCost:
    nearest = np.argsort(distance, kind="stable")[:_NEIGHBOURS]
    chosen = [known[i] for i in nearest]
    weight = 1 / (1 + (distance[nearest] / _NEAR) ** 2)
    terms = np.array([_terms(one.operation) for one in chosen])
    energy = np.log([one.energy_j for one in chosen])
    at = np.array(_terms(operation))
    value, spread = _predict(terms - at, energy, weight)
    left_out = [
        energy[i] - _predict(terms[keep] - terms[i], energy[keep], weight[keep])[0]
        for i in range(len(chosen))
        for keep in [np.arange(len(chosen)) != i]
    ]
    # Of rows that are left out each lies about as far from the rest as the operation from all.
    scatter = math.sqrt(float(np.average(np.square(left_out), weights=weight)))
    own = max(math.log(one.high_j / one.energy_j) for one in chosen)
    half = max(student_quantile(len(chosen) - 1) * max(scatter, spread), own)
    if half > _VAGUE:
        return _unknown(operation, device, "the rows nearest to it tell it to no factor of three")
    time_s = math.exp(_predict(terms - at, np.log([one.time_s for one in chosen]), weight)[0])
    energy_j = math.exp(value)
    near = ", ".join(one.operation.shape_text for one in chosen[:2])
    return OperationCost(
        operation,
        device,
        energy_j,
        energy_j * math.exp(-half),
        energy_j * math.exp(half),
        time_s,
        math.nan,
        f"between {len(chosen)} measured rows, nearest {near}",
        capped=any(one.capped for one in chosen),
        waits=any(one.waits for one in chosen),
    )


def _predict(beside: Float64s, value: Float64s, weight: Float64s) -> tuple[float, float]:
    """Return a weighted least-squares prediction, and the standard error that the rows' scatter gives it.

    Args:
        beside: Terms of the rows less those of what is predicted.
        value: What the rows have.
        weight: Of each row.
    """
    root = np.sqrt(weight)[:, None]
    design = np.column_stack([np.ones(len(value)), beside])
    inverse = np.linalg.pinv(design * root, rcond=_SINGULAR)
    found = inverse @ (value * root[:, 0])
    rest = (value - design @ found) * root[:, 0]
    freedom = max(len(value) - design.shape[1], 1)
    sd = math.sqrt(float(rest @ rest) / freedom)
    return float(found[0]), sd * math.sqrt(1 + float(np.square(inverse[0]).sum()))


def _terms(operation: Operation) -> list[float]:
    return [math.log(max(operation.flops, 1.0)), math.log(operation.bytes_moved)]


def _unknown(operation: Operation, device: str, why: str) -> OperationCost:
    nan = math.nan
    return OperationCost(operation, device, nan, nan, nan, nan, nan, f"no number: {why}")

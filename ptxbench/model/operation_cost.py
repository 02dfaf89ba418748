"""What an operation costs by a table of operations: its rows, or what its neighbours tell.

Rows of several boards of a GPU are one: their mean, and the 95% interval of what a further board takes. It
has the own intervals of the rows, what a further board differs by (`BOARD_HALF`), and the same over the root
of n for the mean of n boards, in quadrature. It holds the intervals of the boards themselves. Between rows of
one kind and type the logarithm of the energy is taken to be linear in the logarithms of its flops and bytes
(and some more bytes, for the shortest kernels), near the operation: weighted least squares on the nearest
rows, by the distance of the shapes in powers of two. The interval is that of a prediction (t distribution),
with what the nearest rows are missed by, and the widest of a row's own in quadrature. Each of them is
predicted in the same way, without those that are nearer to it than the next row is to the operation: what is
far from all rows is missed by more. Products whose n or k is ragged tell nothing of others, nor others of
them.

What another GPU has a row of is also known by what the two differ by: the weighted mean of the logarithm of
the ratio of their energies, of the nearest operations of this kind that both have, of any type. The interval
is made in the same way. Of the two the narrower one counts. Beyond the rows there is no number, nor between
them where the next one is more than a factor of four away, nor where it is known to no factor of three.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from ptxbench.catalogue.operations import Operation
from ptxbench.catalogue.product import board_halves
from ptxbench.core.distributions import student_quantile
from ptxbench.core.gpu_info import without_maker
from ptxbench.sensors.trace import Float64s
from ptxbench.storage.operations_file import OperationRow

BOARD_HALF = board_halves()
# Rows that a cost is worked out from, and that an operation needs; chosen.
_NEIGHBOURS = 8
_LEAST_ROWS = 5
# What memory moves in the time that the shortest kernel takes: below it energy hardly falls.
_SHORTEST_BYTES = 4e6
# Distance, in powers of two, within which a neighbour counts about fully.
_NEAR = 1.0
# So far beyond the rows, in powers of two, the next row is still near.
_BEYOND = 1e-6
# From so many powers of two to the next row on, intervals between rows hold 84% where 95% should.
_FARTHEST = 2.0
_FAR = "its shape lies too far from those that were measured"
# Elements of the 16 bytes by which tensor cores are fed, in the narrowest type: fp8, and all others.
_ALIGNED_FP8, _ALIGNED = 16, 8
# A call of PyTorch takes the host some 10 to 20 us.
_HOST_MS = 0.03
# Bytes go with flops where shapes have one dimension, and nearly so where a matrix is a vector.
_SINGULAR = 1e-2
# An interval of a factor of three either way says nothing.
_VAGUE = math.log(3)

_Nearest = tuple[npt.NDArray[np.intp], Float64s]


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
    known = measured_costs(row for row in rows if row.op_name == operation.op)
    devices = dict.fromkeys(row.device for row in rows)
    return tuple(operation_cost(known, operation, name) for name in devices)


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


def operation_cost(known: Sequence[OperationCost], operation: Operation, device: str) -> OperationCost:
    """Return what an operation costs on one kind of GPU.

    Args:
        known: What measured operations of its kind cost, on this and on other kinds of GPU.
        operation: The operation.
        device: Name of the GPU.
    """
    exact = [one for one in known if (one.operation, one.device) == (operation, device)]
    if exact and exact[0].boards:
        return exact[0]
    is_odd = _is_odd(operation)
    usable = [one for one in known if one.boards and _is_odd(one.operation) == is_odd]
    found = _between(usable, operation, device)
    by_others = (_beside(usable, one, device) for one in usable if one.operation == operation)
    told = [one for one in (found, *by_others) if one is not None and math.isfinite(one.energy_j)]
    return min(told, key=lambda one: one.high_j / one.energy_j) if told else (*exact, found)[0]


def _between(usable: Sequence[OperationCost], operation: Operation, device: str) -> OperationCost:
    """Return what rows of the same GPU and type tell, or why they tell nothing."""
    own = [one for one in usable if one.device == device]
    alike = [one for one in own if one.operation.dtype == operation.dtype]
    if len(alike) < _LEAST_ROWS and _is_odd(operation):
        step = _aligned(operation)
        text = f"its n or k is no multiple of {step}, and libraries have other kernels for such, or none"
        return _unknown(operation, device, text)
    if len(alike) < _LEAST_ROWS:
        few = f"{len(alike)} rows of {operation.op} {operation.dtype}, and {_LEAST_ROWS} are needed"
        types = sorted({one.operation.dtype for one in own})
        others = f"; it has {operation.op} in {', '.join(types)}" if len(own) > len(alike) else ""
        return _unknown(operation, device, f"{few}{others}")
    if not _is_within(alike, operation):
        sizes = np.array([one.operation.shape for one in alike])
        least, most = ("x".join(map(str, reach(sizes, axis=0))) for reach in (np.min, np.max))
        text = f"its shape lies beyond those that were measured, {least} to {most}"
        return _unknown(operation, device, text)
    if _distances(alike, operation).min() > _FARTHEST + _BEYOND:
        return _unknown(operation, device, _FAR)
    return _interpolated(alike, operation, device)


def _is_odd(operation: Operation) -> bool:
    return operation.op == "gemm" and any(size % _aligned(operation) for size in operation.shape[1:])


def _aligned(operation: Operation) -> int:
    return _ALIGNED_FP8 if operation.dtype == "fp8" else _ALIGNED


def _is_within(known: Sequence[OperationCost], operation: Operation) -> bool:
    shapes, at = np.log2([one.operation.shape for one in known]), np.log2(operation.shape)
    return bool((at >= shapes.min(axis=0) - _BEYOND).all() and (at <= shapes.max(axis=0) + _BEYOND).all())


def _beside(usable: Sequence[OperationCost], other: OperationCost, device: str) -> OperationCost | None:
    """Return what another GPU's row tells with the ratio of both elsewhere; None where both have little."""
    theirs = {one.operation: one for one in usable if one.device == other.device}
    own = [one for one in usable if one.device == device and one.operation in theirs]
    if len(own) < _LEAST_ROWS or not _is_within(own, other.operation):
        return None
    beside = [*(theirs[one.operation] for one in own), other]
    name = without_maker(other.device)
    nearest = own[_distances(own, other.operation).argmin()].operation
    how = f"by the row of {name}, and {min(len(own), _NEIGHBOURS)} that both have, nearest {nearest}"
    return _told(other.operation, device, own, np.empty((len(own) + 1, 0)), how, beside)


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


def _nearest(distances: Float64s) -> _Nearest:
    """Return which rows are nearest, and their weights: 0 of what is endlessly far.

    Args:
        distances: Of the rows, in their last axis.
    """
    nearest = np.argsort(distances, axis=-1, kind="stable")[..., :_NEIGHBOURS]
    return nearest, 1 / (1 + (np.take_along_axis(distances, nearest, axis=-1) / _NEAR) ** 2)


def _distances(known: Sequence[OperationCost], *operations: Operation) -> Float64s:
    """Return how far rows are from each operation, in powers of two; another type is an octave off.

    Returns:
        Of shape (operations, rows).
    """
    rows = [one.operation for one in known]
    shapes = np.log2([one.shape for one in rows]) - np.log2([[one.shape] for one in operations])
    types = [[one.dtype != other.dtype for one in rows] for other in operations]
    return np.asarray(np.linalg.norm(shapes, axis=2) + types, dtype=np.float64)


def _interpolated(known: Sequence[OperationCost], operation: Operation, device: str) -> OperationCost:
    nearest, _ = _nearest(_distances(known, operation)[0])
    near = ", ".join(known[i].operation.shape_text for i in nearest[:2])
    how = f"between {len(nearest)} measured rows, nearest {near}"
    terms = np.array([_terms(one) for one in (*(one.operation for one in known), operation)])
    return _told(operation, device, known, terms, how)


def _told(
    operation: Operation,
    device: str,
    known: Sequence[OperationCost],
    terms: Float64s,
    how: str,
    beside: Sequence[OperationCost] = (),
) -> OperationCost:
    """Return what rows tell of an operation.

    Args:
        operation: The operation.
        device: Name of the GPU that the rows are of.
        known: The rows.
        terms: What the logarithms are linear in, of each row, then of the operation; shape (rows + 1, terms).
        how: Which rows they are.
        beside: Another GPU's for the same operations, then this one: ratios to these are what is told.
    """
    base = [(one.energy_j, one.time_s) for one in beside] or [(1.0, 1.0)] * (len(known) + 1)
    energy, time = np.log([(one.energy_j, one.time_s) for one in known]).T - np.log(base[:-1]).T
    (distance,) = _distances(known, operation)
    nearest, weight = _nearest(distance)
    value, spread = _predict(terms[nearest] - terms[-1], energy[nearest], weight)
    # Each of them is told without itself and what else is as near to it.
    apart = _distances(known, *(known[i].operation for i in nearest))
    others, their_weight = _nearest(np.where(apart < distance.min() * (1 - _BEYOND), np.inf, apart))
    told, _ = _predict(terms[others] - terms[nearest, None], energy[others], their_weight)
    enough = np.count_nonzero(their_weight, axis=-1) >= _LEAST_ROWS - 1
    missed = (energy[nearest] - told)[enough]
    if len(missed) < 2:
        return _unknown(operation, device, _FAR)
    scatter = math.sqrt(float(np.average(np.square(missed), weights=weight[enough])))
    chosen = [known[i] for i in nearest]
    own = max(math.log(one.high_j / one.energy_j) for one in chosen)
    half = math.hypot(student_quantile(len(missed) - 1) * max(scatter, float(spread)), own)
    if half > _VAGUE:
        return _unknown(operation, device, "the rows nearest to it tell it to no factor of three")
    energy_j = base[-1][0] * math.exp(float(value))
    time_s = base[-1][1] * math.exp(_predict(terms[nearest] - terms[-1], time[nearest], weight)[0])
    return OperationCost(
        operation,
        device,
        energy_j,
        energy_j * math.exp(-half),
        energy_j * math.exp(half),
        # Near the power limit energy and time, told apart, would be above it.
        max(time_s, energy_j / max(one.power_w for one in chosen)),
        math.nan,
        how,
        capped=any(one.capped for one in chosen),
        waits=any(one.waits for one in chosen),
    )


def _predict(beside: Float64s, value: Float64s, weight: Float64s) -> tuple[Float64s, Float64s]:
    """Return weighted least-squares predictions, and the standard errors that the rows' scatter gives them.

    Args:
        beside: Terms of the rows less those of what is predicted; shape (..., rows, terms).
        value: What the rows have; shape (..., rows).
        weight: Of each row, in the same shape.
    """
    root = np.sqrt(weight)
    design = np.concatenate([np.ones((*value.shape, 1)), beside], axis=-1)
    inverse = np.linalg.pinv(design * root[..., None], rcond=_SINGULAR)
    found = np.einsum("...ij,...j->...i", inverse, value * root)
    rest = (value - np.einsum("...ij,...j->...i", design, found)) * root
    freedom = max(value.shape[-1] - design.shape[-1], 1)
    variance = np.square(rest).sum(axis=-1) / freedom
    return found[..., 0], np.sqrt(variance * (1 + np.square(inverse[..., 0, :]).sum(axis=-1)))


def _terms(operation: Operation) -> list[float]:
    return [math.log(max(operation.flops, 1.0)), math.log(operation.bytes_moved + _SHORTEST_BYTES)]


def _unknown(operation: Operation, device: str, why: str) -> OperationCost:
    nan = math.nan
    return OperationCost(operation, device, nan, nan, nan, nan, nan, f"no number: {why}")

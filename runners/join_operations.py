"""Join measured tables of operations: what comes with ptxbench, how boards repeat, and a public table beside.

    python runners/join_operations.py ship                      # results/*/operations-* to ptxbench/tables
    python runners/join_operations.py repeat                    # prints how boards agree, and intervals hold
    python runners/join_operations.py beside gemm_perf.parquet  # prints rows of aiconfigurator beside ours

`beside` takes a table of bf16 products of aiconfigurator's H200 collection (ai-dynamo/aiconfigurator,
Apache-2.0) and prints those of 0.03 to 3 ms that were measured here: theirs, what `ptxbench audit` predicted,
and ours. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from pathlib import Path
from statistics import median, stdev

from page_blocks import table

from ptxbench.audit.audit import AuditOptions, audit
from ptxbench.audit.claim import State, Verdict
from ptxbench.catalogue.operations import Operation
from ptxbench.core.distributions import student_quantile
from ptxbench.core.errors import InputError, PtxbenchError
from ptxbench.core.gpu_info import without_maker
from ptxbench.model.operation_cost import BOARD_HALF, OperationCost, measured_costs, operation_cost
from ptxbench.storage.board_spread import read_board_spread
from ptxbench.storage.manifest import read_run_manifest
from ptxbench.storage.operations_file import (
    SHIPPED_FILE,
    OperationRow,
    read_operations,
    write_operations,
)
from ptxbench.storage.shipped import SHIPPED

RESULTS = Path(__file__).parents[1] / "results"
_SPAN_MS = (0.03, 3.0)
# Boards differ by less than this in the time of a call.
_CLEARLY = 0.1
# A call of so many ms is long for the host that launches it.
_LONG_MS = 2.0
# Of fewer common operations two boards say little of each other.
_LEAST_COMMON = 10
# All rows nearer to an operation, in powers of two, are left out to judge intervals far from rows.
HOLE = 1.5


@dataclass(frozen=True)
class Agreement:
    """How two boards of one GPU agree on the operations that both have.

    Attributes:
        device: Name of the GPU.
        boards: Hashes of the two.
        pairs: Rows of both for each operation.
    """

    device: str
    boards: tuple[str, str]
    pairs: tuple[tuple[OperationRow, OperationRow], ...]

    @property
    def logs(self) -> list[float]:
        """Logarithm of the ratio of each pair's energies, the second's to the first's."""
        return [math.log(b.energy_j / a.energy_j) for a, b in self.pairs]

    @property
    def factor(self) -> float:
        """Their median."""
        return median(self.logs)


def main() -> int:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("ship", "repeat", "beside"))
    parser.add_argument("file", type=Path, nargs="?", help="of beside: the public table, in Parquet")
    arguments = parser.parse_args()
    if arguments.what == "ship":
        for folder in SHIPPED.values():
            if rows := shipped_rows(kept_rows(folder.name)):
                write_operations(folder / SHIPPED_FILE, rows)
    elif arguments.what == "repeat":
        kept = [kept_rows(folder.name) for folder in SHIPPED.values()]
        print(repeat_tables(agreements([row for rows in kept for row in rows])))
        print(between_text([row for rows in kept for row in shipped_rows(rows)]))
    else:
        print(beside_table(arguments.file, read_operations(SHIPPED["h200"])))
    return 0


def kept_rows(gpu: str) -> list[OperationRow]:
    """Return the rows of all boards of a GPU that are kept below results/, in the order of a table."""
    folders = sorted((RESULTS / gpu).glob("operations-*"))
    rows = [row for folder in folders for row in read_operations(folder)]
    return sorted(rows, key=lambda row: (row.operation.order, row.board))


def shipped_rows(rows: Sequence[OperationRow]) -> list[OperationRow]:
    """Leave out calls launched one by one where a CUDA graph was measured: the GPU waited for the host.

    One that is clearly faster than the graph did not wait, and stays: large copies take longer in a graph.
    """
    graphs: dict[Operation, float] = {}
    for row in rows:
        if row.valid and row.launched != "call":
            graphs[row.operation] = min(row.latency_ms, graphs.get(row.operation, math.inf))
    return [row for row in rows if row.launched != "call" or _did_not_wait(row, graphs.get(row.operation))]


def _did_not_wait(call: OperationRow, graph_ms: float | None) -> bool:
    return graph_ms is None or (call.valid and call.latency_ms < (1 - _CLEARLY) * graph_ms)


def agreements(rows: Sequence[OperationRow]) -> tuple[Agreement, ...]:
    """Return how each two boards of one GPU agree that have enough operations in common."""
    devices: dict[str, dict[str, dict[Operation, OperationRow]]] = {}
    for row in rows:
        # One that was launched by itself, and is short, may have waited for the host.
        if row.valid and (row.launched != "call" or row.latency_ms > _LONG_MS):
            devices.setdefault(row.device, {}).setdefault(row.board, {})[row.operation] = row
    found = (
        Agreement(
            device, (one, other), tuple((row, second[key]) for key, row in first.items() if key in second)
        )
        for device, boards in devices.items()
        for (one, first), (other, second) in combinations(boards.items(), 2)
    )
    return tuple(one for one in found if len(one.pairs) >= _LEAST_COMMON)


def board_half(device: str, found: Sequence[Agreement]) -> float:
    """Return the relative half-width that a board's interval lacks to hold a further board's energy.

    It is the 95th percentile of sqrt(max(d^2 - u^2, 0) / 2) over all pairs (d is the logarithm of the ratio,
    u has both own half-widths), each two boards counted alike, however many operations they have in common.
    Few boards tell it, so it is taken t over the normal quantile wider. Where that is more than the factors
    of boards in the table of instructions tell, t times the standard deviation of their logarithms, it is as
    much as these, but no less than the pairs lack.

    Args:
        device: Name of the GPU.
        found: How boards agree; those of other GPUs are passed over.
    """
    own = [one for one in found if one.device == device]
    lacking = sorted((_lacking(*pair), 1 / len(one.pairs) / len(own)) for one in own for pair in one.pairs)
    below = accumulate(share for _, share in lacking)
    within = next((half for (half, _), share in zip(lacking, below, strict=True) if share >= 0.95), 0.0)
    logs = factor_logs(device)
    by_factors = max(within, stdev(logs) * student_quantile(len(logs) - 1))
    boards = {board for one in own for board in one.boards}
    if not boards:
        return by_factors
    return min(within * student_quantile(len(boards) - 1) / student_quantile(math.inf), by_factors)


def factor_logs(device: str) -> list[float]:
    """Return the logarithms of the factors that common rows tell of a GPU's boards in the shipped table.

    Raises:
        InputError: No table that comes with ptxbench is of this GPU.
    """
    for folder in SHIPPED.values():
        spread = read_board_spread(folder)
        if spread and read_run_manifest(folder).gpu.name == device:
            return [math.log(one.factor) for one in spread.boards if not one.factor_error]
    raise InputError(f"{device}: no boards of it are known")


def _lacking(one: OperationRow, other: OperationRow) -> float:
    apart = math.log(other.energy_j / one.energy_j) ** 2
    return math.sqrt(max(apart - one.relative_half**2 - other.relative_half**2, 0.0) / 2)


@dataclass(frozen=True)
class LeftOut:
    """A board beside what the others say of it.

    Attributes:
        device: Name of the GPU.
        board: The board that is left out.
        half: The term that the others tell.
        alone: Shares of pairs with one other board that its interval holds, without the term and with it.
        mean: Shares of operations that the interval of the mean of all others holds, in the same way.
        operations: How many those are.
    """

    device: str
    board: str
    half: float
    alone: tuple[float, float]
    mean: tuple[float, float]
    operations: int


def left_out(found: Sequence[Agreement]) -> Iterator[LeftOut]:
    """Yield how each board's energies are held by intervals that others alone tell."""
    for device, board in dict.fromkeys((one.device, board) for one in found for board in one.boards):
        others = [one for one in found if board not in one.boards]
        mine = [one for one in found if board in one.boards]
        half = board_half(device, others)
        pairs = [pair if one.boards[1] == board else pair[::-1] for one in mine for pair in one.pairs]
        theirs: dict[Operation, list[OperationRow]] = {}
        own = {row.operation: row for _, row in pairs}
        for other, row in pairs:
            theirs.setdefault(row.operation, []).append(other)
        yield LeftOut(
            device,
            board,
            half,
            _held([([other], row) for other, row in pairs], half),
            _held([(rows, own[key]) for key, rows in theirs.items()], half),
            len(own),
        )


def _held(cases: Sequence[tuple[list[OperationRow], OperationRow]], half: float) -> tuple[float, float]:
    """Return the share of rows that the interval of others holds, without a term and with it."""

    def share(term: float) -> float:
        costs = ((measured_costs(others, term)[0], row.energy_j) for others, row in cases)
        return sum(cost.low_j <= energy_j <= cost.high_j for cost, energy_j in costs) / len(cases)

    return share(0.0), share(half)


def repeat_tables(found: Sequence[Agreement]) -> str:
    """Return how boards agree, and how intervals hold a board that they were not made from, in Markdown."""
    pairs = (
        (
            without_maker(one.device),
            " and ".join(board[:4] for board in one.boards),
            str(len(one.pairs)),
            f"{math.exp(one.factor):.3f}",
            *(f"{_quantile([abs(log) for log in one.logs], share):.2%}" for share in (0.5, 0.95)),
        )
        for one in found
    )
    judged = (
        (
            without_maker(one.device),
            one.board[:4],
            f"± {one.half:.1%}",
            str(one.operations),
            *(f"{share:.0%}" for share in (*one.alone, *one.mean)),
        )
        for one in left_out(found)
    )
    return "\n".join(
        (
            table(("GPU", "boards", "operations", "factor", "differ by, median", "95%"), pairs, left=2),
            table(
                (
                    *("GPU", "left out", "term of the others", "operations"),
                    *("one board holds, before", "with it", "mean of all holds, before", "with it"),
                ),
                judged,
                left=2,
            ),
            *(f"the term of {name} is {board_half(name, found):.1%}" for name in BOARD_HALF),
        )
    )


@dataclass(frozen=True)
class Judged:
    """How well rows tell operations that were measured.

    Attributes:
        told: How many they tell.
        held: How many of these have an interval that holds what was measured.
        off: Median of how far they are off, relative.
        up: Median of how far their intervals reach up, relative.
    """

    told: int
    held: int
    off: float
    up: float

    def __str__(self) -> str:
        return (
            f"{self.told}, its interval holds {self.held / max(self.told, 1):.0%}; off by {self.off:.1%}"
            f" at the median, with an interval of {self.up:+.0%}"
        )


def judged(pairs: Iterable[tuple[OperationCost, float]]) -> Judged:
    """Judge what is told of operations by the energy of each that was measured, J."""
    told = [(cost, energy_j) for cost, energy_j in pairs if math.isfinite(cost.energy_j)]
    return Judged(
        len(told),
        sum(cost.low_j <= energy_j <= cost.high_j for cost, energy_j in told),
        median([abs(cost.energy_j / energy_j - 1) for cost, energy_j in told] or [math.nan]),
        median([cost.high_j / cost.energy_j - 1 for cost, _ in told] or [math.nan]),
    )


def between_text(rows: Sequence[OperationRow]) -> str:
    """Say how well the rest of a table tells each of its operations: its own GPU's alone, and all of it.

    Once with all other operations of its GPU, once without those that are near it, too.
    """
    known = [cost for cost in measured_costs(rows) if cost.boards]
    return "\n".join(
        f"between rows: of {len(known)} operations {name}{without} tells"
        f" {judged(left_out_costs(known, alone, near))}"
        for near, without in ((0.0, ""), (HOLE, f", without what is nearer than {HOLE} powers of two,"))
        for name, alone in (("the rest of the same GPU", True), ("the rest of all GPUs", False))
    )


def left_out_costs(
    known: Sequence[OperationCost], alone: bool, near: float
) -> Iterator[tuple[OperationCost, float]]:
    """Yield what others tell of each operation, and its measured energy, J.

    Args:
        known: What measured operations cost.
        alone: Whether only others of the same GPU tell it.
        near: Others of the same GPU that are nearer than so many powers of two are left out, too.
    """
    kinds: dict[str, list[OperationCost]] = {}
    for cost in known:
        kinds.setdefault(cost.operation.op, []).append(cost)
    for cost in known:
        rest = [
            other
            for other in kinds[cost.operation.op]
            if (_is_left(other, cost, near) if other.device == cost.device else not alone)
        ]
        yield operation_cost(rest, cost.operation, cost.device), cost.energy_j


def _is_left(other: OperationCost, cost: OperationCost, near: float) -> bool:
    """Return whether another operation of the same GPU stays: it is neither this one nor near it."""
    shape, at = other.operation.shape, cost.operation.shape
    return (
        other.operation != cost.operation
        and math.dist([*map(math.log2, shape)], [*map(math.log2, at)]) >= near
    )


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


@dataclass(frozen=True)
class Beside:
    """A row of the public table beside ours.

    Attributes:
        theirs: What audit says of it.
        ours: What our boards say.
    """

    theirs: Verdict
    ours: OperationCost

    @property
    def bias(self) -> float:
        """How far theirs is off, by ours."""
        return self.theirs.claim.power_w / self.ours.power_w - 1

    @property
    def is_predicted(self) -> bool:
        """Whether what audit calls possible holds ours."""
        span = self.theirs.truth
        return span is not None and span.low <= self.ours.power_w <= span.high


def beside(theirs: Path, rows: Sequence[OperationRow]) -> list[Beside]:
    """Return the products of a public table that we have, too, and that take 0.03 to 3 ms there."""
    ours = {
        cost.operation.shape: cost
        for cost in measured_costs(rows)
        if (cost.operation.op, cost.operation.dtype) == ("gemm", "bf16") and cost.boards
    }
    found = []
    (file,) = audit([theirs], AuditOptions())
    for verdict in file.verdicts:
        _, dtype, *shape = verdict.claim.label.split()
        key = tuple(map(int, shape)) if all(map(str.isdecimal, shape)) else ()
        if dtype == "bfloat16" and key in ours and _in_span(ours[key]):
            found.append(Beside(verdict, ours[key]))
    return sorted(found, key=lambda one: one.ours.time_s)


def _in_span(cost: OperationCost) -> bool:
    return _SPAN_MS[0] <= 1e3 * cost.time_s <= _SPAN_MS[1]


def beside_table(theirs: Path, rows: Sequence[OperationRow]) -> str:
    """Return rows of a public table beside ours, in Markdown, and what they show together."""
    found = beside(theirs, rows)
    head = ("m x n x k", "ours, ms", "theirs, W", "should be, W", "ours, W", "theirs is off by")
    cells = (
        (
            one.ours.operation.shape_text.replace("x", " x "),
            f"{1e3 * one.ours.time_s:.3g}",
            f"{one.theirs.claim.power_w:.0f}",
            f"{one.theirs.truth.low:.0f} to {one.theirs.truth.high:.0f}" if one.theirs.truth else "-",
            f"{one.ours.power_w:.0f}" + (" (at the limit)" if one.ours.capped else ""),
            f"{one.bias:+.0%}",
        )
        for one in found
    )
    held = sum(one.is_predicted for one in found)
    valid = sum(one.theirs.state is State.VALID for one in found)
    off = median(abs(one.bias) for one in found)
    return (
        f"{table(head, cells)}\n{len(found)} rows: what audit calls possible holds ours in {held};"
        f" {valid} are called valid; theirs is off by {off:.0%} at the median"
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PtxbenchError as error:
        print(f"join_operations: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

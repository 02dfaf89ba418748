"""Join measured tables of operations: what comes with ptxbench, how boards repeat, and a public table beside.

    python runners/join_operations.py ship                      # results/*/operations-* to ptxbench/tables
    python runners/join_operations.py repeat                    # prints how boards of one GPU agree
    python runners/join_operations.py beside gemm_perf.parquet  # prints rows of aiconfigurator beside ours

`beside` takes a table of bf16 products of aiconfigurator's H200 collection (ai-dynamo/aiconfigurator,
Apache-2.0) and prints those of 0.03 to 3 ms that were measured here: theirs, what `ptxbench audit` predicted,
and ours. Exit codes are those of `ptxbench`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

from page_blocks import table

from ptxbench.audit.audit import AuditOptions, audit
from ptxbench.audit.claim import State, Verdict
from ptxbench.catalogue.operations import Operation
from ptxbench.core.errors import PtxbenchError
from ptxbench.core.gpu_info import without_maker
from ptxbench.model.operation_cost import OperationCost, measured_costs
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


@dataclass(frozen=True)
class Agreement:
    """How two boards of one GPU agree on the operations that both have.

    Attributes:
        device: Name of the GPU.
        boards: Hashes of the two.
        factor: Median ratio of the second's energies to the first's.
        ratios: Each ratio over that factor, as a logarithm.
        raw: Share of pairs whose energies differ by no more than both intervals allow.
        within: The same, apart from the factor.
    """

    device: str
    boards: tuple[str, str]
    factor: float
    ratios: tuple[float, ...]
    raw: float
    within: float


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
        print(
            repeat_table([one for folder in SHIPPED.values() for one in agreements(kept_rows(folder.name))])
        )
    else:
        print(beside_table(arguments.file, kept_rows(SHIPPED["h200"].name)))
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


def agreements(rows: Sequence[OperationRow]) -> Iterator[Agreement]:
    """Yield how each two boards agree that have operations in common."""
    boards: dict[str, dict[Operation, OperationRow]] = {}
    for row in rows:
        if row.valid:
            boards.setdefault(row.board, {})[row.operation] = row
    for one, other in combinations(boards, 2):
        pairs = [(row, boards[other][key]) for key, row in boards[one].items() if key in boards[other]]
        if not pairs:
            continue
        logs = [math.log(b.energy_j / a.energy_j) for a, b in pairs]
        allowed = [math.hypot(_half(a), _half(b)) for a, b in pairs]
        factor = median(logs)
        beside = tuple(log - factor for log in logs)
        yield Agreement(
            pairs[0][0].device,
            (one, other),
            math.exp(factor),
            beside,
            _share(logs, allowed),
            _share(beside, allowed),
        )


def _half(row: OperationRow) -> float:
    return (row.ci_high_j - row.ci_low_j) / 2 / row.energy_j


def _share(logs: Sequence[float], allowed: Sequence[float]) -> float:
    return sum(abs(log) <= most for log, most in zip(logs, allowed, strict=True)) / len(logs)


def repeat_table(found: Sequence[Agreement]) -> str:
    """Return how boards agree, in Markdown."""
    head = (
        *("GPU", "boards", "operations", "factor", "differ beside it, median", "95%"),
        *("within both intervals", "beside the factor"),
    )
    return table(
        head,
        (
            (
                without_maker(one.device),
                " and ".join(board[:4] for board in one.boards),
                str(len(one.ratios)),
                f"{one.factor:.3f}",
                *(f"{_quantile([abs(log) for log in one.ratios], share):.2%}" for share in (0.5, 0.95)),
                f"{one.raw:.0%}",
                f"{one.within:.0%}",
            )
            for one in found
        ),
        left=2,
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

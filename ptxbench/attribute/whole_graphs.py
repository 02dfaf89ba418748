"""CUDA graphs that were seen as a whole, and what their kernels are by the launches seen kernel by kernel.

To look at the kernels of a graph takes the host 2 us each. So the injector looks at them for a while, and
then at graphs as a whole. What was seen before becomes launches of the whole graph here, so that a graph is
one name in all of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.attribute.process_log import ProcessLog

# The injector's name of a graph that is timed as a whole, and the name of one whose kernels are not known.
WHOLE_GRAPH = "(a CUDA graph)"
# A graph whose kernels last so much longer than it does: CUPTI gave each of them the time of the whole.
_TOO_LONG = 8.0
Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class GraphKernel:
    """What one kernel name is of a CUDA graph.

    Attributes:
        name: The name.
        calls: How often it runs in a launch of the graph.
        share: Its part of the time in which kernels of the graph run.
    """

    name: str
    calls: int
    share: float


GraphKernels = tuple[GraphKernel, ...]


class WholeGraphs:
    """The launches of a process, those of graphs that were seen as a whole with a name for each graph.

    Attributes:
        kernels: Of each such name what its kernels are.

    Args:
        process: What it wrote; it gets the names.
        count: How many launches of it count.
        named: Names of graphs of the processes before, by their number in a process and their kernels.
    """

    def __init__(
        self, process: ProcessLog, count: int, named: dict[tuple[int, tuple[tuple[str, int], ...]], str]
    ) -> None:
        self.kernels: dict[str, GraphKernels] = {}
        self._process, self._count = process, count
        self._folded: list[Rows] = []
        self._name_of: dict[int, int] = {}
        self._whole = next((number for number, text in process.names.items() if text == WHOLE_GRAPH), None)
        if self._whole is None:
            return
        whole = [rows["graph"][rows["name"] == self._whole] for rows in process.launches(count)]
        ids = np.unique(np.concatenate([np.empty(0, np.uint32), *whole]))
        inside = np.concatenate(
            [rows[self._is_inside(rows, ids)] for rows in process.launches(count)] or [np.empty(0)]
        )
        for number, graph in enumerate(ids.tolist()):
            rows = np.sort(inside[inside["graph"] == graph], order="start_ns")
            kernels = _kernels(rows, process)
            if not kernels:
                continue
            key = number, tuple((one.name, one.calls) for one in kernels)
            calls = sum(one.calls for one in kernels)
            text = named.setdefault(key, f"(CUDA graph {1 + len(named)}, {calls} kernels)")
            self.kernels.setdefault(text, kernels)
            self._name_of[graph] = 1 + max(process.names)
            process.names[self._name_of[graph]] = text
            self._folded.append(_launches(rows, process.graphs[graph], self._name_of[graph]))
        if self.kernels:
            launches = sum(map(len, self._folded))
            process.remarks.append(
                f"CUDA graphs came too fast to look at each kernel: what they are of a graph is known of"
                f" {launches} launches (`ptxbench run --max-launch-rate 1e9` looks at all)"
            )

    def pieces(self) -> Iterator[Rows]:
        """Yield the launches some at a time."""
        known = np.array(list(self._name_of), dtype=np.uint32)
        for rows in self._process.launches(self._count):
            if len(known):
                rows = rows[~self._is_inside(rows, known)]
                for graph, name in self._name_of.items():
                    rows["name"][(rows["name"] == self._whole) & (rows["graph"] == graph)] = name
            yield rows
        yield from self._folded

    def _is_inside(self, rows: Rows, ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return which rows are single kernels of some graphs."""
        inside: npt.NDArray[np.bool_] = np.isin(rows["graph"], ids) & (rows["name"] != self._whole)
        return inside


def _kernels(rows: Rows, process: ProcessLog) -> GraphKernels:
    """Return what the kernels of a graph are, the longest first; none where that cannot be told.

    Args:
        rows: Those of its launches that were seen kernel by kernel, in order of their begins.
        process: What was written of them.
    """
    launches = process.graphs.get(int(rows["graph"][0]), 0) if len(rows) else 0
    # Of a launch that was lost in part it is not known where the next one begins.
    if not launches or len(rows) % launches:
        return ()
    lengths_ns = (rows["end_ns"] - rows["start_ns"]).astype(np.float64)
    passed_ns = _launches(rows, launches, 0)
    if lengths_ns.sum() > _TOO_LONG * float((passed_ns["end_ns"] - passed_ns["start_ns"]).sum()):
        return ()
    numbers, which, calls = np.unique(rows["name"], return_inverse=True, return_counts=True)
    shares = np.bincount(which, lengths_ns) / max(float(lengths_ns.sum()), 1.0)
    found = [
        GraphKernel(process.names.get(number, f"(name {number} was not written)"), count // launches, share)
        for number, count, share in zip(numbers.tolist(), calls.tolist(), shares.tolist(), strict=True)
    ]
    return tuple(sorted(found, key=lambda one: -one.share))


def _launches(rows: Rows, launches: int, name: int) -> Rows:
    """Return the launches of a graph as a whole, from those of its kernels in order."""
    each = rows.reshape(launches, -1)
    whole = each[:, 0].copy()
    whole["end_ns"] = each["end_ns"].max(axis=1)
    whole["name"] = name
    return whole

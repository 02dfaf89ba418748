"""CUDA graphs that are seen as a whole: what their kernels are, and how they share the time of a graph.

To look at each kernel of a graph takes the host 2 us. As a whole a graph takes two events; the injector says
which kernels are in it. They share its time by what launches of the same name took before the first graph was
made; a name that never ran there has the mean of the others.
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
# The kernels of a graph, and how often each runs: graphs that are alike in this have one name.
GraphKey = frozenset[tuple[str, int]]


class WholeGraphs:
    """The launches of a process, with a name for each graph that was seen as a whole.

    Attributes:
        kernels: Of each such name what its kernels are.

    Args:
        process: What it wrote; it gets the names.
        count: How many launches of it count.
        named: Names of graphs of the processes before; it gets those of this one.
    """

    def __init__(self, process: ProcessLog, count: int, named: dict[GraphKey, str]) -> None:
        self.kernels: dict[str, GraphKernels] = {}
        self._process, self._count = process, count
        self._names: dict[int, int] = {}
        if not process.graphs:
            return
        mean_ns, numbers = _mean_ns(process, count), dict[str, int]()
        for graph, calls in process.graphs.items():
            known = {process.names.get(one, f"(name {one} was not written)"): n for one, n in calls.items()}
            kernels = f"(CUDA graph {1 + len(named)}, {sum(calls.values())} kernels)"
            text = named.setdefault(frozenset(known.items()), kernels)
            if text not in numbers:
                numbers[text] = 1 + max(process.names, default=0)
                process.names[numbers[text]] = text
                self.kernels[text] = _kernels(known, mean_ns)
            self._names[graph] = numbers[text]
        process.remarks.append(
            "CUDA graphs were seen as a whole: the kernels of one share its time as launches of their names"
            " before the first graph"
        )

    def pieces(self) -> Iterator[Rows]:
        """Yield the launches some at a time."""
        whole = [number for number, text in self._process.names.items() if text == WHOLE_GRAPH]
        known = np.array([*sorted(self._names), np.iinfo(np.int64).max])
        names = np.array([self._names.get(graph, 0) for graph in known.tolist()])
        for rows in self._process.launches(self._count):
            at = np.searchsorted(known, rows["graph"])
            is_known = np.isin(rows["name"], whole) & (known[at] == rows["graph"])
            rows["name"][is_known] = names[at[is_known]]
            yield rows


def _mean_ns(process: ProcessLog, count: int) -> dict[str, float]:
    """Return the mean time of launches that were not timed by events, by their names."""
    calls: dict[str, int] = {}
    times_ns: dict[str, float] = {}
    for rows in process.launches(count):
        alone = rows[(rows["graph"] == 0) & (rows["start_ns"] < process.whole_ns)]
        numbers, which, each = np.unique(alone["name"], return_inverse=True, return_counts=True)
        lengths_ns = np.bincount(
            which, (alone["end_ns"] - alone["start_ns"]).astype(np.float64), len(numbers)
        )
        for number, n, length_ns in zip(numbers.tolist(), each.tolist(), lengths_ns.tolist(), strict=True):
            name = process.names.get(number, "")
            calls[name] = calls.get(name, 0) + n
            times_ns[name] = times_ns.get(name, 0.0) + length_ns
    return {name: times_ns[name] / n for name, n in calls.items()}


def _kernels(calls: dict[str, int], mean_ns: dict[str, float]) -> GraphKernels:
    """Return the kernels of a graph, the one that takes most of its time first."""
    known = {name: mean_ns[name] for name in calls if mean_ns.get(name, 0.0) > 0}
    usual_ns = sum(known.values()) / len(known) if known else 1.0
    times_ns = {name: n * known.get(name, usual_ns) for name, n in calls.items()}
    whole_ns = sum(times_ns.values())
    found = (GraphKernel(name, n, times_ns[name] / whole_ns) for name, n in calls.items())
    return tuple(sorted(found, key=lambda one: -one.share))

"""When which kernel ran: what the injector wrote, read back."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ptxbench.api.counting import read_counts
from ptxbench.attribute.process_log import (
    PIECE,
    WHOLE_GRAPHS,
    ProcessLog,
    Unseen,
    not_run,
    read_process,
    remark_on_graphs,
    weights_of,
)
from ptxbench.attribute.ranges import RangeKind, Ranges, join_ranges, read_windows
from ptxbench.attribute.replay.program_log import ProcessReplay, read_replay
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow

# Kernels that follow each other this closely are one stretch of work for a sensor.
_PAUSE_NS = 100_000_000
# Launches of one name on one lane: the name, begins and ends, and the lane.
Part = tuple[str, Int64s, Int64s, str]
# Which of some texts each launch has.
Index = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Launches:
    """The kernels that ran on one GPU.

    Attributes:
        names: Each kernel name once.
        name: Index into `names`, shape (n,).
        start_ns: Begin of each kernel, host time, ascending, shape (n,).
        end_ns: Its end, shape (n,).
        lanes: Process and stream, such as "process 7, stream 0", each once.
        lane: Index into `lanes`, shape (n,).
        weight: For how many kernels each one stands, shape (n,); None: for itself.
    """

    names: tuple[str, ...]
    name: Index
    start_ns: Int64s
    end_ns: Int64s
    lanes: tuple[str, ...]
    lane: Index
    weight: Float64s | None = None

    def __len__(self) -> int:
        return len(self.name)

    def pieces(self) -> Iterator[Launches]:
        """Yield the kernels some at a time, so that no second copy of millions is made."""
        for at in range(0, len(self), PIECE):
            part = slice(at, at + PIECE)
            weight = None if self.weight is None else self.weight[part]
            times_ns = (self.start_ns[part], self.end_ns[part])
            yield Launches(self.names, self.name[part], *times_ns, self.lanes, self.lane[part], weight)


class GatheredLaunches:
    """Launches of GPUs that come piece by piece, in arrays of which there is one copy only.

    Args:
        most: How many there are at most.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_gpu: dict[str, _Gathered] = {}

    def add(self, uuid: str, more: Launches) -> None:
        """Add launches of one GPU; all of a GPU have weights, or none."""
        if not len(more):
            return
        if uuid not in self._by_gpu:
            self._by_gpu[uuid] = _Gathered(self._most, has_weight=more.weight is not None)
        self._by_gpu[uuid].add(more)

    def by_gpu(self) -> dict[str, Launches]:
        """Return the launches of each GPU by its UUID, in the order of their begins."""
        return {uuid: mine.launches() for uuid, mine in self._by_gpu.items()}


class _Gathered:
    """Launches of one GPU; what is not filled yet takes no memory."""

    def __init__(self, most: int, *, has_weight: bool) -> None:
        self.count = 0
        self.names: dict[str, int] = {}
        self.lanes: dict[str, int] = {}
        kinds = {"name": np.int32, "start_ns": np.int64, "end_ns": np.int64, "lane": np.int32}
        self.columns: dict[str, npt.NDArray[Any]] = {
            column: np.empty(most, dtype=kind)
            for column, kind in (kinds | ({"weight": np.float64} if has_weight else {})).items()
        }

    def add(self, more: Launches) -> None:
        part = slice(self.count, self.count + len(more))
        self.columns["name"][part] = _numbers(more.names, self.names)[more.name]
        self.columns["lane"][part] = _numbers(more.lanes, self.lanes)[more.lane]
        self.columns["start_ns"][part], self.columns["end_ns"][part] = more.start_ns, more.end_ns
        if more.weight is not None:
            self.columns["weight"][part] = more.weight
        self.count = part.stop

    def launches(self) -> Launches:
        columns = {name: column[: self.count] for name, column in self.columns.items()}
        for which, texts in (("name", self.names), ("lane", self.lanes)):
            columns[which] = columns[which].astype(np.min_scalar_type(len(texts)))
            del self.columns[which]
        start_ns = columns["start_ns"]
        if np.any(start_ns[1:] < start_ns[:-1]):
            order = np.argsort(start_ns, kind="stable")
            for column in columns.values():
                column[:] = column[order]
        return Launches(tuple(self.names), lanes=tuple(self.lanes), **columns)


def _numbers(texts: Sequence[str], known: dict[str, int]) -> npt.NDArray[np.int32]:
    """Return the number of each text, which it gets where it is new."""
    return np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int32)


@dataclass(frozen=True)
class LaunchLog:
    """What the processes of a program wrote.

    Attributes:
        by_gpu: The kernels of each GPU by its UUID.
        processes: How many processes wrote kernels or why they could not.
        dropped: Kernels that CUPTI or memory lost.
        remarks: What else to know, a sentence each.
        ranges: NVTX ranges and windows of `EnergyMonitor`.
        unseen_ns: Times in which kernels were not looked at, begin and end, as they came too fast.
        is_counted: Whether launches were counted meanwhile; else as many are supposed as just before.
        counts: How many of each unit the program said to have made.
        replays: What processes launched again when they were over.
    """

    by_gpu: dict[str, Launches]
    processes: int = 0
    dropped: int = 0
    remarks: tuple[str, ...] = ()
    ranges: tuple[Ranges, ...] = ()
    unseen_ns: tuple[tuple[int, int], ...] = ()
    is_counted: bool = True
    counts: Mapping[str, float] = field(default_factory=dict)
    replays: tuple[ProcessReplay, ...] = ()

    def at_other_times(self, moved: Callable[[Int64s], Int64s]) -> LaunchLog:
        """Return it with what `moved` makes of all its times, host time."""
        sides = [moved(np.array(side, dtype=np.int64)) for side in zip(*self.unseen_ns, strict=True)]
        return replace(
            self,
            by_gpu={uuid: _at_other_times(one, moved) for uuid, one in self.by_gpu.items()},
            ranges=tuple(_at_other_times(one, moved) for one in self.ranges),
            unseen_ns=tuple(zip(*(side.tolist() for side in sides), strict=True)),
        )


_Timed = TypeVar("_Timed", Launches, Ranges)


def _at_other_times(one: _Timed, moved: Callable[[Int64s], Int64s]) -> _Timed:
    return replace(one, start_ns=moved(one.start_ns), end_ns=moved(one.end_ns))


def no_launches() -> Launches:
    """Return launches of which there are none."""
    empty = np.empty(0, dtype=np.int64)
    return Launches((), empty, empty, empty, (), empty)


def read_launches(folder: Path, end_ns: int | None = None, *, is_early: bool = False) -> LaunchLog:
    """Read what the injector wrote; a file that was cut off is read as far as it goes.

    Args:
        folder: Where the injector wrote.
        end_ns: When the program ended, host time; the end of what a killed process left open. What came
            later is left out.
        is_early: Whether the program went on then.
    """
    processes = [read_process(file, is_early=is_early) for file in sorted(folder.glob("*.txt"))]
    counts = [one.launch_count for one in processes]
    unseen = [one.unseen(end_ns) for one in processes]
    has_turns = any(unseen)
    gathered = GatheredLaunches(sum(counts))
    ranges: list[tuple[RangeKind, str, int, int]] = []
    replays: list[ProcessReplay] = []
    unseen_ns: list[tuple[int, int]] = []
    are_wrong = False
    for process, count, mine in zip(processes, counts, unseen, strict=True):
        if (replayed := read_replay(process.file, process.names, process.devices)) is not None:
            replays.append(replayed)
        ranges += [(RangeKind.NVTX, *one) for one in process.ranges()]
        if mine:
            unseen_ns += not_run(mine, process.launches(count))
        for rows in process.launches(count):
            _gather(rows, process, end_ns, mine if has_turns else None, gathered)
        remark = remark_on_graphs(process.launches(count), has_turns=bool(mine))
        if remark:
            process.remarks.append(f"process {process.pid}: {remark}")
        are_wrong = are_wrong or remark == WHOLE_GRAPHS
    found = (*join_ranges(ranges), *read_windows(folder))
    if end_ns is not None:
        found = tuple(one for each in found if len(one := each.until(end_ns)))
    return LaunchLog(
        # Of kernels whose times are wrong no energy is right, nor of those beside them.
        {} if are_wrong else gathered.by_gpu(),
        sum(one.has_cuda for one in processes),
        sum(one.dropped for one in processes),
        tuple(dict.fromkeys(remark for one in processes for remark in one.remarks)),
        found,
        () if are_wrong else _apart(unseen_ns),
        all(one.is_counted for spans in unseen for one in spans),
        read_counts(folder),
        tuple(replays),
    )


def _gather(
    rows: npt.NDArray[Any],
    process: ProcessLog,
    end_ns: int | None,
    unseen: Sequence[Unseen] | None,
    gathered: GatheredLaunches,
) -> None:
    """Add records of one process, until the program's end, to what is gathered.

    With `unseen` they have weights; None: all processes were looked at all the time.
    """
    last_ns = np.uint64(np.iinfo(np.int64).max if end_ns is None else end_ns)
    rows = rows[rows["start_ns"] < last_ns]
    for device in np.unique(rows["device"]).tolist():
        here = rows[rows["device"] == device]
        numbers, name = np.unique(here["name"], return_inverse=True)
        streams, lane = np.unique(here["stream"], return_inverse=True)
        texts = [process.names.get(one, f"(name {one} was not written)") for one in numbers.tolist()]
        lanes = [f"{_lane(process.pid)}{stream}" for stream in streams.tolist()]
        sides_ns = (here["start_ns"], np.minimum(here["end_ns"], last_ns))
        start_ns, end_ns_ = (side_ns.astype(np.int64) for side_ns in sides_ns)
        weight = None if unseen is None else weights_of(start_ns, unseen, here["graph"] != 0)
        if weight is not None:
            # CUPTI loses what it was to look at but ran when nothing was looked at any more.
            weight *= 1 + process.dropped / process.launch_count
        uuid = process.devices.get(device, "")
        gathered.add(uuid, Launches(tuple(texts), name, start_ns, end_ns_, tuple(lanes), lane, weight))


def _lane(pid: str) -> str:
    return f"process {pid}, stream "


def _apart(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join spans that overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)


def weighted_by_time(launches: Launches, unseen_ns: Sequence[tuple[int, int]]) -> Launches:
    """Return launches that stand for those in times unseen, of which there are no counts."""
    spans = [Unseen(*span) for span in unseen_ns]
    in_graph = np.zeros(len(launches), dtype=bool)
    return replace(launches, weight=weights_of(launches.start_ns, spans, in_graph)) if spans else launches


def join_launches(parts: Sequence[Part]) -> Launches:
    """Join launches of one GPU, in the order of their begins."""
    gathered = GatheredLaunches(sum(len(start_ns) for _, start_ns, _, _ in parts))
    for text, start_ns, end_ns, lane in parts:
        only = np.zeros(len(start_ns), dtype=np.int32)
        gathered.add("", Launches((text,), only, start_ns, end_ns, (lane,), only))
    return gathered.by_gpu().get("", no_launches())


def occupied_ns(launches: Launches, unseen_ns: Sequence[tuple[int, int]]) -> tuple[Int64s, Int64s]:
    """Return begins of kernels and of times not looked at, ascending, and the last end until each, ns."""
    start_ns, end_ns = launches.start_ns, launches.end_ns
    if unseen_ns:
        off_ns, on_ns = np.array(unseen_ns, dtype=np.int64).T
        start_ns, end_ns = np.append(start_ns, off_ns), np.append(end_ns, on_ns)
        order = np.argsort(start_ns, kind="stable")
        start_ns, end_ns = start_ns[order], end_ns[order]
    return start_ns, np.maximum.accumulate(end_ns)


def busy_spans(launches: Launches, unseen_ns: Sequence[tuple[int, int]] = ()) -> tuple[KernelWindow, ...]:
    """Return when kernels ran, one after the other within `_PAUSE_NS`, in order of time.

    Args:
        launches: The kernels.
        unseen_ns: Times in which kernels came too fast to be looked at.
    """
    if not len(launches):
        return ()
    start_ns, end_ns = occupied_ns(launches, unseen_ns)
    first = np.append(0, 1 + np.flatnonzero(start_ns[1:] - end_ns[:-1] > _PAUSE_NS))
    last = np.append(first[1:] - 1, len(start_ns) - 1)
    spans = zip(start_ns[first].tolist(), end_ns[last].tolist(), strict=True)
    return tuple(KernelWindow.spanning(begin, end) for begin, end in spans)


def innermost(ranges: Sequence[Ranges]) -> Launches:
    """Return ranges as if they were kernels: at every moment the one counts that was opened last."""
    edges = sorted(
        (at_ns, is_begin, start_ns, end_ns, which)
        for which, one in enumerate(ranges)
        for start_ns, end_ns in zip(one.start_ns.tolist(), one.end_ns.tolist(), strict=True)
        for at_ns, is_begin in ((start_ns, True), (end_ns, False))
    )
    pieces: dict[int, list[tuple[int, int]]] = {}
    opened: list[tuple[int, int, int]] = []
    before_ns = 0
    for at_ns, is_begin, start_ns, end_ns, which in edges:
        while opened and opened[0][1] <= before_ns:
            heapq.heappop(opened)
        if opened and at_ns > before_ns:
            pieces.setdefault(opened[0][2], []).append((before_ns, at_ns))
        before_ns = at_ns
        if is_begin:
            heapq.heappush(opened, (-start_ns, end_ns, which))
    parts: list[Part] = []
    for which, spans in pieces.items():
        start_ns, end_ns = np.array(spans, dtype=np.int64).T
        parts.append((ranges[which].name, start_ns, end_ns, "ranges"))
    return join_launches(parts)

"""When which kernel ran: what the injector wrote, read back."""

from __future__ import annotations

import heapq
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.api.counting import read_counts
from ptxbench.attribute.ranges import RangeKind, Ranges, join_ranges, read_windows
from ptxbench.attribute.replay.program_log import ProcessReplay, read_replay
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow
from ptxbench.storage.file_errors import whole_lines

# Kernels that follow each other this closely are one stretch of work for a sensor.
_PAUSE_NS = 100_000_000
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|\\)")
# Of the injector's numbers; a longer one is damage.
_DIGITS = 19
# What a line of a process means, by its word.
_SAID = {
    "refused": "kernels are not known: {}; try `ptxbench run --by-events`",
    "noreplay": "nothing can be launched again: {}",
    "shared": "another tool, as torch.profiler, used CUPTI beside",
    "events": "kernels were timed by events around their launches, each some microseconds too long",
}
_LAUNCH = np.dtype(
    [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("name", "<u4"),
        ("device", "<u4"),
        ("stream", "<u4"),
        ("is_in_graph", "<u4"),
    ]
)
_RANGE = np.dtype([("start_ns", "<u8"), ("end_ns", "<u8"), ("name", "<u4"), ("thread", "<u4")])


# Kernels of graphs at once from which on they are taken to have the times of the whole graph.
_AT_ONCE = 8
_WHOLE_GRAPHS = (
    "CUPTI gave kernels of CUDA graphs the times of their whole graph: by kernel they are not known; try"
    " `ptxbench run --most-launches 1e9`"
)
# The name of a graph that events have timed as a whole.
WHOLE_GRAPH = "(a CUDA graph)"
# Records that are read at once, so that a log of millions has no second copy.
_PIECE = 1 << 18

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
        for at in range(0, len(self), _PIECE):
            part = slice(at, at + _PIECE)
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


@dataclass(frozen=True)
class _Launched:
    """How many launches there were, one by one and of whole graphs, which are counted apart."""

    alone: int = 0
    graphs: int = 0

    def __sub__(self, other: _Launched) -> _Launched:
        return _Launched(self.alone - other.alone, self.graphs - other.graphs)

    @property
    def any(self) -> bool:
        """Whether there were some."""
        return self.alone > 0 or self.graphs > 0


@dataclass(frozen=True)
class _Turn:
    """From when on a process's kernels are looked at, or no longer, and its launches until then."""

    is_on: bool
    at_ns: int
    launched: _Launched


@dataclass(frozen=True)
class _Unseen:
    """A time in which kernels were not looked at, and the launches before, in and after it.

    `before` and `after` reach to the next such time; none where they are not known.
    """

    start_ns: int
    end_ns: int
    before: _Launched = _Launched()
    launched: _Launched = _Launched()
    after: _Launched = _Launched()


@dataclass
class _Process:
    """One process's text file."""

    names: dict[int, str]
    devices: dict[int, str]
    dropped: int
    remarks: list[str]
    turns: list[_Turn]
    has_cuda: bool = False


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
    files = sorted(folder.glob("*.txt"))
    bins = {file: file.with_suffix(".bin") for file in files}
    counts = {file: _count(bins[file], _LAUNCH) for file in files}
    processes = {file: _read_process(file, is_early=is_early) for file in files}
    unseen = {
        file: _unseen([turn for turn in one.turns if end_ns is None or turn.at_ns <= end_ns], end_ns)
        for file, one in processes.items()
    }
    every = [one for spans in unseen.values() for one in spans]
    gathered = GatheredLaunches(sum(counts.values()))
    ranges: list[tuple[RangeKind, str, int, int]] = []
    replays: list[ProcessReplay] = []
    unseen_ns: list[tuple[int, int]] = []
    for file, process in processes.items():
        if (replayed := read_replay(file, process.names, process.devices)) is not None:
            replays.append(replayed)
        spans = file.with_suffix(".ranges")
        for rows in _records(spans, _RANGE, _count(spans, _RANGE)):
            for start, end, name, _ in rows.tolist():
                ranges.append((RangeKind.NVTX, process.names.get(name, ""), start, end))
        pid, mine = file.name.partition("-")[0], unseen[file] if every else None
        if mine:
            unseen_ns += _not_run(mine, _records(bins[file], _LAUNCH, counts[file]))
        for rows in _records(bins[file], _LAUNCH, counts[file]):
            _gather(rows, process, pid, end_ns, mine, gathered)
    found = (*join_ranges(ranges), *read_windows(folder))
    if end_ns is not None:
        found = tuple(one for each in found if len(one := each.until(end_ns)))
    for file, process in processes.items():
        if unseen[file] and _are_whole_graphs(_records(bins[file], _LAUNCH, counts[file])):
            process.remarks.append(f"process {file.name.partition('-')[0]}: {_WHOLE_GRAPHS}")
    return LaunchLog(
        gathered.by_gpu(),
        sum(one.has_cuda for one in processes.values()),
        sum(one.dropped for one in processes.values()),
        tuple(dict.fromkeys(remark for one in processes.values() for remark in one.remarks)),
        found,
        _apart(unseen_ns),
        all(one.before.any for one in every),
        read_counts(folder),
        tuple(replays),
    )


def _gather(
    rows: npt.NDArray[Any],
    process: _Process,
    pid: str,
    end_ns: int | None,
    unseen: Sequence[_Unseen] | None,
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
        lanes = [f"{_lane(pid)}{stream}" for stream in streams.tolist()]
        sides_ns = (here["start_ns"], np.minimum(here["end_ns"], last_ns))
        start_ns, end_ns_ = (side_ns.astype(np.int64) for side_ns in sides_ns)
        weight = None if unseen is None else _weights(start_ns, unseen, here["is_in_graph"] != 0)
        uuid = process.devices.get(device, "")
        gathered.add(uuid, Launches(tuple(texts), name, start_ns, end_ns_, tuple(lanes), lane, weight))


def _are_whole_graphs(pieces: Iterator[npt.NDArray[Any]]) -> bool:
    """Return whether kernels of graphs have the times of their whole graph: always many of them at once."""
    each_ns = passed_ns = 0
    for rows in pieces:
        rows = np.sort(rows[rows["is_in_graph"] != 0], order="start_ns")
        start_ns, end_ns = (rows[side].astype(np.int64) for side in ("start_ns", "end_ns"))
        latest_ns = np.maximum.accumulate(end_ns)
        before_ns = np.append(0, latest_ns[:-1])[: len(rows)]
        each_ns += int((end_ns - start_ns).sum())
        passed_ns += int(np.clip(latest_ns - np.maximum(start_ns, before_ns), 0, None).sum())
    return each_ns > _AT_ONCE * passed_ns


def _not_run(unseen: Sequence[_Unseen], pieces: Iterator[npt.NDArray[Any]]) -> list[tuple[int, int]]:
    """Return when kernels ran that were not looked at.

    A host runs ahead: kernels that it launched before it no longer looked run for a while still, and so do
    those that it launched meanwhile.
    """
    last_ns = np.array([one.start_ns for one in unseen])
    first_ns = np.full(len(unseen), np.iinfo(np.int64).max)
    on_ns = np.array([one.end_ns for one in unseen])
    for rows in pieces:
        start_ns, end_ns = (rows[side].astype(np.int64) for side in ("start_ns", "end_ns"))
        turn = np.searchsorted(on_ns, start_ns, side="right")
        before, after = turn < len(unseen), turn > 0
        np.maximum.at(last_ns, turn[before], end_ns[before])
        np.minimum.at(first_ns, turn[after] - 1, start_ns[after])
    found: list[tuple[int, int]] = []
    for one, last, first in zip(unseen, last_ns.tolist(), first_ns.tolist(), strict=True):
        off_ns = min(last, one.end_ns)
        # As far ahead as when it ended to look.
        again_ns = min(first, one.end_ns + off_ns - one.start_ns)
        if not one.before.any or one.launched.any:
            found.append((off_ns, max(off_ns, again_ns)))
    return found


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


def _unseen(turns: Sequence[_Turn], end_ns: int | None) -> list[_Unseen]:
    """Return the times in which the kernels of a process were not looked at.

    Args:
        turns: As they came; the last may be the end of the process.
        end_ns: End of a time that was not closed, as the process was killed; None: it is left out.
    """
    found: list[_Unseen] = []
    last_on, off = _Launched(), None
    for turn in turns:
        if not turn.is_on:
            if found:
                found[-1] = replace(found[-1], after=turn.launched - last_on)
            before, off = turn.launched - last_on, turn
        elif off is not None:
            found.append(_Unseen(off.at_ns, turn.at_ns, before, turn.launched - off.launched))
            last_on, off = turn.launched, None
        elif found:
            found[-1] = replace(found[-1], after=turn.launched - last_on)
    if off is not None and end_ns is not None:
        found.append(_Unseen(off.at_ns, end_ns))
    return found


def weighted_by_time(launches: Launches, unseen_ns: Sequence[tuple[int, int]]) -> Launches:
    """Return launches that stand for those in times unseen, of which there are no counts."""
    spans = [_Unseen(*span) for span in unseen_ns]
    in_graph = np.zeros(len(launches), dtype=bool)
    return replace(launches, weight=_weights(launches.start_ns, spans, in_graph)) if spans else launches


def _weights(start_ns: Int64s, unseen: Sequence[_Unseen], in_graph: npt.NDArray[np.bool_]) -> Float64s:
    """Return for how many kernels each one stands, shape (n,).

    Kernels that were seen before and after a time unseen stand for it, by the launches counted there: those
    of graphs by the graphs, and the others one by one. Where there are no counts, those just before stand for
    it as if launches had been as fast.
    """
    weight = np.ones(len(start_ns))
    turn = np.searchsorted([one.end_ns for one in unseen], start_ns, side="right")
    for side, which in (("alone", ~in_graph), ("graphs", in_graph)):
        # What a kernel stands for of the time unseen behind its turn, and of the one before it.
        behind, ahead = np.zeros(len(unseen) + 1), np.zeros(len(unseen) + 1)
        for i, one in enumerate(unseen):
            stood_by = getattr(one.before, side) + getattr(one.after, side)
            if stood_by > 0:
                behind[i] = getattr(one.launched, side) / stood_by
                ahead[i + 1] = behind[i] if one.after.any else 0.0
        weight[which] += (behind + ahead)[turn[which]]
    before_ns = -math.inf
    for one in unseen:
        if not one.before.any:
            length_ns = one.end_ns - one.start_ns
            reach_ns = min(float(length_ns), one.start_ns - before_ns)
            near = (start_ns >= one.start_ns - reach_ns) & (start_ns < one.start_ns)
            weight[near] += length_ns / max(reach_ns, 1.0)
        before_ns = one.end_ns
    return weight


def _count(file: Path, kind: np.dtype[Any]) -> int:
    """Return how many whole records a file has; none where it is not there."""
    return file.stat().st_size // kind.itemsize if file.exists() else 0


def _records(file: Path, kind: np.dtype[Any], count: int) -> Iterator[npt.NDArray[Any]]:
    """Yield the first so many records of a file, some at a time; a process may go on writing it."""
    for at in range(0, count, _PIECE):
        yield np.fromfile(file, kind, min(_PIECE, count - at), offset=at * kind.itemsize)


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
    return tuple(KernelWindow(begin, end, (end - begin) / 1e9) for begin, end in spans)


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


def _unescaped(found: re.Match[str]) -> str:
    """Return what the injector's `say_name` wrote otherwise."""
    return chr(int(found[1], 16)) if found[1] else "\\"


def _read_process(file: Path, *, is_early: bool) -> _Process:
    process = _Process({}, {}, 0, [], [])
    # One file a process: its pid stands before the dash.
    pid = file.name.partition("-")[0]
    ended = False
    for line in whole_lines(file):
        word, _, rest = line.partition(" ")
        first, _, text = rest.partition(" ")
        number = int(first) if first.isdecimal() and len(first) <= _DIGITS else None
        if word == "name" and number is not None:
            process.names[number] = _ESCAPED.sub(_unescaped, text)
        elif word == "device" and number is not None:
            process.devices[number] = text
        elif word == "dropped" and number is not None:
            process.dropped += number
        elif word in _SAID:
            process.remarks.append(f"process {pid}: {_SAID[word].format(rest)}")
            ended = ended or word == "refused"
        elif word in ("off", "on", "end") and number is not None:
            process.turns.append(_Turn(word != "off", number, _launched(text)))
        process.has_cuda = process.has_cuda or word in ("cupti", "refused", "events")
        ended = ended or word == "end"
    if process.has_cuda and not (ended or is_early):
        # `Path.exists` raises where the process with that number is another user's now.
        process.remarks.append(
            f"process {pid} goes on after the command: what it does from then on is not measured"
            if os.path.exists(f"/proc/{pid}/exe")  # noqa: PTH110
            else f"process {pid} did not end by itself: its last kernels (twenty, or 0.2 s) may be missing"
        )
    return process


def _launched(text: str) -> _Launched:
    """Return the two counts of a line, none where they are damaged."""
    counts = text.split()
    if not all(one.isdecimal() and len(one) <= _DIGITS for one in counts):
        return _Launched()
    return _Launched(*map(int, counts[:2]))

"""When which kernel ran: what the injector wrote, read back."""

from __future__ import annotations

import heapq
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.attribute.ranges import RangeKind, Ranges, join_ranges, read_windows
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow
from ptxbench.storage.file_errors import whole_lines

# Kernels that follow each other this closely are one stretch of work for a sensor.
_PAUSE_NS = 100_000_000
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|\\)")
# Of the injector's numbers; a longer one is damage.
_DIGITS = 19
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


# Launches of one name on one lane: the name, begins and ends, and the lane.
Part = tuple[str, Int64s, Int64s, str]


@dataclass(frozen=True)
class Launches:
    """The kernels that ran on one GPU.

    Attributes:
        names: Each kernel name once.
        name: Index into `names`, shape (n,).
        start_ns: Begin of each kernel, host time, shape (n,).
        end_ns: Its end, shape (n,).
        lanes: Process and stream, such as "process 7, stream 0", each once.
        lane: Index into `lanes`, shape (n,).
        weight: For how many kernels each one stands, shape (n,); None: for itself.
    """

    names: tuple[str, ...]
    name: Int64s
    start_ns: Int64s
    end_ns: Int64s
    lanes: tuple[str, ...]
    lane: Int64s
    weight: Float64s | None = None

    def __len__(self) -> int:
        return len(self.name)


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
    """

    by_gpu: dict[str, Launches]
    processes: int = 0
    dropped: int = 0
    remarks: tuple[str, ...] = ()
    ranges: tuple[Ranges, ...] = ()
    unseen_ns: tuple[tuple[int, int], ...] = ()
    is_counted: bool = True


@dataclass(frozen=True)
class _Turn:
    """From when on a process's kernels are looked at, or no longer, and its launches until then."""

    is_on: bool
    at_ns: int
    launched: int


@dataclass(frozen=True)
class _Unseen:
    """A time in which kernels were not looked at, and the launches before, in and after it.

    `before` and `after` reach to the next such time; 0 where they are not known.
    """

    start_ns: int
    end_ns: int
    before: int = 0
    launched: int = 0
    after: int = 0


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


def read_launches(folder: Path, end_ns: int | None = None) -> LaunchLog:
    """Read what the injector wrote; a file that was cut off is read as far as it goes.

    Args:
        folder: Where the injector wrote.
        end_ns: When the program ended, host time; the end of what a killed process left open.
    """
    parts: dict[str, list[Part]] = {}
    remarks: list[str] = []
    dropped = 0
    ranges: list[tuple[RangeKind, str, int, int]] = []
    processes = 0
    unseen: dict[str, list[_Unseen]] = {}
    for file in sorted(folder.glob("*.txt")):
        process = _read_process(file)
        pid = file.name.partition("-")[0]
        processes += process.has_cuda
        dropped += process.dropped
        unseen.setdefault(pid, []).extend(_unseen(process.turns, end_ns))
        remarks += process.remarks
        rows = _records(file.with_suffix(".bin"), _LAUNCH)
        for start, end, name, _ in _records(file.with_suffix(".ranges"), _RANGE).tolist():
            ranges.append((RangeKind.NVTX, process.names.get(name, ""), start, end))
        for device in np.unique(rows["device"]).tolist():
            uuid = process.devices.get(device, "")
            here = rows[rows["device"] == device]
            for name, stream in np.unique(here[["name", "stream"]]).tolist():
                mine = here[(here["name"] == name) & (here["stream"] == stream)]
                text = process.names.get(name, f"(name {name} was not written)")
                start_ns, end_ns_ = (mine[column].astype(np.int64) for column in ("start_ns", "end_ns"))
                parts.setdefault(uuid, []).append((text, start_ns, end_ns_, f"{_lane(pid)}{stream}"))
    by_gpu = {uuid: _weighted(join_launches(found), unseen) for uuid, found in parts.items()}
    found = (*join_ranges(ranges), *read_windows(folder))
    every = [one for process_unseen in unseen.values() for one in process_unseen]
    return LaunchLog(
        by_gpu,
        processes,
        dropped,
        tuple(dict.fromkeys(remarks)),
        found,
        _apart([(one.start_ns, one.end_ns) for one in every]),
        all(one.before for one in every),
    )


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
    last_on, off = 0, None
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


def _weighted(launches: Launches, unseen: Mapping[str, Sequence[_Unseen]]) -> Launches:
    """Return launches that stand for those of their process that were not looked at."""
    if not any(unseen.values()):
        return launches
    weight = np.ones(len(launches))
    for pid, spans in unseen.items():
        lanes = [i for i, lane in enumerate(launches.lanes) if lane.startswith(_lane(pid))]
        mine = np.isin(launches.lane, lanes)
        weight[mine] = _weights(launches.start_ns[mine], spans)
    return replace(launches, weight=weight)


def weighted_by_time(launches: Launches, unseen_ns: Sequence[tuple[int, int]]) -> Launches:
    """Return launches that stand for those in times unseen, of which there are no counts."""
    spans = [_Unseen(*span) for span in unseen_ns]
    return replace(launches, weight=_weights(launches.start_ns, spans)) if spans else launches


def _weights(start_ns: Int64s, unseen: Sequence[_Unseen]) -> Float64s:
    """Return for how many kernels each one stands, shape (n,).

    Kernels that were seen before and after a time unseen stand for it, by the launches counted there. Where
    there are no counts, those just before stand for it as if launches had been as fast.
    """
    weight = np.ones(len(start_ns))
    turn = np.searchsorted([one.end_ns for one in unseen], start_ns, side="right")
    before_ns = -math.inf
    for i, one in enumerate(unseen):
        if one.before > 0:
            near = (turn == i) | ((turn == i + 1) & (one.after > 0))
            weight[near] += one.launched / (one.before + one.after)
        else:
            length_ns = one.end_ns - one.start_ns
            reach_ns = min(float(length_ns), one.start_ns - before_ns)
            near = (start_ns >= one.start_ns - reach_ns) & (start_ns < one.start_ns)
            weight[near] += length_ns / max(reach_ns, 1.0)
        before_ns = one.end_ns
    return weight


def _records(file: Path, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a file's whole records; none where it is not there."""
    raw = file.read_bytes() if file.exists() else b""
    return np.frombuffer(raw[: len(raw) // kind.itemsize * kind.itemsize], dtype=kind)


def join_launches(parts: Sequence[Part]) -> Launches:
    """Join launches of one GPU, in the order of their begins."""
    if not parts:
        return no_launches()
    names = {text: i for i, text in enumerate(dict.fromkeys(text for text, _, _, _ in parts))}
    lanes = {text: i for i, text in enumerate(dict.fromkeys(lane for _, _, _, lane in parts))}
    counts = [len(start) for _, start, _, _ in parts]
    name = np.repeat(np.array([names[text] for text, _, _, _ in parts], dtype=np.int64), counts)
    lane = np.repeat(np.array([lanes[text] for _, _, _, text in parts], dtype=np.int64), counts)
    start_ns = np.concatenate([start for _, start, _, _ in parts])
    end_ns = np.concatenate([end for _, _, end, _ in parts])
    order = np.argsort(start_ns, kind="stable")
    return Launches(tuple(names), name[order], start_ns[order], end_ns[order], tuple(lanes), lane[order])


def busy_spans(launches: Launches) -> tuple[KernelWindow, ...]:
    """Return when kernels ran, one after the other within `_PAUSE_NS`, in order of time."""
    order = np.argsort(launches.start_ns, kind="stable")
    start_ns, end_ns = launches.start_ns[order], np.maximum.accumulate(launches.end_ns[order])
    first = np.flatnonzero(np.concatenate(([True], start_ns[1:] - end_ns[:-1] > _PAUSE_NS))[: len(order)])
    last = np.append(first[1:] - 1, len(order) - 1)[: len(first)]
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


def _read_process(file: Path) -> _Process:
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
        elif word == "refused":
            process.remarks.append(f"process {pid}: kernels are not known: {rest}; try --by-events")
            ended = True
        elif word == "shared":
            process.remarks.append(f"process {pid}: another tool, as torch.profiler, used CUPTI beside")
        elif word in ("off", "on", "end") and number is not None:
            process.turns.append(_Turn(word != "off", number, int(text) if text.isdecimal() else 0))
        elif word == "events":
            process.remarks.append(
                f"process {pid}: kernels were timed by events around their launches, each some microseconds"
                " too long"
            )
        process.has_cuda = process.has_cuda or word in ("cupti", "refused", "events")
        ended = ended or word == "end"
    if process.has_cuda and not ended:
        # `Path.exists` raises where the process with that number is another user's now.
        process.remarks.append(
            f"process {pid} goes on after the command: what it does from then on is not measured"
            if os.path.exists(f"/proc/{pid}/exe")  # noqa: PTH110
            else f"process {pid} did not end by itself: its last kernels (twenty, or 0.2 s) may be missing"
        )
    return process

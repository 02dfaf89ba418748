"""When which kernel ran: what the injector wrote, read back."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.attribute.ranges import RangeKind, Ranges, join_ranges, read_windows
from ptxbench.sensors.trace import Int64s

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
    """

    names: tuple[str, ...]
    name: Int64s
    start_ns: Int64s
    end_ns: Int64s
    lanes: tuple[str, ...]
    lane: Int64s

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
    """

    by_gpu: dict[str, Launches]
    processes: int = 0
    dropped: int = 0
    remarks: tuple[str, ...] = ()
    ranges: tuple[Ranges, ...] = ()
    unseen_ns: tuple[tuple[int, int], ...] = ()


@dataclass
class _Process:
    """One process's text file."""

    names: dict[int, str]
    devices: dict[int, str]
    dropped: int
    remarks: list[str]
    turns_ns: list[tuple[bool, int]]
    has_cuda: bool = False


def no_launches() -> Launches:
    """Return launches of which there are none."""
    empty = np.empty(0, dtype=np.int64)
    return Launches((), empty, empty, empty, (), empty)


def read_launches(folder: Path) -> LaunchLog:
    """Read what the injector wrote; a file that was cut off is read as far as it goes.

    Args:
        folder: Where the injector wrote.
    """
    parts: dict[str, list[Part]] = {}
    remarks: list[str] = []
    dropped = 0
    ranges: list[tuple[RangeKind, str, int, int]] = []
    processes = 0
    unseen: list[tuple[int, int]] = []
    for file in sorted(folder.glob("*.txt")):
        process = _read_process(file)
        processes += process.has_cuda
        dropped += process.dropped
        unseen += _unseen(process.turns_ns)
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
                start_ns, end_ns = (mine[column].astype(np.int64) for column in ("start_ns", "end_ns"))
                lane = f"process {file.name.partition('-')[0]}, stream {stream}"
                parts.setdefault(uuid, []).append((text, start_ns, end_ns, lane))
    by_gpu = {uuid: join_launches(found) for uuid, found in parts.items()}
    found = (*join_ranges(ranges), *read_windows(folder))
    return LaunchLog(by_gpu, processes, dropped, tuple(dict.fromkeys(remarks)), found, _apart(unseen))


def _apart(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join spans that overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)


def _unseen(turns_ns: Sequence[tuple[bool, int]]) -> list[tuple[int, int]]:
    """Return the times in which kernels were not looked at, from turns: whether on, and when."""
    off = [at_ns for is_on, at_ns in turns_ns if not is_on]
    on = [at_ns for is_on, at_ns in turns_ns if is_on]
    return list(zip(off, on, strict=False))


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


def _read_process(file: Path) -> _Process:
    process = _Process({}, {}, 0, [], [])
    # One file a process: its pid stands before the dash.
    pid = file.name.partition("-")[0]
    ended = False
    for line in file.read_text(errors="replace").splitlines():
        word, _, rest = line.partition(" ")
        first, _, text = rest.partition(" ")
        number = int(first) if first.isdecimal() and len(first) <= _DIGITS else None
        if word == "name" and number is not None:
            process.names[number] = text
        elif word == "device" and number is not None:
            process.devices[number] = text
        elif word == "dropped" and number is not None:
            process.dropped += number
        elif word == "refused":
            process.remarks.append(f"process {pid}: kernels are not known: {rest}; try --by-events")
            ended = True
        elif word == "shared":
            process.remarks.append(f"process {pid}: another tool, as torch.profiler, used CUPTI beside")
        elif word in ("off", "on") and first.isdecimal():
            process.turns_ns.append((word == "on", int(first)))
        elif word == "events":
            process.remarks.append(
                f"process {pid}: kernels were timed by events around their launches, each some microseconds"
                " too long"
            )
        process.has_cuda = process.has_cuda or word in ("cupti", "refused", "events")
        ended = ended or word == "end"
    if process.has_cuda and not ended:
        process.remarks.append(
            f"process {pid} did not end by itself: its last kernels (twenty, or 0.2 s) may be missing"
        )
    return process

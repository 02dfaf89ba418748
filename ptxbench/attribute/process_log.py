"""What the injected library wrote of one process, read back: names, turns of looking, records of launches."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxbench.sensors.trace import Float64s, Int64s
from ptxbench.storage.file_errors import whole_lines

_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|\\)")
# Of the injector's numbers; a longer one is damage.
_DIGITS = 19
# What a line of a process means, by its word.
_SAID = {
    "refused": "kernels are not known: {}; try `ptxbench run --timer events`",
    "noreplay": "nothing can be launched again: {}",
    "shared": "another tool, as torch.profiler, used CUPTI beside",
    "stays": "CUPTI stayed where CUDA graphs were not looked at ({}), which made a host that waits for each"
    " graph 9 to 17% slower on an H100; `ptxbench run --timer events` costs 1%, and times graphs as a whole",
    "events": "kernels were timed by events around their launches, each some microseconds too long",
}
_LAUNCH = np.dtype(
    [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("name", "<u4"),
        ("device", "<u4"),
        ("stream", "<u4"),
        ("graph", "<u4"),
    ]
)
_RANGE = np.dtype([("start_ns", "<u8"), ("end_ns", "<u8"), ("name", "<u4"), ("thread", "<u4")])


# Kernels of graphs at once from which on they are taken to have the times of the whole graph.
_AT_ONCE = 8
WHOLE_GRAPHS = (
    "CUPTI gave kernels of CUDA graphs the times of their whole graph, so that kernels are not known; try"
    " `ptxbench run --timer events`"
)
# Records that are read at once, so that a log of millions has no second copy.
PIECE = 1 << 18
# In-graph kernels a second from which on looking at each may slow a host that waits for its graphs.
_FAST, _MANY = 5000.0, 10_000
_SLOWED = (
    "all kernels of CUDA graphs were looked at, which slowed a host that waits for each graph by half on an"
    " H100: a replay looks at all, `max_launch_rate_per_s` is high, launches of graphs were not counted, or"
    " their stream was busy for three seconds"
)


@dataclass(frozen=True)
class _Launched:
    """How many kernels were launched one by one, and in graphs."""

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
class Unseen:
    """A time in which kernels were not looked at, and the launches before, in and after it.

    `before` and `after` reach to the next such time; none where they are not known.
    """

    start_ns: int
    end_ns: int
    before: _Launched = _Launched()
    launched: _Launched = _Launched()
    after: _Launched = _Launched()

    @property
    def is_counted(self) -> bool:
        """Whether its launches were counted."""
        return self.before.any or self.launched.any


@dataclass
class ProcessLog:
    """What one process wrote, but its launches.

    Attributes:
        file: Its text file.
        names: Names of kernels and ranges by their numbers.
        devices: UUIDs of GPUs by their numbers.
        dropped: Kernels that were lost.
        remarks: What else to know, a sentence each.
        turns: When its kernels were looked at.
        counted: What it had launched when it last said so, while they were not; None where it did not.
        has_cuda: Whether it used CUDA.
    """

    file: Path
    names: dict[int, str] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    dropped: int = 0
    remarks: list[str] = field(default_factory=list)
    turns: list[_Turn] = field(default_factory=list)
    counted: _Turn | None = None
    has_cuda: bool = False

    @property
    def pid(self) -> str:
        """Its number; one file is of one process."""
        return self.file.name.partition("-")[0]

    @property
    def launch_count(self) -> int:
        """How many launches it wrote."""
        return _count(self.file.with_suffix(".bin"), _LAUNCH)

    def launches(self, most: int) -> Iterator[npt.NDArray[Any]]:
        """Yield its first so many launches, some at a time: it may go on writing."""
        return _records(self.file.with_suffix(".bin"), _LAUNCH, most)

    def ranges(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, begin and end of its NVTX ranges."""
        path = self.file.with_suffix(".ranges")
        for rows in _records(path, _RANGE, _count(path, _RANGE)):
            for start_ns, end_ns, name, _ in rows.tolist():
                yield self.names.get(name, ""), start_ns, end_ns

    def unseen(self, end_ns: int | None) -> list[Unseen]:
        """Return the times in which its kernels were not looked at.

        Args:
            end_ns: When the program ended: what came later is left out, and a time that was not closed ends
                then. None: it is left out.
        """
        turns = [turn for turn in self.turns if end_ns is None or turn.at_ns <= end_ns]
        return _unseen(turns, self.counted, end_ns)


def read_process(file: Path, *, is_early: bool) -> ProcessLog:
    """Read the text file of a process; a line that is damaged is passed over.

    Args:
        file: The file.
        is_early: Whether the program went on when it was read.
    """
    process = ProcessLog(file)
    pid = process.pid
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
        elif word == "at" and number is not None:
            process.counted = _Turn(False, number, _launched(text))
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


def _unescaped(found: re.Match[str]) -> str:
    """Return what the injector's `say_name` wrote otherwise."""
    return chr(int(found[1], 16)) if found[1] else "\\"


def _unseen(turns: Sequence[_Turn], counted: _Turn | None, end_ns: int | None) -> list[Unseen]:
    """Return the times in which the kernels of a process were not looked at.

    Args:
        turns: As they came; the last may be the end of the process.
        counted: What was launched when the process last said so.
        end_ns: End of a time that was not closed, as the process was killed; None: it is left out.
    """
    found: list[Unseen] = []
    last_on, off = _Launched(), None
    for turn in turns:
        if not turn.is_on:
            if found:
                found[-1] = replace(found[-1], after=turn.launched - last_on)
            before, off = turn.launched - last_on, turn
        elif off is not None:
            found.append(Unseen(off.at_ns, turn.at_ns, before, turn.launched - off.launched))
            last_on, off = turn.launched, None
        elif found:
            found[-1] = replace(found[-1], after=turn.launched - last_on)
    if off is not None and end_ns is not None:
        if counted is not None and off.at_ns <= counted.at_ns <= end_ns:
            # It may have ended long before the command.
            found.append(Unseen(off.at_ns, counted.at_ns, before, counted.launched - off.launched))
        else:
            found.append(Unseen(off.at_ns, end_ns))
    return found


def remark_on_graphs(pieces: Iterator[npt.NDArray[Any]], *, has_turns: bool) -> str:
    """Return what must be said of kernels in CUDA graphs, "" for nothing.

    Args:
        pieces: Launches of a process.
        has_turns: Whether its kernels were looked at in turns: times may be those of the whole graph then.
    """
    each_ns = passed_ns = count = last_ns = 0
    first_ns = np.iinfo(np.int64).max
    for whole in pieces:
        rows = whole[whole["graph"] != 0]
        if not len(rows):
            continue
        count += len(rows)
        first_ns = min(first_ns, int(rows["start_ns"].min()))
        last_ns = max(last_ns, int(rows["end_ns"].max()))
        if not has_turns:
            continue
        rows = np.sort(rows, order="start_ns")
        start_ns, end_ns = (rows[side].astype(np.int64) for side in ("start_ns", "end_ns"))
        latest_ns = np.maximum.accumulate(end_ns)
        before_ns = np.append(0, latest_ns[:-1])[: len(rows)]
        each_ns += int((end_ns - start_ns).sum())
        passed_ns += int(np.clip(latest_ns - np.maximum(start_ns, before_ns), 0, None).sum())
    if each_ns > _AT_ONCE * passed_ns:
        return WHOLE_GRAPHS
    if has_turns:
        return ""
    return _SLOWED if count > max(_MANY, _FAST * (last_ns - first_ns) / 1e9) else ""


def not_run(unseen: Sequence[Unseen], pieces: Iterator[npt.NDArray[Any]]) -> list[tuple[int, int]]:
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
        if not one.is_counted or one.launched.any:
            found.append((off_ns, max(off_ns, again_ns)))
    return found


def weights_of(start_ns: Int64s, unseen: Sequence[Unseen], in_graph: npt.NDArray[np.bool_]) -> Float64s:
    """Return for how many kernels each one stands, shape (n,).

    Kernels that were seen before and after a time unseen stand for it, by those that were launched there, in
    graphs and one by one. Where there are no counts, those just before stand for it as if launches had been
    as fast.
    """
    weight = np.ones(len(start_ns))
    turn = np.searchsorted([one.end_ns for one in unseen], start_ns, side="right")
    for side, which in (("alone", ~in_graph), ("graphs", in_graph)):
        # What a kernel stands for of the time unseen behind its turn, and of the one before it.
        behind, ahead = np.zeros(len(unseen) + 1), np.zeros(len(unseen) + 1)
        for i, one in enumerate(unseen):
            stood_by = getattr(one.before, side) + getattr(one.after, side)
            if stood_by > 0:
                each = getattr(one.launched, side) / stood_by
                behind[i] = each if one.before.any else 0.0
                ahead[i + 1] = each if one.after.any else 0.0
        weight[which] += (behind + ahead)[turn[which]]
    before_ns = -math.inf
    for one in unseen:
        if not one.is_counted:
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
    for at in range(0, count, PIECE):
        yield np.fromfile(file, kind, min(PIECE, count - at), offset=at * kind.itemsize)

"""What was launched again when a program was over: what the injected library wrote, read back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ptxbench.devices.step import NodeType, StepNode
from ptxbench.storage.file_errors import whole_lines

ENDING = ".replay"
# Windows that are of no kind: one thread that sleeps, and launches that do nothing.
SLEEPING, NOTHING_TO_DO = -1, -2
_EVERY = -1
_NUMBER = re.compile("-?[0-9]{1,19}")
# How many numbers stand behind a word.
_COUNTS = {"begin": 1, "end": 1, "saved": 1, "changed": 1, "kind": 17, "seen": 11, "window": 7, "undo": 7}


@dataclass(frozen=True)
class ProgramKind:
    """Launches of a process that have function, launch shape and attributes in common.

    Attributes:
        number: Its number in its process.
        gpu: UUID of the GPU.
        node: What the launches have in common.
        calls: Launches of it while the program ran.
        seen: Launches that CUPTI saw.
        seen_s: Time that those took, s.
        refused: Why it was not launched again, "" where it was.
    """

    number: int
    gpu: str
    node: StepNode
    calls: int
    seen: int = 0
    seen_s: float = 0.0
    refused: str = ""

    @property
    def launch_s(self) -> float:
        """Mean time of a launch while the program ran, s; NaN where none was seen."""
        return self.seen_s / self.seen if self.seen else float("nan")


@dataclass(frozen=True)
class ReplayWindow:
    """When launches of a kind were made again.

    Attributes:
        kind: Number of the kind, `SLEEPING` or `NOTHING_TO_DO`.
        gpu: UUID of the GPU.
        start_ns: Begin, host time.
        end_ns: End.
        times: How often their graph ran.
        launches: Launches in the graph.
        undone: How often in it memory that the kind changes of what it reads was written back; -1 where that
            cannot be told.
        sleeps: How often in it one thread slept.
    """

    kind: int
    gpu: str
    start_ns: int
    end_ns: int
    times: int
    launches: int
    undone: int = 0
    sleeps: int = 0


@dataclass(frozen=True)
class ProcessReplay:
    """What a process launched again at its end.

    Attributes:
        pid: The process.
        begin_ns: When the program was over and replay began, host time.
        end_ns: When replay ended; None where it did not.
        kinds: What it had launched.
        windows: When what was launched again.
        undos: When memory that a kind changes was written back alone.
        saved_bytes: Memory that was saved and restored.
        changed_bytes: Memory that differed at the end from what was saved; -1 where it was not compared.
        stopped: Why not all of it was done, a sentence each.
    """

    pid: str
    begin_ns: int
    end_ns: int | None = None
    kinds: tuple[ProgramKind, ...] = ()
    windows: tuple[ReplayWindow, ...] = ()
    undos: tuple[ReplayWindow, ...] = ()
    saved_bytes: int = 0
    changed_bytes: int = -1
    stopped: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[ReplayWindow, ...]:
        """All windows."""
        return (*self.windows, *self.undos)

    def of(self, kind: int, gpu: str) -> ReplayWindow | None:
        """Return the last window of a kind, None where it has none."""
        found = [one for one in self.windows if (one.kind, one.gpu) == (kind, gpu)]
        return found[-1] if found else None

    def undo_of(self, kind: int, gpu: str) -> ReplayWindow | None:
        """Return the window of writing back what a kind changes, None where it has none."""
        return next((one for one in self.undos if (one.kind, one.gpu) == (kind, gpu)), None)


@dataclass
class _Reading:
    """A file as far as it was read."""

    pid: str
    begin_ns: int | None = None
    end_ns: int | None = None
    kinds: dict[int, ProgramKind] = field(default_factory=dict)
    windows: list[ReplayWindow] = field(default_factory=list)
    undos: list[ReplayWindow] = field(default_factory=list)
    saved_bytes: int = 0
    changed_bytes: int = -1
    stopped: list[str] = field(default_factory=list)
    seen: dict[tuple[str, str, tuple[int, ...]], tuple[int, float]] = field(default_factory=dict)
    gpu: str = ""


def read_replay(file: Path, names: Mapping[int, str], devices: Mapping[int, str]) -> ProcessReplay | None:
    """Read what one process wrote of its replay; None where it did not come to it.

    Args:
        file: The text file of the process, beside which the file of the replay lies.
        names: Names of kernels by their numbers there.
        devices: UUIDs of GPUs by their numbers there.
    """
    path = file.with_suffix(ENDING)
    if not path.exists():
        return None
    found = _Reading(file.name.partition("-")[0])
    for line in whole_lines(path):
        _take(found, line, names, devices)
    if found.begin_ns is None:
        return None
    return ProcessReplay(
        found.pid,
        found.begin_ns,
        found.end_ns,
        tuple(_with_times(found)),
        tuple(found.windows),
        tuple(found.undos),
        found.saved_bytes,
        found.changed_bytes,
        tuple(found.stopped),
    )


def _take(found: _Reading, line: str, names: Mapping[int, str], devices: Mapping[int, str]) -> None:
    """Take a line; one that is damaged is passed over."""
    word, _, rest = line.partition(" ")
    first, _, why = rest.partition(" ")
    if word == "stopped":
        found.stopped.append(rest)
    elif word == "refused" and _NUMBER.fullmatch(first):
        _refuse(found, int(first), why)
    elif all(_NUMBER.fullmatch(one) for one in rest.split()):
        _take_numbers(found, word, [int(one) for one in rest.split()], names, devices)


def _take_numbers(
    found: _Reading, word: str, numbers: list[int], names: Mapping[int, str], devices: Mapping[int, str]
) -> None:
    if len(numbers) != _COUNTS.get(word):
        return
    if word == "begin":
        found.begin_ns = numbers[0]
    elif word == "end":
        found.end_ns = numbers[0]
    elif word == "saved":
        found.saved_bytes += numbers[0]
    elif word == "changed":
        found.changed_bytes = max(found.changed_bytes, 0) + numbers[0]
    elif word == "kind":
        # What comes behind the end of the replay is of the whole program, and counts.
        kind = _kind(numbers, names, devices)
        before = found.kinds.get(kind.number)
        if before is None and found.end_ns is not None:
            before = replace(kind, refused="it was launched for the first time behind the replay")
        found.kinds[kind.number] = kind if before is None else replace(kind, refused=before.refused)
        found.gpu = kind.gpu
    elif word == "seen":
        name, device, count, total_ns, *shape = numbers
        key = (names.get(name, ""), devices.get(device, ""), tuple(shape))
        found.seen[key] = (count, total_ns * 1e-9)
    else:
        number, *rest = numbers
        window = ReplayWindow(number, found.gpu, *rest)
        (found.windows if word == "window" else found.undos).append(window)


def _kind(numbers: Sequence[int], names: Mapping[int, str], devices: Mapping[int, str]) -> ProgramKind:
    number, name, device, calls, *rest = numbers
    node = StepNode(
        NodeType.KERNEL,
        names.get(name, f"(name {name} was not written)"),
        number,
        (rest[0], rest[1], rest[2]),
        (rest[3], rest[4], rest[5]),
        rest[6],
        (rest[7], rest[8], rest[9]),
        bool(rest[10]),
        bool(rest[11]),
        rest[12],
    )
    return ProgramKind(number, devices.get(device, ""), node, calls)


def _refuse(found: _Reading, number: int, why: str) -> None:
    """Let a kind, or all that were not launched again, have a reason."""
    done = {window.kind for window in found.windows}
    for one, kind in found.kinds.items():
        if one == number or (number == _EVERY and one not in done and not kind.refused):
            found.kinds[one] = replace(kind, refused=why)
    if number == _EVERY:
        found.stopped.append(why)


def _with_times(found: _Reading) -> Iterator[ProgramKind]:
    """Yield the kinds with the time that their launches took while the program ran.

    CUPTI's records tell neither functions of one name nor cluster shapes apart: such kinds share a mean time.
    """
    for kind in found.kinds.values():
        node = kind.node
        key = (node.name, kind.gpu, (*node.grid, *node.block, node.shared_bytes))
        seen, seen_s = found.seen.get(key, (0, 0.0))
        yield replace(kind, seen=seen, seen_s=seen_s)

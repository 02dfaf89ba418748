"""When which kernel ran: what the injector wrote, read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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


@dataclass(frozen=True)
class Launches:
    """The kernels that ran on one GPU.

    Attributes:
        names: Each kernel name once.
        name: Index into `names`, shape (n,).
        start_ns: Begin of each kernel, host time, shape (n,).
        end_ns: Its end, shape (n,).
    """

    names: tuple[str, ...]
    name: Int64s
    start_ns: Int64s
    end_ns: Int64s

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
    """

    by_gpu: dict[str, Launches]
    processes: int = 0
    dropped: int = 0
    remarks: tuple[str, ...] = ()


@dataclass
class _Process:
    """One process's text file."""

    names: dict[int, str]
    devices: dict[int, str]
    dropped: int
    remarks: list[str]


def no_launches() -> Launches:
    """Return launches of which there are none."""
    empty = np.empty(0, dtype=np.int64)
    return Launches((), empty, empty, empty)


def read_launches(folder: Path) -> LaunchLog:
    """Read what the injector wrote; a file that was cut off is read as far as it goes.

    Args:
        folder: Where the injector wrote.
    """
    parts: dict[str, list[tuple[str, Int64s, Int64s]]] = {}
    remarks: list[str] = []
    dropped = 0
    files = sorted(folder.glob("*.txt"))
    for file in files:
        process = _read_process(file)
        dropped += process.dropped
        remarks += process.remarks
        raw = file.with_suffix(".bin").read_bytes()
        rows = np.frombuffer(raw[: len(raw) // _LAUNCH.itemsize * _LAUNCH.itemsize], dtype=_LAUNCH)
        for device in np.unique(rows["device"]).tolist():
            uuid = process.devices.get(device, "")
            here = rows[rows["device"] == device]
            for name in np.unique(here["name"]).tolist():
                mine = here[here["name"] == name]
                text = process.names.get(name, f"(name {name} was not written)")
                times = (mine[column].astype(np.int64) for column in ("start_ns", "end_ns"))
                parts.setdefault(uuid, []).append((text, *times))
    by_gpu = {uuid: join_launches(found) for uuid, found in parts.items()}
    return LaunchLog(by_gpu, len(files), dropped, tuple(dict.fromkeys(remarks)))


def join_launches(parts: Sequence[tuple[str, Int64s, Int64s]]) -> Launches:
    """Join launches of one GPU, each part a name with begins and ends, in the order of their begins."""
    if not parts:
        return no_launches()
    names = tuple(dict.fromkeys(text for text, _, _ in parts))
    index = {text: i for i, text in enumerate(names)}
    name = np.concatenate([np.full(len(start), index[text], dtype=np.int64) for text, start, _ in parts])
    start_ns = np.concatenate([start for _, start, _ in parts])
    end_ns = np.concatenate([end for _, _, end in parts])
    order = np.argsort(start_ns, kind="stable")
    return Launches(names, name[order], start_ns[order], end_ns[order])


def _read_process(file: Path) -> _Process:
    process = _Process({}, {}, 0, [])
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
            process.remarks.append(f"process {pid}: kernels are not known: {rest}")
            ended = True
        elif word == "taken":
            process.remarks.append(
                f"process {pid}: another tool, as torch.profiler, took CUPTI: later kernels are not known"
            )
        ended = ended or word == "end"
    if not ended:
        process.remarks.append(
            f"process {pid} did not end by itself: its last kernels (twenty, or 0.2 s) may be missing"
        )
    return process

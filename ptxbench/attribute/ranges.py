"""Named parts of a program by host time: NVTX ranges and windows of `EnergyMonitor`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from ptxbench.sensors.trace import Int64s
from ptxbench.storage.file_errors import whole_lines

# Names of ranges that are kept apart, so that a program that makes up names fills no page; chosen.
_MOST_NAMES = 1000
_OTHERS = "(all further names)"


class RangeKind(StrEnum):
    """What marked a part of a program."""

    NVTX = "NVTX range"
    WINDOW = "EnergyMonitor window"


@dataclass(frozen=True)
class Ranges:
    """All parts of a program with one name.

    Attributes:
        name: The name.
        kind: What marked them.
        start_ns: Begin of each, host time, ascending, shape (n,).
        end_ns: Its end, shape (n,).
    """

    name: str
    kind: RangeKind
    start_ns: Int64s
    end_ns: Int64s

    def __len__(self) -> int:
        return len(self.start_ns)

    def until(self, last_ns: int) -> Ranges:
        """Return those that ended by a moment."""
        kept = self.end_ns <= last_ns
        return replace(self, start_ns=self.start_ns[kept], end_ns=self.end_ns[kept])

    def merged(self) -> tuple[Int64s, Int64s]:
        """Return begins and ends of the times in which one of them at least was open."""
        if not len(self):
            return self.start_ns, self.end_ns
        latest_ns = np.maximum.accumulate(self.end_ns)
        first = np.concatenate(([True], self.start_ns[1:] > latest_ns[:-1]))
        last = np.concatenate((first[1:], [True]))
        return self.start_ns[first], latest_ns[last]


def join_ranges(parts: Iterable[tuple[RangeKind, str, int, int]]) -> tuple[Ranges, ...]:
    """Join single parts, each a kind, a name, begin and end, by kind and name.

    Of a program that gives each step a name of its own, the first thousand names are kept, and the rest are
    joined as one.
    """
    found: dict[tuple[RangeKind, str], list[tuple[int, int]]] = {}
    for kind, name, start_ns, end_ns in parts:
        if end_ns < start_ns:
            continue
        key = (kind, name)
        if key not in found and len(found) >= _MOST_NAMES:
            key = (kind, _OTHERS)
        found.setdefault(key, []).append((start_ns, end_ns))
    joined = []
    for (kind, name), times in found.items():
        sides = np.array(sorted(times), dtype=np.int64)
        joined.append(Ranges(name, kind, sides[:, 0], sides[:, 1]))
    return tuple(joined)


def read_windows(folder: Path) -> tuple[Ranges, ...]:
    """Read the windows that `EnergyMonitor` wrote down; a line that was cut off is left out."""
    parts = []
    for file in sorted(folder.glob("*.windows")):
        for line in whole_lines(file):
            try:
                found = json.loads(line)
                name, times = str(found["name"]), (int(found["start_ns"]), int(found["end_ns"]))
            except (ValueError, TypeError, KeyError, RecursionError):
                continue
            parts.append((RangeKind.WINDOW, name, *times))
    return join_ranges(parts)

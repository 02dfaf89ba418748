"""A program's energy against an earlier report: the gate of a CI job, which passes only what it can tell."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxbench.attribute.program import ProgramEnergy
from ptxbench.attribute.report import document
from ptxbench.core.errors import InputError
from ptxbench.storage.file_errors import read_bytes

# Of many rows those with the most energy are named.
_MOST_NAMED = 3
# A GPU, or a GPU and a kernel or group of them.
Key = tuple[str, ...]
# Their energy and its 95% interval, J; None where they are not known.
Rows = dict[Key, tuple[float, float, float] | None]


@dataclass(frozen=True)
class Judgement:
    """What a program takes beside an earlier report.

    Attributes:
        is_passed: Whether the energy of every GPU could be compared, and no GPU or kernel grew.
        lines: Why, a sentence each.
    """

    is_passed: bool
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Growth:
    """One row in both reports, J; `before` and `now` are energy, low and high end of the 95% interval."""

    name: str
    before: tuple[float, float, float]
    now: tuple[float, float, float]

    @property
    def least(self) -> float:
        """The least growth that would be beyond both intervals, a fraction."""
        return (self.before[2] - self.before[0] + self.now[0] - self.now[1]) / self.before[0]

    @property
    def is_beyond(self) -> bool:
        """Whether the intervals lie apart, the present one above."""
        return self.now[1] > self.before[2]

    @property
    def fraction(self) -> float:
        """By how much it grew."""
        return self.now[0] / self.before[0] - 1

    def __str__(self) -> str:
        return f"{self.name}: {self.before[0]:.5g} J before, {self.now[0]:.5g} J now ({self.fraction:+.1%})"


def compare(program: ProgramEnergy, baseline: Path, limit: float) -> Judgement:
    """Return whether a GPU or kernel takes more energy than in an earlier report.

    A row grew where its energy is above the limit and its interval above the earlier one. It tells nothing
    where its two intervals are so wide that a growth by the limit would not have been beyond them.

    Args:
        program: What was measured.
        baseline: The earlier `energy.json`, or its folder.
        limit: Largest allowed growth, a fraction.

    Raises:
        InputError: The file cannot be read or is no such report.
    """
    before, now = read_report(baseline), _rows(document(program))
    rows = {
        key: _Growth(", ".join(key), old, new)
        for key, new in now.items()
        if new is not None and (old := before.get(key)) is not None
    }
    grown = [row for row in rows.values() if row.is_beyond and row.fraction > limit]
    blind = {key: row for key, row in rows.items() if row not in grown and row.least > limit}
    gpus = dict.fromkeys(key for key in (*before, *now) if len(key) == 1)
    whys = [why for gpu in gpus if (why := _why_not(gpu, before, now, blind))]
    if program.exit_code is None:
        whys.append("the run now was not kept to its end")
    said = [*map(str, grown), *(f"no comparison with {baseline}: {why}" for why in whys)]
    kernels = [row for key, row in blind.items() if key not in gpus]
    if kernels:
        said.append(f"kernels that are too uncertain to tell {limit:.1%}: {_named(kernels)}")
    apart = len((now.keys() ^ before.keys()) - gpus.keys())
    if apart:
        said.append(f"kernels, or groups of them, that only one of the two reports has: {apart}")
    if not grown and not whys:
        said.append(f"no growth by more than {limit:.1%} in {len(rows) - len(blind)} of {len(now)} rows")
    return Judgement(not grown and not whys, tuple(said))


def read_report(path: Path) -> Rows:
    """Return the rows of an `energy.json`, or of the one in a folder.

    Raises:
        InputError: It cannot be read or is no such report.
    """
    return _rows(read_energy(path))


def read_energy(path: Path) -> dict[str, Any]:
    """Return what an `energy.json` holds, or the one in a folder.

    Raises:
        InputError: It cannot be read or is no such report.
    """
    file = path / "energy.json" if path.is_dir() else path
    data = read_bytes(file, "name an energy.json of `ptxbench run --out`, or its folder")
    try:
        report: dict[str, Any] = json.loads(data)
        _rows(report)
        is_early = report.get("exit_code", 0) is None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{file} is no energy.json of `ptxbench run --out`") from error
    if is_early:
        raise InputError(f"{file} is of a run that was not kept to its end; name one that was")
    return report


def _rows(report: Mapping[str, Any]) -> Rows:
    """Return the rows of a report.

    Raises:
        KeyError, OverflowError, TypeError, ValueError: It is none.
    """
    rows: Rows = {}
    for entry in report["gpus"]:
        rows[(_text(entry["gpu"]),)] = _energy(entry)
    for entry in report["kernels"]:
        names = " | ".join(map(_text, entry["kernels"]))
        rows[_text(entry["gpu"]), names] = _energy(entry)
    return rows


def _energy(entry: Mapping[str, Any]) -> tuple[float, float, float] | None:
    low, high = entry["interval_j"]
    values = (entry["energy_j"], low, high)
    if not all(value is None or type(value) in (int, float) for value in values):
        raise TypeError
    known = tuple(math.nan if value is None else float(value) for value in values)
    energy_j, low_j, high_j = known
    is_one = 0 < energy_j < math.inf and low_j <= energy_j <= high_j < math.inf
    return (energy_j, low_j, high_j) if is_one else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _why_not(
    gpu: Key, before: Mapping[Key, object], now: Mapping[Key, object], blind: Mapping[Key, _Growth]
) -> str:
    """Return why the whole energy of a GPU cannot be compared, "" where it can."""
    (name,) = gpu
    if gpu not in now:
        return f"{name} is in it, but was not measured now"
    if gpu not in before:
        return f"it has no {name}"
    if before[gpu] is None:
        return f"it does not know the energy of {name}"
    if now[gpu] is None:
        return f"the energy of {name} is not known now"
    if gpu in blind:
        return (
            f"the intervals of {name} would only show a growth of {blind[gpu].least:.1%};"
            " let the command run longer, or allow more by `fail_over`"
        )
    return ""


def _named(rows: list[_Growth]) -> str:
    """Return what growth the largest of some rows would show."""
    largest = sorted(rows, key=lambda row: -row.now[0])[:_MOST_NAMED]
    more = f", and {len(rows) - len(largest)} more" if len(rows) > len(largest) else ""
    return ", ".join(f"{row.name} would show {row.least:.1%}" for row in largest) + more

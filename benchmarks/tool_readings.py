"""What tools that measure energy said of the same kernels: bias, spread and the time that 1% takes."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from ptxbench.storage.atomic import write_text

WANTED = 0.01
_MAX_READINGS = 1_000_000


@dataclass(frozen=True)
class Reading:
    """One measurement, one line of readings.csv; `reference_j` is the reference power times `elapsed_s`."""

    tool: str
    duration_s: float
    repeat: int
    elapsed_s: float
    energy_j: float
    reference_j: float
    measuring_s: float


@dataclass(frozen=True)
class Summary:
    """One tool on kernels of one duration, one line of summary.csv.

    `seconds_to_1pct` is the measuring time of as many readings as their spread asks for; infinite where
    no number of them does.
    """

    tool: str
    duration_s: float
    readings: int
    answered: int
    bias_pct: float
    spread_pct: float
    measuring_s: float
    seconds_to_1pct: float


def summarize(readings: Sequence[Reading]) -> list[Summary]:
    """Return one line a tool and duration, ptxbench first."""
    groups: dict[tuple[float, str], list[Reading]] = {}
    for one in sorted(readings, key=lambda r: (r.duration_s, not r.tool.startswith("ptxbench"), r.tool)):
        groups.setdefault((one.duration_s, one.tool), []).append(one)
    return [_summary(tool, duration_s, group) for (duration_s, tool), group in groups.items()]


def _summary(tool: str, duration_s: float, group: Sequence[Reading]) -> Summary:
    ratios = [one.energy_j / one.reference_j for one in group if math.isfinite(one.energy_j)]
    measuring_s = float(np.mean([one.measuring_s for one in group]))
    mean = float(np.mean(ratios)) if ratios else math.nan
    spread = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else math.nan
    # A reading without an answer costs as much as one with.
    needed = readings_needed(spread / mean if mean > 0 else math.nan) * len(group) / max(len(ratios), 1)
    return Summary(
        tool=tool,
        duration_s=duration_s,
        readings=len(group),
        answered=len(ratios),
        bias_pct=100 * (mean - 1),
        spread_pct=100 * spread,
        measuring_s=measuring_s,
        seconds_to_1pct=needed * measuring_s,
    )


def readings_needed(spread: float, wanted: float = WANTED) -> float:
    """Return how many readings of a relative spread give a mean with a 95% half-width of `wanted`.

    The least n of at least 2 with t(n - 1) x spread / sqrt(n) <= wanted; infinite for an unknown spread.
    """
    from scipy.stats import t

    if not math.isfinite(spread):
        return math.inf
    low, high = 1, 2
    while high < _MAX_READINGS and t.ppf(0.975, high - 1) * spread / math.sqrt(high) > wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if t.ppf(0.975, middle - 1) * spread / math.sqrt(middle) > wanted:
            low = middle
        else:
            high = middle
    return float(high)


def write_csv(path: Path, kind: type, rows: Sequence[Reading] | Sequence[Summary]) -> None:
    """Write dataclasses of one kind as a CSV file, a column a field.

    Raises:
        InputError: The folder cannot be written or the disk is full.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_text(path, text.getvalue())

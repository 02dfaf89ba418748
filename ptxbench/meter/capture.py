"""One capture of an external power meter, and what makes one unfit for use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.sensors.trace import Float64s, Int64s

# No single GPU board draws more (the largest data-centre boards stay below 1.5 kW).
MAX_BOARD_POWER_W = 2000.0
# A little below zero is the noise of a current sensor on a rail that carries nothing.
MIN_BOARD_POWER_W = -20.0
# What the noise and the zero of a current sensor may make of a rail that carries nothing.
_MIN_RAIL_POWER_W = -2.0
# A rail that falls as much where the others rise carries its current the other way.
_MIN_OPPOSED = 0.5
_MAX_OUTSIDE = 0.001
_MAX_TORN = 0.05
_MAX_BACKWARDS = 0.01
_MIN_ROWS = 20
# 2001-09-09 to 2096-10-02: no monotonic clock counts that far.
_EPOCH_NS = (10**18, 4 * 10**18)


@dataclass(frozen=True)
class MeterCapture:
    """What an external meter logged.

    Attributes:
        time_ns: Strictly increasing time by the meter's own clock, shape (n,).
        power_w: Board power: the sum over the rails, shape (n,).
        rails: Names of the rails that are summed.
        origin: Format that the file was read as.
        notes: What was dropped, averaged or assumed, a sentence each.
    """

    time_ns: Int64s
    power_w: Float64s
    rails: tuple[str, ...]
    origin: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def is_epoch(self) -> bool:
        """Whether the clock counts from 1970 (UTC); otherwise its zero is arbitrary."""
        return is_epoch(int(self.time_ns[0]))

    @property
    def period_s(self) -> float:
        """Median time between two rows."""
        return float(np.median(np.diff(self.time_ns))) / 1e9

    def between(self, start_ns: int, end_ns: int) -> MeterCapture:
        """Return the rows with `start_ns` <= time <= `end_ns` by the meter's clock."""
        keep = (self.time_ns >= start_ns) & (self.time_ns <= end_ns)
        return MeterCapture(self.time_ns[keep], self.power_w[keep], self.rails, self.origin, self.notes)


def is_epoch(time_ns: int) -> bool:
    """Return whether a time can only be one since 1970 (UTC)."""
    return _EPOCH_NS[0] < time_ns < _EPOCH_NS[1]


def make_capture(
    path: Path,
    time_ns: Int64s,
    power_w: Float64s,
    *,
    rails: tuple[str, ...],
    origin: str,
    torn: int = 0,
    notes: tuple[str, ...] = (),
) -> MeterCapture:
    """Clean and check the rows of one file.

    Args:
        path: File that they come from, for messages.
        time_ns: Time of each row, shape (n,).
        power_w: Power, NaN where the row is torn, shape (n,).
        rails: Names of the rails.
        origin: Format.
        torn: Rows that the reader had to leave out already.
        notes: What the reader has to say.

    Returns:
        The capture, with repeated, torn and backward rows dropped and counted.

    Raises:
        InputError: Too few rows or too many bad ones, or a power that no GPU draws.
    """
    whole = np.isfinite(power_w)
    rows = len(power_w) + torn
    torn += int((~whole).sum())
    _require_few(path, torn, rows, _MAX_TORN, "are torn or hold no number")
    time_ns, power_w = time_ns[whole], power_w[whole]
    if len(time_ns) < _MIN_ROWS:
        raise InputError(f"{path}: {len(time_ns)} usable rows are too few; a capture needs {_MIN_ROWS}")
    forward = np.concatenate([[True], time_ns[1:] >= np.maximum.accumulate(time_ns)[:-1]])
    backwards = int((~forward).sum())
    _require_few(path, backwards, rows, _MAX_BACKWARDS, "go back in time; sort the file or split it")
    time_ns, power_w, repeated = _merge_repeats(time_ns[forward], power_w[forward])
    if len(time_ns) < _MIN_ROWS:
        raise InputError(f"{path}: only {len(time_ns)} different times; is the time column the right one?")
    _require_power(path, power_w)
    counts = (
        (torn, "torn"),
        (backwards, "backward in time"),
        (repeated, "of a repeated time, averaged with their like"),
    )
    counted = tuple(f"{count} of {rows} rows {what}" for count, what in counts if count)
    return MeterCapture(time_ns, power_w, rails, origin, (*notes, *counted))


def require_forward(path: Path, rails: Sequence[tuple[str, Float64s]]) -> tuple[str, ...]:
    """Refuse a rail whose power is negative while the other rails feed the GPU.

    A small one may be a sensor whose zero is off, and one at exactly 0 W a dead sensor: these are said.

    Args:
        path: File, for messages.
        rails: Name and power of each rail, NaN where it is not known, each of shape (n,).

    Returns:
        A sentence about each rail that is doubtful.

    Raises:
        InputError: A rail is wired backwards.
    """
    if len(rails) < 2:
        return ()
    notes = []
    for number, (name, rail_w) in enumerate(rails):
        rest_w = np.sum([other_w for i, (_, other_w) in enumerate(rails) if i != number], axis=0)
        known = np.isfinite(rail_w) & np.isfinite(rest_w)
        rail_w, rest_w = rail_w[known], rest_w[known]
        if len(rail_w) and not rail_w.any():
            notes.append(f"rail {name} reads 0 W in every row: is its sensor connected?")
        if not len(rail_w) or not rail_w.mean() < 0:
            continue
        spread = float(rail_w.std() * rest_w.std())
        opposed = (
            -float(np.mean((rail_w - rail_w.mean()) * (rest_w - rest_w.mean()))) / spread if spread else 0.0
        )
        if rail_w.mean() < _MIN_RAIL_POWER_W or opposed > _MIN_OPPOSED:
            raise InputError(
                f"{path}: rail {name} carries {rail_w.mean():.3g} W on average, against the other rails: "
                "it is wired backwards; give its current a scale of -1 in a mapping (--mapping)"
            )
        notes.append(
            f"rail {name} carries {rail_w.mean():.2g} W on average: the zero of its sensor is off, or it is"
            " wired backwards"
        )
    return tuple(notes)


def _merge_repeats(time_ns: Int64s, power_w: Float64s) -> tuple[Int64s, Float64s, int]:
    """Average the rows of one time: a doubled row stays itself, a coarse clock keeps its energy."""
    first = np.flatnonzero(np.diff(time_ns, prepend=time_ns[0] - 1))
    repeated = len(time_ns) - len(first)
    if not repeated:
        return time_ns, power_w, 0
    counts = np.diff(np.append(first, len(time_ns)))
    return time_ns[first], np.add.reduceat(power_w, first) / counts, repeated


def _require_few(path: Path, bad: int, rows: int, limit: float, what: str) -> None:
    if bad > limit * rows:
        raise InputError(f"{path}: {bad} of {rows} rows {what}")


def _require_power(path: Path, power_w: Float64s) -> None:
    low_w, high_w = float(power_w.min()), float(power_w.max())
    outside = (power_w < MIN_BOARD_POWER_W) | (power_w > MAX_BOARD_POWER_W)
    if outside.mean() > _MAX_OUTSIDE or power_w.mean() <= 0:
        raise InputError(
            f"{path}: the rails sum to {low_w:.4g} to {high_w:.4g} W, which no single GPU draws; "
            "check units, signs and the mapping"
        )

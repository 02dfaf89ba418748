"""One capture of an external power meter, and what makes one unfit for use."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import ANY_BOARD_W
from ptxbench.sensors.trace import Float64s, Int64s

Bools = npt.NDArray[np.bool_]

# Half an hour at 5 kHz: 160 MB as times and powers.
MAX_ROWS = 10_000_000
# Rows that are cleaned together, so that a long capture is not copied.
_BLOCK = 1 << 18
# A little below zero is the noise of a current sensor on a rail that carries nothing.
MIN_BOARD_POWER_W = -20.0
# What the noise and the zero of a current sensor may make of a rail that carries nothing.
_MIN_RAIL_POWER_W = -2.0
# A rail that falls as much where the others rise carries its current the other way.
_MIN_OPPOSED = 0.5
# Shares of rows, above which a capture is refused: of no board's power, torn, and back in time; chosen.
_MAX_OUTSIDE = 0.001
MAX_TORN = 0.05
MAX_BACKWARDS = 0.01
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
        is_of_host: Whether its times are the host's.
    """

    time_ns: Int64s
    power_w: Float64s
    rails: tuple[str, ...]
    origin: str
    notes: tuple[str, ...] = ()
    is_of_host: bool = False

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
        return replace(self, time_ns=self.time_ns[keep], power_w=self.power_w[keep])


def is_epoch(time_ns: int) -> bool:
    """Return whether a time can only be one since 1970 (UTC)."""
    return _EPOCH_NS[0] < time_ns < _EPOCH_NS[1]


class CaptureRows:
    """Takes the rows of a file piece by piece, and makes a capture of them.

    It holds two numbers a row, whatever the number of rails.
    """

    def __init__(self, path: Path, rails: Sequence[str]) -> None:
        """Begin without rows.

        Args:
            path: File that they come from, for messages.
            rails: Names of the rails.
        """
        self._path = path
        self._rails = tuple(rails)
        # A single rail has no others to be held against.
        self._sums = [_RailSums(name) for name in self._rails] if len(self._rails) > 1 else []
        self._time_ns, self._power_w = array("q"), array("d")
        self._rows = self._torn = self._absent = 0

    def add(
        self,
        time_ns: Int64s,
        rails_w: Sequence[Float64s],
        readable: Bools | None = None,
        *,
        absent: Bools | None = None,
        torn: int = 0,
    ) -> None:
        """Add some rows.

        Args:
            time_ns: Time of each row, shape (n,).
            rails_w: Power of each rail, NaN where it is not known, each of shape (n,).
            readable: Rows whose time is known, shape (n,); None for all.
            absent: Rows that say that they have no value, shape (n,); None for none.
            torn: Rows that the reader had to leave out already.

        Raises:
            InputError: There are too many.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            power_w = np.sum(rails_w, axis=0)
            for sums, rail_w in zip(self._sums, rails_w, strict=False):
                sums.add(rail_w, power_w)
        read = np.ones(len(time_ns), dtype=np.bool_) if readable is None else readable
        whole = read & np.isfinite(power_w)
        without = 0 if absent is None else int((absent & read & ~whole).sum())
        self._absent += without
        self._torn += torn + int((~whole).sum()) - without
        self._rows += len(time_ns) + torn
        self._time_ns.frombytes(time_ns[whole].tobytes())
        self._power_w.frombytes(power_w[whole].tobytes())
        if len(self._time_ns) > MAX_ROWS:
            raise InputError(
                f"{self._path} holds more than {MAX_ROWS} rows; cut it to the time of the kernels"
            )

    def capture(
        self,
        settle: Callable[[Int64s], tuple[str, ...]] | None = None,
        *,
        origin: str,
        notes: tuple[str, ...] = (),
    ) -> MeterCapture:
        """Clean and check the rows.

        Args:
            settle: Corrects the times in place, and returns what it has to say; None where they are right.
            origin: Format.
            notes: What the reader has to say.

        Returns:
            The capture, with repeated, torn and backward rows dropped and counted.

        Raises:
            InputError: Too few rows or too many bad ones, a rail that is wired backwards, or a power that no
                GPU draws.
        """
        time_ns = np.frombuffer(self._time_ns, dtype=np.int64)
        power_w = np.frombuffer(self._power_w, dtype=np.float64)
        settled = settle(time_ns) if settle is not None else ()
        doubts = tuple(note for sums in self._sums for note in sums.notes(self._path))
        _require_few(self._path, self._torn, self._rows, MAX_TORN, "are torn or hold no number")
        if len(time_ns) < _MIN_ROWS:
            raise InputError(
                f"{self._path}: {len(time_ns)} usable rows are too few; a capture needs {_MIN_ROWS}"
            )
        kept = _drop_backwards(time_ns, power_w)
        backwards = len(time_ns) - kept
        _require_few(
            self._path, backwards, self._rows, MAX_BACKWARDS, "go back in time; sort the file or split it"
        )
        count = _merge_repeats(time_ns[:kept], power_w[:kept])
        if count < _MIN_ROWS:
            raise InputError(f"{self._path}: only {count} different times; is the time column the right one?")
        time_ns, power_w = time_ns[:count], power_w[:count]
        _require_power(self._path, power_w)
        counts = (
            (self._torn, "torn"),
            (self._absent, "without a value"),
            (backwards, "backward in time"),
            (kept - count, "of a repeated time, averaged with their like"),
        )
        counted = tuple(f"{count} of {self._rows} rows {what}" for count, what in counts if count)
        return MeterCapture(time_ns, power_w, self._rails, origin, (*settled, *notes, *doubts, *counted))


class _RailSums:
    """What tells of one rail whether it is wired backwards: its power against that of the others.

    A small negative power may be a sensor whose zero is off, and one at exactly 0 W a dead sensor.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._count, self._is_live = 0, False
        # Sums of its power, of the others', of their squares, and of their product.
        self._sums = np.zeros(5)

    def add(self, rail_w: Float64s, power_w: Float64s) -> None:
        """Add some rows, of which those count that are known of every rail: its power and that of all."""
        known = np.isfinite(power_w)
        rail_w, rest_w = rail_w[known], power_w[known] - rail_w[known]
        self._count += len(rail_w)
        self._is_live |= bool(rail_w.any())
        terms = (rail_w, rest_w, rail_w**2, rest_w**2, rail_w * rest_w)
        self._sums += [term.sum() for term in terms]

    def notes(self, path: Path) -> tuple[str, ...]:
        """Return a sentence where the rail is doubtful.

        Raises:
            InputError: It is wired backwards.
        """
        if not self._count:
            return ()
        if not self._is_live:
            return (f"rail {self._name} reads 0 W in every row: is its sensor connected?",)
        mean_w, rest_w, square, rest_square, product = self._sums / self._count
        if not mean_w < 0:
            return ()
        spread = float(np.sqrt(max(0.0, square - mean_w**2) * max(0.0, rest_square - rest_w**2)))
        opposed = (mean_w * rest_w - product) / spread if spread else 0.0
        if mean_w < _MIN_RAIL_POWER_W or opposed > _MIN_OPPOSED:
            raise InputError(
                f"{path}: rail {self._name} carries {mean_w:.3g} W on average, against the other rails: "
                "it is wired backwards; give its current a scale of -1 in a mapping (`mapping`)"
            )
        return (
            f"rail {self._name} carries {mean_w:.2g} W on average: the zero of its sensor is off, or it is"
            " wired backwards",
        )


def _drop_backwards(time_ns: Int64s, power_w: Float64s) -> int:
    """Move the rows that do not go back in time to the front, and return how many these are."""
    kept, latest_ns = 0, int(time_ns[0])
    for start in range(0, len(time_ns), _BLOCK):
        block_ns, block_w = time_ns[start : start + _BLOCK], power_w[start : start + _BLOCK]
        before_ns = np.maximum.accumulate(np.concatenate([[latest_ns], block_ns]))
        forward = block_ns >= before_ns[:-1]
        latest_ns = int(before_ns[-1])
        count = int(forward.sum())
        time_ns[kept : kept + count], power_w[kept : kept + count] = block_ns[forward], block_w[forward]
        kept += count
    return kept


def _merge_repeats(time_ns: Int64s, power_w: Float64s) -> int:
    """Average the rows of one time, move the means to the front, and return how many these are.

    A doubled row stays itself, and a coarse clock keeps its energy.
    """
    kept, start = 0, 0
    while start < len(time_ns):
        last = min(start + _BLOCK, len(time_ns)) - 1
        end = int(np.searchsorted(time_ns, time_ns[last], side="right"))
        block_ns = time_ns[start:end]
        first = np.flatnonzero(np.diff(block_ns, prepend=block_ns[0] - 1))
        counts = np.diff(np.append(first, len(block_ns)))
        means_w = np.add.reduceat(power_w[start:end], first) / counts
        time_ns[kept : kept + len(first)], power_w[kept : kept + len(first)] = block_ns[first], means_w
        kept, start = kept + len(first), end
    return kept


def _require_few(path: Path, bad: int, rows: int, limit: float, what: str) -> None:
    if bad > limit * rows:
        raise InputError(f"{path}: {bad} of {rows} rows {what}")


def _require_power(path: Path, power_w: Float64s) -> None:
    low_w, high_w = float(power_w.min()), float(power_w.max())
    outside = (power_w < MIN_BOARD_POWER_W) | (power_w > ANY_BOARD_W)
    if outside.mean() > _MAX_OUTSIDE or power_w.mean() <= 0:
        raise InputError(
            f"{path}: the rails sum to {low_w:.4g} to {high_w:.4g} W, which no single GPU draws; "
            "check units, signs and the mapping"
        )

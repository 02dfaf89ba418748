"""Turn a column of times into nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from itertools import chain, pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import POINT, quoted
from ptxbench.meter.readers.cells import numbers
from ptxbench.sensors.trace import Float64s, Int64s

Bools = npt.NDArray[np.bool_]

_S_NS = 10**9
# A logger that runs past midnight starts again at 0:00.
_DAY_NS = 86_400 * _S_NS
# Share of stamps that may be no time; chosen.
_MAX_UNREADABLE = 0.05
_MAX_NS = 9e18  # of a signed 64-bit integer
# Spans of counters that wrap; a first stamp beyond is no such counter's; usual steps that one over a wrap may
# be.
_COUNTER_SPANS = (1 << 16, 1 << 24, 1 << 31, 1 << 32)
_MAX_COUNT = 1 << 33
_USUAL_STEPS = 20
# A change to summer time or back, and how far the stamps around it may be from an hour.
_HOUR_NS = 3_600 * _S_NS
_HOUR_SLACK_NS = 30 * _S_NS
# Smallest epoch time (2001) in each unit, largest first.
_EPOCH_FACTORS = ((1e18, 1), (1e15, 1_000), (1e12, 1_000_000), (1e9, _S_NS))
# Rows that are looked at together, so that a long capture is not copied.
_BLOCK = 1 << 20
_WHOLE = "0123456789-\n"

# Orders of day, month and year, as a mapping names them.
DATE_ORDERS = ("ymd", "dmy", "mdy")
_DATE = re.compile(r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})(?!\d)", re.ASCII)
_STAMP = re.compile(
    r"(?:(?P<date>\d{8}|\d{1,4}([-./])\d{1,2}\2\d{1,4})(?:T|,? *))?"
    r"(?:(?P<hour>\d{1,5}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:[.,:](?P<part>\d{1,18}))?)?)?"
    r" ?(?P<half>[AP]M)? ?(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII | re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# "8 Jul 2023 18:27:36", "08-Jul-2023 18:27:36", "Jul 8, 2023 6:27:36 PM" and "Sat Jul  8 18:27:36 2023".
_DAY_NAME, _MONTH = "(?:[A-Za-z]+,? +)?", "(?P<month>[A-Za-z]{3})[a-z]*"
_WORDED = (
    re.compile(rf"{_DAY_NAME}(?P<day>\d{{1,2}})[ -]{_MONTH}[ -](?P<year>\d{{4}})(?P<rest>.*)", re.ASCII),
    re.compile(rf"{_DAY_NAME}{_MONTH} +(?P<day>\d{{1,2}}),? +(?P<year>\d{{4}})(?P<rest>.*)", re.ASCII),
    re.compile(rf"{_DAY_NAME}{_MONTH} +(?P<day>\d{{1,2}})(?P<rest> [\d:.,]+) (?P<year>\d{{4}})", re.ASCII),
)
# A year of two digits is one of these.
_YEARS = range(2010, 2100)
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class Clock:
    """Makes the times of rows from the cells of some columns.

    Attributes:
        columns: The columns.
    """

    columns: tuple[str, ...]

    def read(self, columns: Sequence[Sequence[str]], rows: Sequence[int]) -> tuple[Int64s, Bools]:
        """Return the times of some rows in ns, and which are times at all.

        Args:
            columns: The cells of each column.
            rows: Number of each row in the file.
        """
        raise NotImplementedError

    def settle(self, time_ns: Int64s) -> tuple[str, ...]:  # noqa: ARG002
        """Undo, in place, what the clock did over all rows, and return a sentence about each.

        Raises:
            InputError: The times cannot be trusted.
        """
        return ()


class SampleClock(Clock):
    """The times of samples that carry none."""

    def __init__(self, start_s: float, step_s: float, column: str | None = None) -> None:
        """Make a clock.

        Args:
            start_s: Time of sample 0.
            step_s: Time between two samples.
            column: Column that numbers them; None where each row is the next one.
        """
        self._start_s, self._step_s = start_s, step_s
        self.columns = () if column is None else (column,)

    def read(self, columns: Sequence[Sequence[str]], rows: Sequence[int]) -> tuple[Int64s, Bools]:
        """Return the times of some rows; see `Clock`."""
        count = numbers(columns[0], POINT) if columns else np.array(rows, dtype=np.float64)
        return to_ns(self._start_s + self._step_s * count, _S_NS)


class NumberClock(Clock):
    """Times that are numbers."""

    def __init__(self, column: str, unit_s: float | None, decimal: str) -> None:
        """Make a clock.

        Args:
            column: Column of the times.
            unit_s: Length of the unit; None to tell it from the size of the first number (times since
                1970), or else to take seconds.
            decimal: Decimal sign.
        """
        self.columns = (column,)
        self._factor_ns = None if unit_s is None else round(unit_s * 1e9)
        self._decimal = decimal

    def read(self, columns: Sequence[Sequence[str]], rows: Sequence[int]) -> tuple[Int64s, Bools]:  # noqa: ARG002
        """Return the times of some rows; see `Clock`."""
        whole = _whole_numbers(columns[0])
        values = numbers(columns[0], self._decimal) if whole is None else whole
        finite = np.isfinite(values)
        if self._factor_ns is None and finite.any():
            first = float(values[finite][0])
            self._factor_ns = next((factor for least, factor in _EPOCH_FACTORS if first >= least), _S_NS)
        return to_ns(values, self._factor_ns or _S_NS)

    def settle(self, time_ns: Int64s) -> tuple[str, ...]:
        """Undo the wraps of a counter of 16, 24, 31 or 32 bits in place, and say how many there were.

        A step back is a wrap where the counter, had it gone on, would have made a step as ever.
        """
        factor_ns = self._factor_ns or _S_NS
        back = _where_steps(time_ns, lambda steps_ns: steps_ns < 0)
        steps_ns = np.diff(time_ns[:_BLOCK])
        forward_ns = steps_ns[steps_ns >= 0]
        if not len(back) or not len(forward_ns) or time_ns[0] >= _MAX_COUNT * factor_ns:
            return ()
        usual_ns = float(np.median(forward_ns))
        back_ns = time_ns[back] - time_ns[back - 1]
        for span_ns in (span * factor_ns for span in _COUNTER_SPANS):
            wraps = np.abs(back_ns + span_ns - usual_ns) <= _USUAL_STEPS * max(usual_ns, factor_ns)
            if wraps.any():
                _shift(time_ns, back[wraps], np.full(int(wraps.sum()), span_ns))
                times = "once" if wraps.sum() == 1 else f"{wraps.sum()} times"
                return (f"the clock's counter wraps {times}; it is unwrapped",)
        return ()


class StampClock(Clock):
    """Times that are dates or times of day.

    Stamps that name no zone are local times: an hour that they skip or repeat is the change to or from
    summer time, and is undone.
    """

    def __init__(
        self,
        path: Path,
        columns: tuple[str, ...],
        first: str,
        zone: str | None,
        order: str,
        milliseconds: str | None = None,
    ) -> None:
        """Make a clock.

        Args:
            path: File, for messages.
            columns: Column of the stamps; or of dates, then of times of day.
            first: First stamp, such as "2023/07/08 19:27:36.359", "2023-07-08T18:27:36.359+02:00" or
                "19:27:36.359".
            zone: Zone of stamps that name none; None for UTC.
            order: Order of day, month and year.
            milliseconds: Column of the milliseconds of each stamp, where they are apart.
        """
        self.columns = columns if milliseconds is None else (*columns, milliseconds)
        self._has_milliseconds = milliseconds is not None
        self._is_worded = _in_digits(first) != first
        found = _STAMP.fullmatch(_in_digits(first))
        self._path, self._zone, self._order = path, zone, order
        self._has_date = found is None or found["date"] is not None
        self._has_zone = found is not None and found["zone"] is not None
        self._days_ns: dict[str, int | None] = {}
        self._read, self._unread, self._example = 0, 0, first

    def read(self, columns: Sequence[Sequence[str]], rows: Sequence[int]) -> tuple[Int64s, Bools]:  # noqa: ARG002
        """Return the times of some rows; see `Clock`."""
        parts = columns[:-1] if self._has_milliseconds else columns
        cells = parts[0] if len(parts) == 1 else [" ".join(cell) for cell in zip(*parts, strict=True)]
        found = [self._to_ns(_in_digits(cell) if self._is_worded else cell) for cell in cells]
        readable = np.array([one is not None for one in found], dtype=np.bool_)
        self._read += len(found)
        if not readable.all():
            self._example = cells[int(np.argmin(readable))] if not self._unread else self._example
            self._unread += int((~readable).sum())
        time_ns = np.array([one or 0 for one in found], dtype=np.int64)
        if not self._has_milliseconds:
            return time_ns, readable
        extra_ms = numbers(columns[-1], POINT)
        readable &= (extra_ms >= 0) & (extra_ms < 1_000)
        return time_ns + 1_000_000 * np.where(readable, extra_ms, 0).astype(np.int64), readable

    def settle(self, time_ns: Int64s) -> tuple[str, ...]:
        """Undo midnights and changes of summer time in place, and move the times to UTC.

        Raises:
            InputError: Too many stamps could not be read, or there is no such zone.
        """
        if self._unread > _MAX_UNREADABLE * self._read:
            raise InputError(
                f"{self._path}: {self._unread} of {self._read} times cannot be read,"
                f" such as {quoted(self._example)}"
            )
        if self._has_zone or not len(time_ns):
            return ()
        if not self._has_date:
            midnights = _where_steps(time_ns, lambda steps_ns: steps_ns < -_DAY_NS // 2)
            _shift(time_ns, midnights, np.full(len(midnights), _DAY_NS))
        changed = _one_offset(time_ns)
        if not self._has_date:
            return ()
        time_ns -= _ahead_ns(self._path, int(time_ns[0]), self._zone)
        notes: tuple[str, ...] = ()
        if self._zone is None:
            notes = ("the times name no zone and are taken for UTC",)
        if changed:
            notes += ("the times skip or repeat an hour, as at a change of summer time; it is undone",)
        return notes

    def _to_ns(self, cell: str) -> int | None:
        found = _STAMP.fullmatch(cell)
        if found is None:
            return None
        day, _, hour, minute, second, part, half, zone = found.groups()
        if (day is None) is self._has_date or (zone is None) is self._has_zone:
            return None
        day_ns = self._day_ns(day) if day else 0
        hours = _hours(hour, half)
        if day_ns is None or hours is None:
            return None
        seconds = (60 * hours + int(minute or 0)) * 60 + int(second or 0) - (_zone_s(zone) if zone else 0)
        time_ns = day_ns + _S_NS * seconds + int((part or "0")[:9].ljust(9, "0"))
        return time_ns if abs(time_ns) < _MAX_NS else None

    def _day_ns(self, text: str) -> int | None:
        if text not in self._days_ns:
            day = _day(text, self._order)
            self._days_ns[text] = None if day is None else (day.toordinal() - _EPOCH_DAY) * _DAY_NS
        return self._days_ns[text]


def to_ns(values: Float64s | Int64s, factor_ns: int) -> tuple[Int64s, Bools]:
    """Return numbers as times in ns, exact for whole numbers, and which are times at all.

    A time is finite, and within 292 years of zero.
    """
    readable = np.isfinite(values) & (np.abs(values.astype(np.float64)) < _MAX_NS / factor_ns)
    known = np.where(readable, values, 0)
    if known.dtype.kind == "i":
        return known.astype(np.int64) * factor_ns, readable
    whole = np.floor(known)
    # Whole and fractional part apart: a double holds an epoch time in s to no more than 0.2 us.
    part_ns = np.round((known - whole) * factor_ns).astype(np.int64)
    return whole.astype(np.int64) * factor_ns + part_ns, readable


def date_order(path: Path, dates: Iterable[str], said: str | None, section: str = "") -> str:
    """Return in which order the dates of a file have day, month and year.

    With points between them the day comes first. Otherwise the order is the one in which all dates exist,
    and each is the day after the one before it.

    Args:
        path: File, for messages.
        dates: The beginnings of its stamps, in order of time.
        said: The order, where a mapping says it.
        section: What stands before the mapping's section about this file.

    Raises:
        InputError: The dates leave it open.
    """
    found = (match for match in map(_DATE.match, dates) if match is not None)
    first = next(found, None)
    if said is not None or first is None or len(first[1]) > 2:
        return said or DATE_ORDERS[0]
    if first[2] == ".":
        return "dmy"
    texts = list(dict.fromkeys(match[0] for match in chain([first], found)))
    days = {order: [_day(text, order) for text in texts] for order in DATE_ORDERS}
    possible = {order: [d for d in those if d] for order, those in days.items() if all(those)}
    following = {
        order: those
        for order, those in possible.items()
        if all(later - earlier == timedelta(1) for earlier, later in pairwise(those))
    }
    left = following or possible
    if len({tuple(those) for those in left.values()}) != 1:
        raise InputError(
            f"{path}: {quoted(texts[0])} may have the day or the month first; say it in a mapping"
            f' (`mapping`): date_order = "dmy" or "mdy" under [{section}time]'
        )
    return next(iter(left))


def _day(text: str, order: str) -> date | None:
    if len(text) == 8 and text.isdigit():
        parts = {"y": text[:4], "m": text[4:6], "d": text[6:]}
    else:
        parts = dict(zip(order, re.split(r"[-./]", text), strict=True))
    if len(parts["y"]) not in (2, 4):
        return None
    year = int(parts["y"]) + (2000 if len(parts["y"]) == 2 else 0)
    if len(parts["y"]) == 2 and year not in _YEARS:
        return None
    try:
        return date(year, int(parts["m"]), int(parts["d"]))
    except ValueError:
        return None


def _hours(hour: str | None, half: str | None) -> int | None:
    hours = int(hour or 0)
    if half is None:
        return hours
    return hours % 12 + (12 if half[0] in "pP" else 0) if hours <= 12 else None


def _zone_s(zone: str) -> int:
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return int(f"{zone[0]}1") * 60 * (60 * int(digits[:2]) + int(digits[2:]))


def _in_digits(cell: str) -> str:
    """Return a stamp with its month in letters as one in digits, year first, and any other as it is."""
    for form in _WORDED:
        found = form.fullmatch(cell)
        if found is not None and found["month"].lower() in _MONTHS:
            month = _MONTHS.index(found["month"].lower()) + 1
            return f"{found['year']}-{month}-{found['day']}{found['rest']}"
    return cell


def _whole_numbers(cells: Sequence[str]) -> Int64s | None:
    """Return cells as whole numbers, None where one is none."""
    if "\n".join(cells).strip(_WHOLE):
        return None
    try:
        return np.fromiter(map(int, cells), np.int64, len(cells))
    except (ValueError, OverflowError):
        return None


def _where_steps(time_ns: Int64s, test: Callable[[Int64s], Bools]) -> Int64s:
    """Return the numbers of the rows whose step from the row before passes a test."""
    found = [
        start + 1 + np.flatnonzero(test(np.diff(time_ns[start : start + _BLOCK + 1])))
        for start in range(0, len(time_ns), _BLOCK)
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _shift(time_ns: Int64s, at: Int64s, by_ns: Int64s) -> None:
    """Move every row from each of some rows on, in place."""
    for (start, end), total_ns in zip(
        pairwise([*at.tolist(), len(time_ns)]), np.cumsum(by_ns).tolist(), strict=True
    ):
        time_ns[start:end] += total_ns


def _one_offset(time_ns: Int64s) -> bool:
    """Undo steps of one hour between two rows in place, and return whether there were any."""

    def is_change(steps_ns: Int64s) -> Bools:
        return np.asarray(np.abs(np.abs(steps_ns) - _HOUR_NS) <= _HOUR_SLACK_NS)

    changes = _where_steps(time_ns, is_change)
    # Rows that are an hour apart by themselves are no change of the clock.
    if not len(changes) or float(np.median(np.abs(np.diff(time_ns[:_BLOCK])))) > _HOUR_SLACK_NS:
        return False
    _shift(time_ns, changes, -_HOUR_NS * np.sign(time_ns[changes] - time_ns[changes - 1]))
    return True


def _ahead_ns(path: Path, first_ns: int, zone: str | None) -> int:
    """Return how far a zone is ahead of UTC at a local time, the first of two that are alike."""
    try:
        local = datetime(1970, 1, 1) + timedelta(seconds=first_ns // _S_NS)
        offset = local.replace(tzinfo=ZoneInfo(zone or "UTC")).utcoffset()
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{path}: no time zone {zone!r}") from error
    return 0 if offset is None else int(offset.total_seconds()) * _S_NS

"""Turn a column of times into nanoseconds."""

from __future__ import annotations

import re
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

from ptxbench.core.errors import InputError
from ptxbench.sensors.trace import Int64s

_CLOCK_ONLY = re.compile(r"\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*")
# A logger that runs past midnight starts again at 0:00.
_DAY_NS = 86_400 * 10**9
_MAX_UNREADABLE = 0.05
_MAX_NS = 9e18
_COUNTER_SPANS = (1 << 16, 1 << 24, 1 << 31, 1 << 32)
_MAX_COUNT = 2.0**33
_USUAL_STEPS = 20
# A change to summer time or back, and how far the stamps around it may be from an hour.
_HOUR_NS = 3_600 * 10**9
_HOUR_SLACK_NS = 30 * 10**9
# Smallest epoch time (2001) in each unit, largest first.
_EPOCH_FACTORS = ((1e18, 1), (1e15, 1_000), (1e12, 1_000_000), (1e9, 1_000_000_000))


def numbers_to_ns(
    values: npt.NDArray[np.float64] | Int64s, factor_s: float | None
) -> tuple[Int64s, npt.NDArray[np.bool_], int]:
    """Return times that are numbers as ns.

    Args:
        values: Times, shape (n,).
        factor_s: Length of the unit in seconds; None to tell it from the size of the
            numbers (times since 1970) or else to take seconds.

    Returns:
        ns, exact for integers; which of them are times at all (finite, and within 292 years of zero);
        how often a counter wrapped, which is undone.
    """
    values, wraps = _unwrap(values if values.dtype.kind == "i" else values.astype(np.float64))
    if factor_s is None:
        first = float(values[np.isfinite(values)][0]) if np.isfinite(values).any() else 0.0
        factor_ns = next((factor for least, factor in _EPOCH_FACTORS if first >= least), 1_000_000_000)
    else:
        factor_ns = round(factor_s * 1e9)
    readable = np.isfinite(values) & (np.abs(values.astype(np.float64)) < _MAX_NS / factor_ns)
    known = np.where(readable, values, 0)
    if known.dtype.kind == "i":
        return known.astype(np.int64) * factor_ns, readable, wraps
    whole = np.floor(known)
    # Whole and fractional part apart: a double holds an epoch time in s to no more than 0.2 us.
    part_ns = np.round((known - whole) * factor_ns).astype(np.int64)
    return whole.astype(np.int64) * factor_ns + part_ns, readable, wraps


def _unwrap(
    values: npt.NDArray[np.float64] | Int64s,
) -> tuple[npt.NDArray[np.float64] | Int64s, int]:
    """Undo the wraps of a counter of 16, 24, 31 or 32 bits, and say how many there were.

    A step back is a wrap where the counter, had it gone on, would have made a step as ever.
    """
    known = np.flatnonzero(np.isfinite(values) & (np.abs(values) < _MAX_COUNT))
    steps = np.diff(values[known])
    back = np.flatnonzero(steps < 0)
    if not len(back) or len(back) == len(steps):
        return values, 0
    usual = float(np.median(steps[steps >= 0]))
    for span in _COUNTER_SPANS:
        wrap = back[np.abs(steps[back] + span - usual) <= _USUAL_STEPS * max(usual, 1.0)]
        if len(wrap):
            wraps = np.zeros(len(values), dtype=values.dtype)
            wraps[known[wrap + 1]] = span
            return values + np.cumsum(wraps), len(wrap)
    return values, 0


def texts_to_ns(
    path: Path, texts: pd.Series[str], zone: str | None
) -> tuple[Int64s, npt.NDArray[np.bool_], tuple[str, ...]]:
    """Return times that are dates or times of day as ns.

    Stamps that name no zone are local times: an hour that they skip or repeat is the change to or from
    summer time, and is undone.

    Args:
        path: File, for messages.
        texts: Such as "2023/07/08 19:27:36.359", "2023-07-08T18:27:36.359+02:00", "19:27:36.359".
        zone: Zone of stamps that name none; None for UTC.

    Returns:
        ns; which of them could be read; what was assumed.

    Raises:
        InputError: They are no times.
    """
    known = texts.dropna()
    sample = str(known.iloc[0]) if len(known) else ""
    if _CLOCK_ONLY.fullmatch(sample):
        time_ns, readable = _clock_to_ns(texts)
        return _one_offset(time_ns, readable), readable, ()
    has_zone = re.search(r"(Z|UTC|[+-]\d{2}:?\d{2})\s*$", sample) is not None
    try:
        stamps = _parse(texts.astype(str).str.replace(",", ".", regex=False), utc=has_zone)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: the times cannot be read, such as {sample[:40]!r}") from error
    readable = stamps.notna().to_numpy()
    if readable.mean() < 1 - _MAX_UNREADABLE:
        raise InputError(
            f"{path}: {int((~readable).sum())} of {len(texts)} times cannot be read, such as {sample[:40]!r}"
        )
    if has_zone:
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    time_ns = stamps.astype("datetime64[ns]").to_numpy().astype(np.int64)
    if has_zone:
        return time_ns, readable, ()
    steady_ns = _one_offset(time_ns, readable)
    notes: tuple[str, ...] = ("the times name no zone and are taken for UTC",) if zone is None else ()
    if (steady_ns != time_ns).any():
        notes += ("the times skip or repeat an hour, as at a change of summer time; it is undone",)
    if not readable.any():
        return steady_ns, readable, notes
    first = stamps[readable].iloc[0]
    # Of an hour that comes twice the first is taken.
    zoned = first.tz_localize(_zone(path, zone), ambiguous=True, nonexistent="shift_forward")
    ahead_ns = first.tz_localize("UTC").value - zoned.value
    return np.where(readable, steady_ns - ahead_ns, steady_ns), readable, notes


def _one_offset(time_ns: Int64s, readable: npt.NDArray[np.bool_]) -> Int64s:
    """Undo steps of one hour between two readable times."""
    known_ns = time_ns[readable]
    steps_ns = np.diff(known_ns, prepend=known_ns[:1])
    change = np.abs(np.abs(steps_ns) - _HOUR_NS) <= _HOUR_SLACK_NS
    # Rows that are an hour apart by themselves are no change of the clock.
    if not len(steps_ns) or float(np.median(np.abs(steps_ns))) > _HOUR_SLACK_NS:
        return time_ns
    result = time_ns.copy()
    result[readable] = known_ns - np.cumsum(np.where(change, np.sign(steps_ns) * _HOUR_NS, 0))
    return result


def _parse(texts: pd.Series[str], *, utc: bool) -> pd.Series[pd.Timestamp]:
    first = texts.iloc[0]
    # Seconds with and without decimals stand in one file: pandas' own guess takes the first one's form.
    form = "ISO8601" if re.match(r"\s*\d{4}-\d{2}-\d{2}", first) else None
    if form is None and re.match(r"\s*\d{4}/\d{2}/\d{2} ", first):
        texts, form = texts.str.replace("/", "-", regex=False), "ISO8601"
    if form is None:
        return pd.to_datetime(texts, errors="coerce", utc=utc, format="mixed")
    return pd.to_datetime(texts.str.strip(), errors="coerce", utc=utc, format=form)


def _clock_to_ns(texts: pd.Series[str]) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    text = texts.astype(str).str.strip().str.replace(",", ".", regex=False)
    spans = pd.to_timedelta(text.where(text.str.count(":") == 2, text + ":00"), errors="coerce")
    readable = spans.notna().to_numpy()
    time_ns = spans.astype("timedelta64[ns]").to_numpy().astype(np.int64)
    steps = np.diff(time_ns[readable], prepend=time_ns[readable][:1])
    time_ns[readable] += _DAY_NS * np.cumsum(steps < -_DAY_NS // 2)
    return time_ns, readable


def _zone(path: Path, zone: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(zone or "UTC")
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{path}: no time zone {zone!r}") from error

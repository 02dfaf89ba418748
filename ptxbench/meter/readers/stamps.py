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
# Smallest epoch time (2001) in each unit, largest first.
_EPOCH_FACTORS = ((1e18, 1), (1e15, 1_000), (1e12, 1_000_000), (1e9, 1_000_000_000))


def numbers_to_ns(values: npt.NDArray[np.float64] | Int64s, factor_s: float | None) -> Int64s:
    """Return times that are numbers as ns.

    Args:
        values: Times, shape (n,).
        factor_s: Length of the unit in seconds; None to tell it from the size of the
            numbers (times since 1970) or else to take seconds.

    Returns:
        ns, exact for integers; -1 where `values` is not finite.
    """
    if factor_s is None:
        first = float(values[np.isfinite(values)][0]) if np.isfinite(values).any() else 0.0
        factor_ns = next((factor for least, factor in _EPOCH_FACTORS if first >= least), 1_000_000_000)
    else:
        factor_ns = round(factor_s * 1e9)
    if np.issubdtype(values.dtype, np.integer):
        return np.asarray(values, dtype=np.int64) * factor_ns
    known = np.nan_to_num(values, nan=-1.0, posinf=-1.0, neginf=-1.0)
    whole = np.floor(known)
    # Whole and fractional part apart: a double holds an epoch time in s to no more than 0.2 us.
    return whole.astype(np.int64) * factor_ns + np.round((known - whole) * factor_ns).astype(np.int64)


def texts_to_ns(
    path: Path, texts: pd.Series[str], zone: str | None
) -> tuple[Int64s, npt.NDArray[np.bool_], bool]:
    """Return times that are dates or times of day as ns.

    Args:
        path: File, for messages.
        texts: Such as "2023/07/08 19:27:36.359", "2023-07-08T18:27:36.359+02:00", "19:27:36.359".
        zone: Zone of stamps that name none; None for UTC.

    Returns:
        ns; which of them could be read; whether a zone had to be assumed.

    Raises:
        InputError: They are no times.
    """
    known = texts.dropna()
    sample = str(known.iloc[0]) if len(known) else ""
    if _CLOCK_ONLY.fullmatch(sample):
        return *_clock_to_ns(texts), False
    has_zone = re.search(r"(Z|UTC|[+-]\d{2}:?\d{2})\s*$", sample) is not None
    stamps = _parse(texts.astype(str).str.replace(",", ".", regex=False), utc=has_zone)
    if not has_zone:
        stamps = stamps.dt.tz_localize(_zone(path, zone), ambiguous="NaT", nonexistent="NaT")
    readable = stamps.notna().to_numpy()
    if readable.mean() < 1 - _MAX_UNREADABLE:
        raise InputError(
            f"{path}: {int((~readable).sum())} of {len(texts)} times cannot be read, such as {sample!r}"
        )
    naive = stamps.dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[ns]")
    return naive.to_numpy().astype(np.int64), readable, not has_zone and zone is None


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

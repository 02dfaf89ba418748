"""From a text table to a capture: times, rails and Eq. 3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ptxbench.core.errors import InputError
from ptxbench.meter.capture import MeterCapture, make_capture, require_forward
from ptxbench.meter.readers.columns import Channel, Rail, find_rails, half_rails, time_column
from ptxbench.meter.readers.mapping import Mapping
from ptxbench.meter.readers.stamps import numbers_to_ns, texts_to_ns
from ptxbench.meter.readers.text import TextTable, as_numbers
from ptxbench.sensors.trace import Float64s, Int64s

# The PMD-USB's own labels: what feeds the CPU, where it is wired as labelled.
_CPU_RAILS = ("eps1", "eps2")
_GPU_RAILS = ("pcie1", "pcie2")


@dataclass(frozen=True)
class Times:
    """Times of the rows of a table.

    Attributes:
        time_ns: Times, shape (n,).
        readable: Which of them could be read, shape (n,).
        notes: What was assumed.
    """

    time_ns: Int64s
    readable: npt.NDArray[np.bool_]
    notes: tuple[str, ...] = ()


def table_to_capture(path: Path, table: TextTable, mapping: Mapping, origin: str) -> MeterCapture:
    """Return the capture that a table holds.

    Raises:
        InputError: The columns of time or power are not known, or the rows are no capture.
    """
    times = read_times(path, table, mapping)
    rails, notes = _rails(path, table, mapping)
    with np.errstate(over="ignore", invalid="ignore"):
        powers_w = [rail_power_w(path, table, rail) for rail in rails]
        power_w = np.sum(powers_w, axis=0)
    power_w[~times.readable] = np.nan
    require_forward(path, [(rail.name, one_w) for rail, one_w in zip(rails, powers_w, strict=True)])
    return make_capture(
        path,
        times.time_ns,
        power_w,
        rails=tuple(rail.name for rail in rails),
        origin=origin,
        torn=table.torn,
        notes=(*times.notes, *notes),
    )


def read_times(path: Path, table: TextTable, mapping: Mapping) -> Times:
    """Return the times of all rows.

    Raises:
        InputError: No column of time, or one that holds no times.
    """
    found = time_column(list(table.frame.columns), table.units)
    name = mapping.time or (found[0] if found is not None else None)
    if name is None or name not in table.frame:
        missing = "no column of time" if name is None else f"no column {name!r}"
        raise InputError(f"{path} has {missing} among {_names(table)}; name it in a mapping (--mapping)")
    unit_s = mapping.time_unit_s
    if unit_s is None and found is not None and name == found[0] and found[1] is not None:
        unit_s = found[1].factor
    column = table.frame[name]
    if pd.api.types.is_numeric_dtype(column):
        return _numbered(column.to_numpy(), unit_s)
    numbers = as_numbers(column)
    if np.isfinite(numbers).mean() > 0.5:
        return _numbered(numbers, unit_s)
    return _dated(path, table, column, mapping)


def _numbered(values: npt.NDArray[np.float64] | Int64s, unit_s: float | None) -> Times:
    time_ns, readable, wraps = numbers_to_ns(values, unit_s)
    return Times(time_ns, readable, wrap_notes(wraps))


def wrap_notes(wraps: int) -> tuple[str, ...]:
    """Return what to say of wraps of the clock's counter that were undone."""
    times = "once" if wraps == 1 else f"{wraps} times"
    return (f"the clock's counter wraps {times}; it is unwrapped",) if wraps else ()


def rail_power_w(path: Path, table: TextTable, rail: Rail) -> Float64s:
    """Return the power of one rail, a term of Eq. 3 of Arafa et al. 2020, section V.

    Eq. 3: P = (V_s1 - V_g1) / R_s x V_g1 + (V_s2 - V_g2) / R_s x V_g2 + I_clamp x V_DPS.

    Raises:
        InputError: A column that a mapping names is not there, or holds no numbers.
    """
    if rail.watts is not None:
        return _numbers(path, table, rail.watts)
    if rail.volts is None:
        raise InputError(f"{path}: rail {rail.name} has no voltage")
    volts = _numbers(path, table, rail.volts)
    if rail.amperes is not None:
        return volts * _numbers(path, table, rail.amperes)
    if rail.source_volts is None or rail.shunt_ohm is None:
        raise InputError(f"{path}: rail {rail.name} has neither a current nor a shunt")
    ohms = _numbers(path, table, rail.shunt_ohm)
    if not (ohms[np.isfinite(ohms)] > 0).all():
        raise InputError(f"{path}: the shunt of rail {rail.name} must be larger than 0 ohm")
    return np.asarray((_numbers(path, table, rail.source_volts) - volts) / ohms * volts)


def _dated(path: Path, table: TextTable, column: pd.Series[str], mapping: Mapping) -> Times:
    time_ns, readable, notes = texts_to_ns(path, column, mapping.zone)
    fraction = next(
        (name for name in table.frame if str(name).strip().lower() in {"millisecond", "milliseconds"}), None
    )
    if fraction is not None:
        # Yokogawa's stores keep the milliseconds of a stamp in a column of their own.
        extra_ms = as_numbers(table.frame[fraction])
        readable = readable & (extra_ms >= 0) & (extra_ms < 1_000)
        time_ns = time_ns + 1_000_000 * np.where(readable, extra_ms, 0).astype(np.int64)
    return Times(time_ns, readable, notes)


def _numbers(path: Path, table: TextTable, channel: Channel) -> Float64s:
    if channel.column is None:
        return np.full(len(table.frame), channel.factor)
    if channel.column not in table.frame:
        raise InputError(f"{path} has no column {channel.column!r} among {_names(table)}")
    values = as_numbers(table.frame[channel.column])
    if not np.isfinite(values).any():
        raise InputError(f"{path}: column {channel.column!r} holds no number")
    return values * channel.factor


def _rails(path: Path, table: TextTable, mapping: Mapping) -> tuple[tuple[Rail, ...], tuple[str, ...]]:
    if mapping.rails:
        return mapping.rails, ()
    rails = find_rails(list(table.frame.columns), table.units) if table.has_header else ()
    if not rails:
        halves = half_rails(list(table.frame.columns), table.units)
        what = (
            f"cannot tell what {', '.join(halves)} belong to"
            if halves
            else f"no power, or volts and amperes, among {_names(table)}"
        )
        raise InputError(f"{path}: {what}; say it in a mapping (--mapping)")
    names = {rail.name for rail in rails}
    if names & set(_CPU_RAILS) and names & set(_GPU_RAILS):
        kept = tuple(rail for rail in rails if rail.name not in _CPU_RAILS)
        return kept, (
            "the rails eps1 and eps2 are labelled as the CPU's and left out; a mapping can add them",
        )
    return rails, ()


def _names(table: TextTable) -> str:
    return ", ".join(str(name) for name in table.frame.columns)

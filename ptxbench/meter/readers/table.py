"""From a text table to a capture: times, rails and Eq. 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.numbers import POINT, is_number
from ptxbench.core.printable import printable
from ptxbench.meter.capture import CaptureRows, MeterCapture
from ptxbench.meter.readers.cells import Quantity, are_absent, is_absent, numbers
from ptxbench.meter.readers.columns import TimeColumns, find_rails, half_rails, time_columns
from ptxbench.meter.readers.mapping import Channel, Mapping, Rail
from ptxbench.meter.readers.stamps import Bools, Clock, NumberClock, SampleClock, StampClock, date_order
from ptxbench.meter.readers.text import TextTable, with_decimal
from ptxbench.sensors.trace import Float64s, Int64s

# A stamp begins with its date, which is no longer.
_LONGEST_DATE = 10
# Home Assistant logs the states of all its sensors below each other.
_ENTITY, _STATE = "entity_id", "state"
# More different cells than that are no labels of devices.
_MAX_LABELS = 64
# No supply of a GPU has more: above it is the mains, where volts times amperes are no watts.
_MAX_DC_V = 80.0


@dataclass(frozen=True)
class ChannelRows:
    """Some rows: their times and the values of the channels that were requested.

    Attributes:
        time_ns: Times, shape (n,).
        readable: Which of them could be read, shape (n,).
        values: Values of each channel, NaN where a cell holds no number, each of shape (n,).
        absent: For each channel, which rows say that it has no value, each of shape (n,).
        torn: Rows that are left out.
        marks: Rows that are marks.
    """

    time_ns: Int64s
    readable: Bools
    values: tuple[Float64s, ...]
    absent: tuple[Bools, ...]
    torn: int
    marks: int


class ChannelReader:
    """Reads the times and some channels of a table, in pieces of rows."""

    def __init__(
        self,
        table: TextTable,
        mapping: Mapping,
        times: TimeColumns | SampleClock,
        channels: Sequence[tuple[Channel, Quantity]],
    ) -> None:
        """Find out how numbers and dates are written, which the whole file tells.

        Args:
            table: The table.
            mapping: What its header does not say.
            times: Its columns of time, or how often it was sampled.
            channels: What to read.

        Raises:
            InputError: There is no column of a channel, or the file leaves open how to read it.
        """
        self._channels = channels
        columns = [channel.column for channel, _ in channels if channel.column is not None]
        if isinstance(times, SampleClock):
            self._table = with_decimal(table, columns)
            self.clock: Clock = times
        else:
            is_counted = _are_numbers(table.samples(times.time))
            self._table = with_decimal(table, [*columns, times.time] if is_counted else columns)
            self.clock = _clock(self._table, mapping, times, is_counted=is_counted)
        self._columns = tuple(dict.fromkeys((*self.clock.columns, *columns)))

    def __iter__(self) -> Iterator[ChannelRows]:
        """Yield the rows.

        Raises:
            InputError: The file cannot be read.
        """
        decimal = self._table.decimal or POINT
        for piece in self._table.pieces(self._columns):
            cells = dict(zip(self._columns, piece.columns, strict=True))
            time_ns, readable = self.clock.read([cells[name] for name in self.clock.columns], piece.numbers)
            values, without = [], []
            for channel, quantity in self._channels:
                if channel.column is None:
                    values.append(np.full(len(time_ns), channel.factor * channel.scale))
                    without.append(np.zeros(len(time_ns), dtype=np.bool_))
                    continue
                found = numbers(cells[channel.column], decimal, channel.factor, quantity)
                values.append(found * channel.scale)
                without.append(are_absent(cells[channel.column], found))
            yield ChannelRows(time_ns, readable, tuple(values), tuple(without), piece.torn, piece.marks)


def table_to_capture(table: TextTable, mapping: Mapping, origin: str) -> MeterCapture:
    """Return the capture that a table holds.

    Args:
        table: The table.
        mapping: What its columns are, where the header does not say it.
        origin: Format that the file was read as.

    Raises:
        InputError: The columns of time or power are not known, or the rows are no capture.
    """
    if mapping.rows is not None:
        table = replace(table, chosen=mapping.rows)
    times = times_of(table, mapping)
    rails, notes = _rails(table, mapping)
    channels = tuple(dict.fromkeys(pair for rail in rails for pair in rail.channels))
    reader = ChannelReader(table, mapping, times, channels)
    rows = CaptureRows(table.path, tuple(rail.name for rail in rails))
    marks, highest_v = 0, 0.0
    held = dict.fromkeys(channels, False)
    for piece in reader:
        values = dict(zip(channels, piece.values, strict=True))
        for pair, found in values.items():
            known = found[np.isfinite(found)]
            held[pair] |= len(known) > 0
            if pair[1] is Quantity.VOLTAGE and len(known):
                highest_v = max(highest_v, float(np.abs(known).max()))
        with np.errstate(over="ignore", invalid="ignore"):
            powers_w = [
                _rail_power_w(table, rail, [values[pair] for pair in rail.channels]) for rail in rails
            ]
        absent = np.any(piece.absent, axis=0)
        rows.add(piece.time_ns, powers_w, piece.readable, absent=absent, torn=piece.torn)
        marks += piece.marks
    for (channel, _), is_held in held.items():
        if not is_held:
            raise InputError(f"{table.path}: column {channel.column!r} holds no number")
    if marks:
        notes = (f"{marks} lines are marks", *notes)
    if highest_v > _MAX_DC_V:
        notes += (f"{highest_v:.0f} V is the mains, where volts times amperes are no watts: log the power",)
    return rows.capture(reader.clock.settle, origin=origin, notes=notes)


def distinct(table: TextTable, column: str) -> tuple[str, ...]:
    """Return the values of a column of labels, none where it holds too many to be labels.

    Raises:
        InputError: The file cannot be read.
    """
    found: dict[str, None] = {}
    rows = 0
    for piece in table.pieces([column]):
        cells = [cell for cell in piece.columns[0] if not is_absent(cell)]
        rows += len(cells)
        found |= dict.fromkeys(cells)
        if len(found) > _MAX_LABELS:
            return ()
    # Where each comes once they number the rows.
    return tuple(found) if len(found) < rows else ()


def times_of(table: TextTable, mapping: Mapping) -> TimeColumns | SampleClock:
    """Return the columns of time, or how often the rows were sampled.

    Raises:
        InputError: There is no column of time.
    """
    if table.clock is not None:
        return table.clock
    found = time_columns(table, mapping.time)
    if found is None or found.time not in table.names:
        missing = "no column of time" if found is None else f"no column {found.time!r}"
        raise InputError(
            f"{table.path} has {missing} among {table.listed};"
            f" name it in a mapping (`mapping`), as column under [{table.section}time]"
        )
    return found


def _are_numbers(cells: Sequence[str]) -> bool:
    return 2 * sum(map(is_number, cells)) > len(cells)


def _clock(table: TextTable, mapping: Mapping, times: TimeColumns, *, is_counted: bool) -> Clock:
    if is_counted:
        unit_s = mapping.time_unit_s
        if unit_s is None and times.unit is not None:
            unit_s = times.unit.factor
        return NumberClock(times.time, unit_s, table.decimal or POINT)
    columns = (times.time,) if times.date is None else (times.date, times.time)
    first = " ".join(next(iter(table.samples(name)), "") for name in columns)
    dates = (
        text
        for piece in table.pieces(columns[:1])
        for text in dict.fromkeys(cell[:_LONGEST_DATE] for cell in piece.columns[0])
    )
    order = date_order(table.path, dates, mapping.date_order, table.section)
    return StampClock(table.path, columns, first, mapping.zone, order, times.milliseconds)


def _rail_power_w(table: TextTable, rail: Rail, values: Sequence[Float64s]) -> Float64s:
    """Return the power of one rail, a term of Eq. 3 of Arafa et al. 2020, section V.

    Eq. 3: P = (V_s1 - V_g1) / R_s x V_g1 + (V_s2 - V_g2) / R_s x V_g2 + I_clamp x V_DPS.

    Args:
        table: The table, for the error.
        rail: The rail.
        values: What each of its channels reads.

    Raises:
        InputError: A shunt is no resistance.
    """
    if len(values) == 1:
        return values[0]
    if len(values) == 2:
        return np.asarray(values[0] * values[1])
    volts, source_volts, ohms = values
    if not (ohms[np.isfinite(ohms)] > 0).all():
        raise InputError(f"{table.path}: the shunt of rail {rail.name} must be larger than 0 ohm")
    return np.asarray((source_volts - volts) / ohms * volts)


def _rails(table: TextTable, mapping: Mapping) -> tuple[tuple[Rail, ...], tuple[str, ...]]:
    if mapping.rails:
        return mapping.rails, ()
    if {_ENTITY, _STATE} <= set(table.names):
        return (_entity_rail(table),), ()
    try:
        rails, notes = find_rails(table.names, table.units) if table.header else ((), ())
    except InputError as error:
        raise InputError(f"{table.path} has {error}") from error
    if not rails:
        halves = half_rails(table.names, table.units)
        what = (
            f"cannot tell what {', '.join(halves)} belong to"
            if halves
            else f"no power, or volts and amperes, among {table.listed}"
        )
        raise InputError(f"{table.path}: {what}; say it in a mapping (`mapping`)")
    return rails, notes


def _entity_rail(table: TextTable) -> Rail:
    """Return the rail of a sensor that Home Assistant logged."""
    names = distinct(table, _ENTITY)
    if len(names) != 1 or "power" not in names[0]:
        raise InputError(
            f"{table.path} holds the states of {', '.join(names) or 'too many entities'}: say in a mapping"
            f' (`mapping`) which is power, with column = "{_ENTITY}" and its value under [rows],'
            f' and watts = "{_STATE}" under [[rails]]'
        )
    return Rail(printable(names[0]).removeprefix("sensor."), watts=Channel(_STATE))

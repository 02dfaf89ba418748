"""The settled power of a kernel that ran, with what the gate says of its readings.

`settled_power` judges the readings of one kernel, and `SourceCheck` their source by all kernels of a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.core.status import Status
from ptxbench.energy.gate.comparison import Comparison
from ptxbench.energy.gate.kernel import impossible_power, judge_kernel
from ptxbench.energy.gate.lateness import Shift, shift_at_windows
from ptxbench.energy.gate.source import judge_source
from ptxbench.energy.gate.verdict import UNJUDGED, SourceVerdict
from ptxbench.energy.steady import PowerReading, fresh, steady_power_w
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Series, Trace

# Windows of kernels in which lateness is looked for at once.
_TOGETHER = 12
# Longest pause between two of them, nearly, and a share of it that never comes back.
_PAUSE_S, _GOLDEN = 0.3, (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class SettledPower:
    """The settled power of one kernel.

    Attributes:
        power: With why there is none, where there is none.
        note: Which readings were left out, "" for none.
        series: The readings that are believed; None where the recording has none of the source.
        compared: The source beside the energy counter, None where there is nothing to compare.
    """

    power: PowerReading
    note: str
    series: Series | None
    compared: Comparison | None = None


def settled_power(
    trace: Trace,
    window: KernelWindow,
    sensor: SensorDescription,
    max_power_w: float,
    counted: KernelWindow | None = None,
    sensors: Sequence[SensorDescription] = (),
    *,
    even: bool = True,
    period_s: float = 0.0,
) -> SettledPower:
    """Return the settled power of a kernel by the readings that can be true.

    Readings that cannot be true are left out and counted. There is no power where they are too many, or where
    the energy counter or the kernel's own begin contradicts them.

    Args:
        trace: The recording.
        window: When the kernel ran.
        sensor: The source.
        max_power_w: Highest power limit that the board can be set to, W; NaN where it is not known.
        counted: The part of the window that power is taken from; None: all of it.
        sensors: What other sources are like, best first: one is set beside a counter that is the source.
        even: Whether its power should be even; at the power limit it is not.
        period_s: After how long its power repeats itself (`steady_power_w`); 0 for even power.
    """
    if trace.of(sensor.source) is None:
        reason = f"the recording holds no readings of {sensor.source}"
        return SettledPower(_no_power(Status.NOT_SUPPORTED, reason), "", None)
    verdict = judge_kernel(trace, window, sensor, max_power_w, sensors, even=even)
    power = steady_power_w(verdict.series, counted or window, sensor, period_s)
    objection = verdict.readings.objection
    if not objection and power.status is Status.OK:
        objection = impossible_power(power, sensor.source, max_power_w)
    if objection:
        power = _no_power(Status.SENSOR_IMPLAUSIBLE, objection)
    elif verdict.doubt:
        power = _no_power(Status.UNEVEN_POWER, verdict.doubt)
    return SettledPower(power, verdict.readings.note, verdict.series, verdict.compared)


class SourceCheck:
    """Judges a power source by all kernels of a run: by the energy counter, and by when its values come.

    Attributes:
        sensor: The source.
        sensors: All sources of the board, best first.

    Args:
        compared: The source beside the counter, of kernels that were measured before.
    """

    def __init__(
        self,
        sensor: SensorDescription,
        sensors: Sequence[SensorDescription],
        compared: Iterable[Comparison | None] = (),
    ) -> None:
        self.sensor = sensor
        self.sensors = tuple(sensors)
        self._compared = [one for one in compared if one is not None]
        self._kernels: list[tuple[KernelWindow, Series]] = []
        self._was_even = True

    def add(self, found: SettledPower, window: KernelWindow, *, even: bool) -> None:
        """Take a kernel.

        Args:
            found: What its readings gave.
            window: When it ran; not before the last one that was added.
            even: Whether it may be taken to have drawn even power; the course of others tells of no lateness.
        """
        if found.compared is not None:
            self._compared.append(found.compared)
        series = found.series
        if even and series is not None:
            # A driver's buffer holds what was drawn before the recording.
            seen = series if self._was_even else series.select(series.time_ns >= window.start_ns)
            self._kernels.append((window, seen))
        self._was_even = even

    @property
    def pause_s(self) -> float:
        """How long to idle before the next kernel, s: at the begin of a run, each time for another time.

        Kernels that follow each other evenly look alike where values come late by the time from one to the
        next.
        """
        number = len(self._kernels)
        return _PAUSE_S * (0.2 + number * _GOLDEN % 1) if number < _TOGETHER else 0.0

    @property
    def scale(self) -> str:
        """What must be said of the scale of all powers, "" for nothing."""
        return scale_note(judge_compared(self._compared, self.sensor))

    @property
    def objection(self) -> str:
        """Why no power of the run may be believed, "" where it may."""
        return self._late() or judge_compared(self._compared, self.sensor).objection

    def _late(self) -> str:
        """Return a sentence where the values come late, by most groups of kernels that tell."""
        if self.sensor.counts_energy:
            return ""
        told = []
        for first in range(0, len(self._kernels), _TOGETHER):
            windows, series = zip(*self._kernels[first : first + _TOGETHER], strict=True)
            shift = shift_at_windows(_stamped(series, self.sensor), windows, self.sensor)
            if shift is not None and not (shift.objection and _follow_by(windows, shift)):
                told.append(shift)
        late = [shift for shift in told if shift.objection]
        # One that agrees with a late source as well as with one in time has no vote.
        in_time = [shift for shift in told if shift.best_s <= shift.allowed_s]
        return f"{self.sensor.source}: {late[0].objection}" if late and len(late) >= len(in_time) else ""


def judge_compared(compared: Iterable[Comparison | None], sensor: SensorDescription) -> SourceVerdict:
    """Return what the energy counter says of the source of a run; its texts name the source.

    Args:
        compared: The source beside the counter, of each kernel.
        sensor: The source.
    """
    known = [one for one in compared if one is not None]
    verdict = judge_source(known) if known else UNJUDGED
    name = "the power beside the counter" if sensor.counts_energy else str(sensor.source)
    return replace(
        verdict,
        objection=verdict.objection and f"{name}: {verdict.objection}",
        note=verdict.note and f"{name}: {verdict.note}",
    )


def scale_note(verdict: SourceVerdict) -> str:
    """Return what must be said of the scale of all powers of a run, "" for nothing."""
    uncertain = verdict.scale_uncertainty
    return verdict.note or (f"all powers share a scale uncertainty of {uncertain:.1%}" if uncertain else "")


def _follow_by(windows: Sequence[KernelWindow], shift: Shift) -> bool:
    """Return whether kernels follow each other by a shift: then a late source looks like one in time."""
    steps_s = np.diff([window.start_ns for window in windows]) / 1e9
    return len(steps_s) > 0 and bool(np.median(np.abs(steps_s - shift.best_s)) <= shift.allowed_s)


def _stamped(recordings: Sequence[Series], sensor: SensorDescription) -> Series:
    """Return the fresh readings of recordings as one series in which each has a stamp of its own.

    The first reading of a polled source was made nobody knows when, before its recording began.
    """
    parts = []
    for series in recordings:
        new = fresh(series, sensor.refresh_s)
        if len(new) and new.stamp_ns[0] < 0:
            new = replace(new, stamp_ns=new.end_ns).select(np.arange(len(new)) > 0)
        parts.append(new)
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("begin_ns", "end_ns", "value", "stamp_ns", "code")
    }
    series = Series(recordings[0].source, **joined)
    _, first = np.unique(series.stamp_ns, return_index=True)
    once = np.zeros(len(series), dtype=bool)
    once[first] = True
    return series.select(once)


def _no_power(status: Status, reason: str) -> PowerReading:
    return PowerReading(math.nan, math.nan, 0, status, reason)

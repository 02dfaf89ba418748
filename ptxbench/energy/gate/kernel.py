"""What may be believed of a source's readings while one kernel of even power ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxbench.core.arrays import Bools
from ptxbench.energy.gate.comparison import Comparison, compare, contradiction, joined
from ptxbench.energy.gate.lateness import shift_at_windows
from ptxbench.energy.gate.readings import LIMITS, Mark, Verdict, judge, with_objection
from ptxbench.energy.gate.stuck import STUCK, mark_stuck
from ptxbench.energy.steady import PowerReading, settled_mask
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Series, Trace


@dataclass(frozen=True)
class KernelSettings:
    """Bounds of what readings of one kernel can be."""

    spread: float = 1.5
    """Factor between settled readings of one kernel: they lie within a few percent of each other."""
    stuck_refreshes: int = 12
    """Refreshes for which all settled readings are one value before it stands still. H200s repeated a value
    for up to 7 under a steady load."""


KERNEL = KernelSettings()


@dataclass(frozen=True)
class KernelVerdict:
    """What may be believed of a source while one kernel ran.

    Attributes:
        readings: Which of its readings, and why none of them.
        compared: The source beside the energy counter, None where there is nothing to compare. Where the
            counter itself is the source, the best other one beside it.
        doubt: Why none of the readings may be believed of a kernel whose power is even, "" where they may.
    """

    readings: Verdict
    compared: Comparison | None = None
    doubt: str = ""

    @property
    def series(self) -> Series:
        """The readings to work with: all of them where none may be believed. Those that failed say so."""
        if self.readings.objection:
            return self.readings.series
        return self.readings.series.select(np.isin(self.readings.marks, (Mark.BELIEVED, Mark.FAILED)))


def judge_kernel(
    trace: Trace,
    window: KernelWindow,
    sensor: SensorDescription,
    max_power_w: float,
    sensors: Sequence[SensorDescription] = (),
    *,
    even: bool = True,
) -> KernelVerdict:
    """Mark readings that cannot be true, or object to the source where they are too many.

    Beside what holds whatever ran (`judge`, `mark_stuck`): within the settled part of a kernel no reading is
    half as much again as their median, the source shows the kernel when it begins, and it does not contradict
    the energy counter. Readings that are too low are kept if they are few: power falls where SMs run out of
    work.

    Args:
        trace: The recording, with readings of the source.
        window: The kernel's window, while all SMs are busy.
        sensor: What the source is like.
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.
        sensors: What other sources are like, best first; one of them is set beside an energy counter.
        even: Whether the kernel's power should be even. At the power limit it is not: readings then may be
            far from each other, and their course tells nothing of lateness.
    """
    series = trace.of(sensor.source)
    if series is None:
        raise ValueError(f"the recording holds no {sensor.source}")
    counter = believed_counter(trace, max_power_w)
    readings = judge(series, max_power_w)
    if sensor.counts_energy:
        source, compared = _beside_counter(trace, counter, window, max_power_w, sensors)
        return KernelVerdict(_with(readings, contradiction(compared, source)), compared)
    settled = settled_mask(series, window, sensor)
    readings = _in_kernel(readings, settled, counter, window, sensor, even=even)
    if readings.objection:
        return KernelVerdict(readings)
    believed = readings.believed
    shift = shift_at_windows(believed, [window], sensor) if even else None
    compared = joined(compare(believed, counter, sensor, window)) if counter is not None else None
    late = f"{series.source}: {shift.objection}" if shift is not None and shift.objection else ""
    objection = late or contradiction(compared, sensor.source)
    doubt = _in_turn(readings, settled) if even else ""
    return KernelVerdict(_with(readings, objection), compared, doubt)


def believed_counter(trace: Trace, max_power_w: float) -> Series | None:
    """Return what may be believed of the energy counter of a recording, perhaps nothing; None without one.

    Args:
        trace: The recording.
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.
    """
    series = trace.of(SourceName.COUNTER)
    if series is None:
        return None
    verdict = judge(series, max_power_w)
    return series.select(np.zeros(len(series), dtype=bool)) if verdict.objection else verdict.believed


def impossible_power(power: PowerReading, source: str, max_power_w: float) -> str:
    """Return a sentence where the power of a kernel cannot be true, else "".

    Args:
        power: Over the settled part of the kernel.
        source: Where it is from.
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.
    """
    if power.power_w <= 0 or power.power_w > LIMITS.power_over_limit * max_power_w:
        return f"{source} gives {power.power_w:.4g} W, and the GPU's limit is {max_power_w:.4g} W"
    return ""


def _in_kernel(
    readings: Verdict,
    settled: Bools,
    counter: Series | None,
    window: KernelWindow,
    sensor: SensorDescription,
    *,
    even: bool,
) -> Verdict:
    """Mark what the kernel's own readings and its begin show to be wrong."""
    value_w = readings.series.value
    good = settled & (readings.marks == Mark.BELIEVED)
    if not good.any():
        return _of_settled(readings, settled)
    marks = readings.marks.copy()
    if even:
        marks[good & (value_w > KERNEL.spread * np.median(value_w[good]))] = Mark.FAR_ABOVE_OTHERS
    readings = replace(readings, marks=marks)
    good = settled & (marks == Mark.BELIEVED)
    # One value to the last digit all the time tells more than one among others.
    is_flat = bool(good.any()) and np.ptp(value_w[good]) == 0
    stuck = replace(STUCK, refreshes=KERNEL.stuck_refreshes) if is_flat else STUCK
    return _of_settled(mark_stuck(readings, sensor, counter, [window.start_ns], stuck), settled)


def _of_settled(readings: Verdict, settled: Bools) -> Verdict:
    """Return the verdict with an objection where too many of a kernel's settled readings are wrong."""
    of_kernel = with_objection(readings.among(settled))
    return _with(readings, of_kernel.objection)


def _with(readings: Verdict, objection: str) -> Verdict:
    return readings if readings.objection else replace(readings, objection=objection)


def _in_turn(readings: Verdict, settled: Bools) -> str:
    """Return a sentence where the settled readings go to and fro between two powers."""
    value_w = readings.series.value[settled & (readings.marks == Mark.BELIEVED)]
    if not len(value_w):
        return ""
    low_w, high_w = np.quantile(value_w, [LIMITS.wrong_share, 1 - LIMITS.wrong_share])
    if not high_w > KERNEL.spread * low_w:
        return ""
    return f"{readings.series.source} reads from {low_w:.4g} to {high_w:.4g} W in turn"


def _beside_counter(
    trace: Trace,
    counter: Series | None,
    window: KernelWindow,
    max_power_w: float,
    sensors: Sequence[SensorDescription],
) -> tuple[SourceName, Comparison | None]:
    """Return the best power source of a recording, and beside the energy counter; None where nothing is."""
    for sensor in sensors:
        series = trace.of(sensor.source)
        if counter is None or series is None or not sensor.is_of_board:
            continue
        verdict = judge(series, max_power_w)
        found = () if verdict.objection else compare(verdict.believed, counter, sensor, window)
        if found:
            return sensor.source, joined(found)
    return SourceName.COUNTER, None

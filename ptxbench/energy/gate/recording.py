"""What may be believed of a source over one recording, whatever ran meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ptxbench.energy.gate.kernel import believed_counter
from ptxbench.energy.gate.lateness import Shift, shift_at_windows, shift_beside_counter
from ptxbench.energy.gate.readings import Verdict, judge
from ptxbench.energy.gate.source import Comparison, compare
from ptxbench.energy.gate.stuck import mark_stuck
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Trace


@dataclass(frozen=True)
class RecordingVerdict:
    """What may be believed of a source over one recording.

    Attributes:
        readings: Which of its readings, and why none of them.
        comparisons: The source beside the energy counter (`judge_source` pools them).
        shift: By how much it comes late, None where nothing tells.
    """

    readings: Verdict
    comparisons: tuple[Comparison, ...] = ()
    shift: Shift | None = None


def judge_recording(
    trace: Trace, sensor: SensorDescription, max_power_w: float, windows: Sequence[KernelWindow] = ()
) -> RecordingVerdict | None:
    """Return what may be believed of a source, None where it was not recorded.

    Args:
        trace: The recording.
        sensor: What the source is like.
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.
        windows: When kernels ran, between which the GPU idled; none: not known.
    """
    series, counter = trace.of(sensor.source), believed_counter(trace, max_power_w)
    if series is None:
        return None
    readings = mark_stuck(judge(series, max_power_w), sensor, counter)
    if sensor.counts_energy or readings.objection:
        return RecordingVerdict(readings)
    believed = readings.believed
    shift = shift_beside_counter(believed, counter, sensor) if counter is not None else None
    shift = shift or shift_at_windows(believed, windows, sensor)
    if shift is not None and shift.objection:
        readings = replace(readings, objection=f"{sensor.source}: {shift.objection}")
    comparisons = compare(believed, counter, sensor) if counter is not None else ()
    return RecordingVerdict(readings, comparisons, shift)

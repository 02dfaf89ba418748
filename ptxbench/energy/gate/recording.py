"""What may be believed of the sources of recordings, whatever ran meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.energy.gate.comparison import SETTINGS, Comparison, compare
from ptxbench.energy.gate.kernel import believed_counter
from ptxbench.energy.gate.lateness import Shift, shift_at_windows, shift_beside_counter
from ptxbench.energy.gate.readings import Verdict, judge
from ptxbench.energy.gate.source import judge_source
from ptxbench.energy.gate.stuck import mark_stuck
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import KernelWindow, Series, Trace


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
    comparisons = compare(believed, counter, sensor) if counter is not None else ()
    return RecordingVerdict(readings, comparisons, shift)


def believed_trace(
    trace: Trace, sensors: Iterable[SensorDescription], max_power_w: float
) -> tuple[Trace, tuple[str, ...]]:
    """Return a recording with what may be believed of its power sources, and what was left out of it.

    Args:
        trace: The recording.
        sensors: What its sources are like; those that are not among them stay as they are.
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.

    Returns:
        The recording, without the sources of which nothing may be believed, and a sentence for each source
        that lost readings.
    """
    known = {sensor.source: sensor for sensor in sensors}
    counter = believed_counter(trace, max_power_w)
    kept: list[Series] = []
    notes = []
    for series in trace.series:
        if series.source not in known:
            kept.append(series)
            continue
        verdict = mark_stuck(judge(series, max_power_w), known[series.source], counter)
        if not verdict.objection:
            kept.append(verdict.believed)
        if verdict.objection or verdict.note:
            notes.append(f"{series.source}: {verdict.objection or verdict.note}")
    return replace(trace, series=tuple(kept)), tuple(notes)


def notes_on_source(
    recordings: Iterable[tuple[Trace, Sequence[KernelWindow]]], sensor: SensorDescription, max_power_w: float
) -> tuple[str, ...]:
    """Return what the energy counter, and where there is none the kernels' windows, hold against a source.

    Args:
        recordings: Recordings of one board and the windows of the kernels in each.
        sensor: What the source is like.
        max_power_w: The highest power limit that the board can be set to, W; NaN where it is not known.
    """
    found = [judge_recording(trace, sensor, max_power_w, windows) for trace, windows in recordings]
    known = [one for one in found if one is not None]
    source = judge_source([c for one in known for c in one.comparisons])
    shifts = [one.shift for one in known if one.shift is not None]
    late = [shift.objection for shift in shifts if shift.objection]
    notes = [late[0]] if 2 * len(late) > len(shifts) else []
    # What too few recordings leave open is no finding.
    is_known = COVERAGE_FACTOR * source.error <= SETTINGS.disagreement
    notes += [source.objection or source.note] if is_known or source.objection else []
    return tuple(f"{sensor.source}: {note}" for note in notes if note)

"""What the host logged: kernel windows with the readings around them, from CSV files or a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.energy.gate.readings import judge
from ptxbench.meter.capture import MeterCapture, is_epoch
from ptxbench.meter.readers.mapping import Mapping
from ptxbench.meter.readers.nvml import LabelledWindow, read_nvml, read_windows
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.sources import nvml_sources, source_of
from ptxbench.sensors.trace import Float64s, Int64s, KernelWindow, Series, Trace
from ptxbench.storage.manifest import TableManifest
from ptxbench.storage.recording import RecordingFolder
from ptxbench.storage.run_folder import RunFolder

# Windows of this label mark a coded burst: they align the clocks and are no kernels to validate.
BURST_LABEL = "burst"
# Local time differs from UTC by a whole number of these everywhere on Earth.
_ZONE_STEP_NS = 900 * 10**9
# Host time counts from the start of the machine; the host's UTC is moved by its time service now and then.
_MAX_CLOCK_STEP_NS = 10 * 10**9
_MAX_ZONE_NS = 14 * 3600 * 10**9


@dataclass(frozen=True)
class Trial:
    """One kernel run.

    Attributes:
        window: When it ran, host time.
        label: Instruction or kernel, empty where unknown.
        trace: The readings around it.
        recording: The whole recording that they are of.
    """

    window: KernelWindow
    label: str
    trace: Trace
    recording: Trace


@dataclass(frozen=True)
class HostLog:
    """All kernel runs of one session, in order of time.

    Attributes:
        trials: Kernel runs.
        marks: Windows that only align the clocks.
        series: All readings of each source.
        recordings: Begin and end of each time that was recorded, host time.
        kind: Whether the readings are measurements.
        notes: What was assumed or left out.
    """

    trials: tuple[Trial, ...]
    marks: tuple[KernelWindow, ...]
    series: tuple[Series, ...]
    recordings: tuple[tuple[int, int], ...]
    kind: GpuKind
    notes: tuple[str, ...] = ()

    @property
    def windows(self) -> tuple[KernelWindow, ...]:
        """Everything that the meter should see, marks included, in order of time."""
        every = (*self.marks, *(trial.window for trial in self.trials))
        return tuple(sorted(every, key=lambda window: window.start_ns))

    @property
    def begin_ns(self) -> int:
        """First moment of the log."""
        return min(self.windows[0].start_ns, *(int(series.time_ns.min()) for series in self.series))

    def readings(self, source: SourceName) -> tuple[Int64s, Float64s]:
        """Return times and values of the good readings of one source; watts also for the counter."""
        good = next(series for series in self.series if series.source == source).good()
        time_ns, first = np.unique(good.time_ns, return_index=True)
        value = good.value[first]
        return (time_ns, value) if source is not SourceName.COUNTER else _counter_power(time_ns, value)


def log_from_csv(
    nvml: Path, windows: Path, mapping: Mapping | None = None, board: str | None = None
) -> HostLog:
    """Read an NVML log and the windows of its kernels.

    Args:
        nvml: The log.
        windows: The windows.
        mapping: What the log's columns are, where its header does not say it.
        board: Index, UUID or PCI bus of the board, in a log of several.

    Raises:
        InputError: A file is not what it should be, or the two are not of one session.
    """
    series, notes = read_nvml(nvml, mapping, board)
    series, lost = _believed(series, math.nan)
    if not series:
        raise InputError(f"{nvml}: {'; '.join(lost)}")
    notes += lost
    labelled = read_windows(windows)
    series, shift_notes = _same_zone(series, labelled)
    begin_ns, end_ns = int(series[0].time_ns[0]), int(series[0].time_ns[-1])
    seen = [w for w in labelled if w.window.start_ns >= begin_ns and w.window.end_ns <= end_ns]
    if not seen:
        raise InputError(
            f"none of the {len(labelled)} windows of {windows} lies within the readings of {nvml}"
        )
    if len(seen) < len(labelled):
        notes += (f"{len(labelled) - len(seen)} of {len(labelled)} windows lie outside the NVML log",)
    kernels = [w for w in seen if w.label != BURST_LABEL]
    if not kernels:
        raise InputError(f"{windows} holds no kernel, only a burst")
    marks = tuple(w.window for w in seen if w.label == BURST_LABEL)
    trials = _cut(series, kernels, begin_ns, end_ns)
    return HostLog(trials, marks, series, ((begin_ns, end_ns),), GpuKind.REAL, (*notes, *shift_notes))


def capture_of_run(path: Path) -> MeterCapture:
    """Return what an external meter said during a run that read one beside the GPU.

    Its times are the host's already: no clock is to be found.

    Raises:
        InputError: The folder holds no run, or one without a meter's readings.
    """
    with RunFolder.open(path) as run:
        records = sorted(run.records(), key=lambda record: record.start_ns)
        series = [one for record in records for one in run.trace(record.trial_id).series]
    readings = [one.good() for one in series if source_of(one.source).is_external]
    if not any(map(len, readings)):
        raise InputError(f"{path} holds no readings of a meter: measure with PTXBENCH_METER set")
    time_ns, first = np.unique(np.concatenate([one.time_ns for one in readings]), return_index=True)
    power_w = np.concatenate([one.value for one in readings])[first]
    names = tuple(dict.fromkeys(str(one.source) for one in readings))
    return MeterCapture(time_ns, power_w, names, "readings of a run", is_of_host=True)


def log_from_run(path: Path, bursts: Sequence[Path] = ()) -> HostLog:
    """Read the trials of a run folder.

    Args:
        path: The run.
        bursts: Folders of `ptxbench meter sync`, run on the same board before or after it.

    Raises:
        InputError: The folder holds no run, or no trial with readings; a burst is of another board, of
            another clock, or of the time of a trial.
    """
    with RunFolder.open(path) as run:
        records = [r for r in sorted(run.records(), key=lambda r: r.start_ns) if r.end_ns > r.start_ns]
        read = [_power_only(run.trace(r.trial_id)) for r in records]
        most_w = run.manifest.gpu.max_power_w
        passed = [_believed(trace.series, most_w) for trace in read]
        traces = [replace(one, series=series) for one, (series, _) in zip(read, passed, strict=True)]
        trials = tuple(
            Trial(
                KernelWindow(r.start_ns, r.end_ns, r.elapsed_s, r.cycles, r.globaltimer_ns),
                f"{r.instruction} {r.opt_level} {r.role}",
                trace,
                trace,
            )
            for r, trace in zip(records, traces, strict=True)
        )
        manifest = run.manifest
    kind = manifest.gpu.kind
    sources = dict.fromkeys(series.source for trial in trials for series in trial.trace.series)
    series = tuple(_joined(source, trials) for source in sources)
    if not trials or not any(len(one.good()) for one in series):
        raise InputError(f"{path} holds no trial with power readings")
    lost = [note for _, of_trial in passed for note in of_trial]
    notes = (
        *([] if kind is GpuKind.REAL else [f"the run is {kind}: its readings are no measurements"]),
        *([f"in {len(lost)} trials: {lost[0]}"] if lost else []),
    )
    recordings = tuple((trial.trace.begin_ns, trial.trace.end_ns) for trial in trials)
    marks = tuple(mark for burst in bursts for mark in _marks(burst, manifest, recordings))
    marks = tuple(sorted(marks, key=lambda window: window.start_ns))
    return HostLog(trials, marks, tuple(one for one in series if len(one.good())), recordings, kind, notes)


def _marks(
    burst: Path, manifest: TableManifest, recordings: Sequence[tuple[int, int]]
) -> tuple[KernelWindow, ...]:
    """Return the windows of a burst that belongs to a run."""
    folder = RecordingFolder.open(burst, BURST_LABEL)
    board = folder.manifest.gpu.uuid_hash
    if board not in {gpu.uuid_hash for gpu in manifest.gpus}:
        raise InputError(f"{burst} was run on another board ({board}) than those of the run")
    offsets_ns = [session.epoch_offset_ns for session in manifest.part.sessions]
    apart_ns = min(abs(folder.manifest.part.epoch_offset_ns - offset_ns) for offset_ns in offsets_ns)
    if apart_ns > _MAX_CLOCK_STEP_NS:
        raise InputError(
            f"{burst} and the run have clocks {apart_ns / 1e9:.0f} s apart: the machine was restarted"
        )
    windows = tuple(window for recording in folder.recordings for window in recording.windows)
    begin_ns, end_ns = windows[0].start_ns, windows[-1].end_ns
    if any(begin_ns < last_ns and first_ns < end_ns for first_ns, last_ns in recordings):
        raise InputError(f"{burst} was run while the run measured: run it before or after")
    return windows


def _believed(series: Iterable[Series], max_power_w: float) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Return what may be believed of sources, without those of which nothing may, and what was left out."""
    verdicts = [judge(one, max_power_w) for one in series]
    believed = tuple(one.believed for one in verdicts if not one.objection)
    return believed, tuple(filter(None, (one.objection or one.note for one in verdicts)))


def _power_only(trace: Trace) -> Trace:
    """Leave out the temperature, which is recorded beside the power, and a meter's readings."""
    return replace(trace, series=tuple(one for one in trace.series if one.source in nvml_sources()))


def _joined(source: SourceName, trials: Sequence[Trial]) -> Series:
    parts = [one for trial in trials for one in trial.trace.series if one.source == source]
    return Series(
        source,
        np.concatenate([p.begin_ns for p in parts]),
        np.concatenate([p.end_ns for p in parts]),
        np.concatenate([p.value for p in parts]),
        np.concatenate([p.stamp_ns for p in parts]),
        np.concatenate([p.code for p in parts]),
    )


def _same_zone(
    series: tuple[Series, ...], windows: Sequence[LabelledWindow]
) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """Undo a time zone that the NVML log does not name: both were stamped by one host."""
    middle_ns = (windows[0].window.start_ns + windows[-1].window.end_ns) // 2
    log_ns = (int(series[0].time_ns[0]) + int(series[0].time_ns[-1])) // 2
    shift_ns = _ZONE_STEP_NS * round((middle_ns - log_ns) / _ZONE_STEP_NS)
    if not shift_ns or not is_epoch(middle_ns) or not is_epoch(log_ns) or abs(shift_ns) > _MAX_ZONE_NS:
        return series, ()
    moved = tuple(replace(s, begin_ns=s.begin_ns + shift_ns, end_ns=s.end_ns + shift_ns) for s in series)
    return moved, (f"the NVML log is in a time zone of its own and was moved by {shift_ns / 3.6e12:+g} h",)


def _cut(
    series: tuple[Series, ...], windows: Sequence[LabelledWindow], begin_ns: int, end_ns: int
) -> tuple[Trial, ...]:
    """Give each window the readings from halfway after the one before to halfway before the next."""
    between = [(left.window.end_ns + right.window.start_ns) // 2 for left, right in pairwise(windows)]
    first_ns = last_ns = 0
    if between:
        # The outer windows get as much idle time outside as inside, not all of the log.
        first_ns = windows[0].window.start_ns - (between[0] - windows[0].window.end_ns)
        last_ns = windows[-1].window.end_ns + (windows[-1].window.start_ns - between[-1])
    starts = [max(begin_ns, first_ns), *between]
    ends = [*between, min(end_ns, last_ns) if between else end_ns]
    whole = Trace(begin_ns, end_ns, series)
    return tuple(
        Trial(one.window, one.label, Trace(start, end, tuple(_between(s, start, end) for s in series)), whole)
        for one, start, end in zip(windows, starts, ends, strict=True)
    )


def _between(series: Series, start_ns: int, end_ns: int) -> Series:
    return series.select((series.time_ns >= start_ns) & (series.time_ns <= end_ns))


def _counter_power(time_ns: Int64s, energy_j: Float64s) -> tuple[Int64s, Float64s]:
    """Return the mean power between the steps of an energy counter, at the later step."""
    steps = np.flatnonzero(np.diff(energy_j) > 0) + 1
    at_ns, at_j = time_ns[steps], energy_j[steps]
    power_w = np.diff(at_j) / (np.diff(at_ns) / 1e9)
    # A counter that restarted in between gives no power there.
    forward = power_w > 0
    return at_ns[1:][forward], power_w[forward]

"""Bias and spread of every method on every source, from recorded runs: pure arithmetic.

The reference of a run is what the same source reads of a long run of the same kernel. That is its steady
power on as many SMs (from windows long enough to settle) times the time of each launch, and its idle power
times the gaps. So a source's gain and offset, which take an external meter, do not enter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.analysis.recommendation import recommend
from ptxbench.core.errors import GpuError, InputError
from ptxbench.energy.gate.recording import believed_trace, notes_on_source
from ptxbench.energy.predicted_error import LoadShape, methods_for, predict
from ptxbench.energy.reading import EnergyReading, disagreements
from ptxbench.energy.steady import steady_power_w
from ptxbench.experiment.sampling_cases import ALL_SHARES, SHARES, Case, Reference, parse_name
from ptxbench.experiment.sensor_study import throttling_notes
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.trace import NS_PER_S, KernelWindow, Series, Trace
from ptxbench.storage.methods_file import LoadKind, MethodPoint, MethodsFile, SourceLevels
from ptxbench.storage.recording import Recording, RecordingFolder


@dataclass(frozen=True)
class Levels:
    """What one source reads of long loads, W.

    Attributes:
        idle_w: Of the idle GPU.
        at_share_w: Of the load, by its share of the SMs.
    """

    idle_w: float
    at_share_w: dict[float, float]


@dataclass(frozen=True)
class _Run:
    case: Case
    recording: Recording
    trace: Trace


def compare(folder: RecordingFolder, sensors: Sequence[SensorDescription] = ()) -> MethodsFile:
    """Work out bias and spread of every method on every source, and what is predicted of them.

    Args:
        folder: Recordings of `ptxbench doctor methods`.
        sensors: What the sources are like, best first; none: as the folder describes them.

    Raises:
        GpuError: No source gave a steady power of the load.
        InputError: A recording is not of this kind, or there is none of the references or of the runs.
    """
    named = [(parse_name(recording.name), recording) for recording in folder.recordings]
    used, most_w = tuple(sensors) or folder.manifest.sensors, folder.manifest.gpu.max_power_w
    traces = {r.name: believed_trace(folder.trace(r.name), used, most_w) for _, r in named}
    references = [(of, r, traces[r.name][0]) for of, r in named if isinstance(of, Reference)]
    runs = [_Run(of, r, traces[r.name][0]) for of, r in named if isinstance(of, Case)]
    if not runs or {reference.share for reference, _, _ in references} != set(ALL_SHARES):
        raise InputError(
            f"{folder.path} holds {len(folder.recordings)} recordings, too few to compare: measure again"
        )
    levels: dict[SensorDescription, Levels] = {}
    notes = [note for recording in folder.recordings for note in throttling_notes(recording)]
    notes += [f"{name}: {note}" for name, (_, left_out) in traces.items() for note in left_out]
    for sensor in used:
        found = _levels(sensor, references)
        if found is None:
            notes.append(f"{sensor.source} gave no steady power of the load, and is left out")
            continue
        levels[sensor] = found
        notes += notes_on_source([(traces[r.name][0], r.windows) for _, r in named], sensor, most_w)
        if sensor.origin == "documented":
            notes.append(
                f"what {sensor.source} is like is documented, not measured: see `ptxbench doctor sensor`"
            )
    if not levels:
        raise GpuError(
            f"no power source of {folder.manifest.gpu.name} gave a steady power; see {folder.path}"
        )
    points = tuple(
        point
        for kind in LoadKind
        for duration_s in sorted({run.case.duration_s for run in runs})
        for sensor, of_sensor in levels.items()
        for point in _points(
            [r for r in runs if (r.case.kind, r.case.duration_s) == (kind, duration_s)], sensor, of_sensor
        )
    )
    best = next(iter(levels.values())).at_share_w[1.0]
    return MethodsFile(
        folder.manifest.gpu,
        tuple(levels),
        tuple(
            SourceLevels(s.source, one.idle_w, one.at_share_w[1.0], one.at_share_w[1.0] / best)
            for s, one in levels.items()
        ),
        points,
        recommend(points),
        (*notes, *_disagreements(runs, levels)),
    )


def _levels(
    sensor: SensorDescription, references: Iterable[tuple[Reference, Recording, Trace]]
) -> Levels | None:
    """Return the mean levels over all references, idle before and after them, or None for a silent source."""
    idle_w: list[float] = []
    hot_w: dict[float, list[float]] = {share: [] for share in ALL_SHARES}
    for reference, recording, trace in references:
        series = trace.of(sensor.source)
        if series is None:
            return None
        (window,) = recording.windows
        for start_ns, end_ns in ((trace.begin_ns, window.start_ns), (window.end_ns, trace.end_ns)):
            idle_w.append(steady_power_w(series, KernelWindow.spanning(start_ns, end_ns), sensor).power_w)
        hot_w[reference.share].append(steady_power_w(series, window, sensor).power_w)
    every = [idle_w, *hot_w.values()]
    means = [float(np.nanmean(w)) if np.isfinite(w).any() else math.nan for w in every]
    if not all(map(math.isfinite, means)):
        return None
    return Levels(means[0], dict(zip(ALL_SHARES, means[1:], strict=True)))


def _points(runs: Sequence[_Run], sensor: SensorDescription, levels: Levels) -> list[MethodPoint]:
    """Return one point a method, for the repeats of one case on one source."""
    loads = [_load(run, levels) for run in runs]
    series = [run.trace.of(sensor.source) for run in runs]
    if not runs or series[0] is None:
        return []
    predicted = predict(sensor, loads[0], _poll_s(series[0]))
    points = []
    for name, method in methods_for(sensor.source).items():
        error_pct = np.array(
            [
                100 * (method(one, _hull(run), sensor).energy_j / load.energy_j - 1)
                for run, load, one in zip(runs, loads, series, strict=True)
                if one is not None
            ]
        )
        known = error_pct[np.isfinite(error_pct)]
        prediction = predicted[name]
        points.append(
            MethodPoint(
                kind=runs[0].case.kind,
                requested_s=runs[0].case.duration_s,
                duration_s=float(np.mean([load.length_s for load in loads])),
                method=name,
                source=sensor.source,
                runs=len(runs),
                answered=len(known),
                reference_j=float(np.mean([load.energy_j for load in loads])),
                bias_pct=float(known.mean()) if len(known) else math.nan,
                spread_pct=float(known.std(ddof=1)) if len(known) > 1 else math.nan,
                predicted_pct=100 * prediction.bias,
                predicted_spread_pct=100 * prediction.spread,
            )
        )
    return points


def _load(run: _Run, levels: Levels) -> LoadShape:
    """Return the load of a run with its powers as one source gives them."""
    windows = run.recording.windows
    origin_ns = windows[0].start_ns
    start_s, end_s = (
        np.array([(t - origin_ns) / NS_PER_S for t in times])
        for times in ([w.start_ns for w in windows], [w.end_ns for w in windows])
    )
    return LoadShape(
        start_s=start_s,
        end_s=end_s,
        power_w=np.array([levels.at_share_w[share] for share in SHARES[run.case.kind]]),
        idle_w=levels.idle_w,
        before_s=(origin_ns - run.trace.begin_ns) / NS_PER_S,
        after_s=(run.trace.end_ns - windows[-1].end_ns) / NS_PER_S,
    )


def _hull(run: _Run) -> KernelWindow:
    """Return the window from a run's first begin to its last end."""
    return KernelWindow.spanning(run.recording.windows[0].start_ns, run.recording.windows[-1].end_ns)


def _poll_s(series: Series) -> float:
    """Return the usual time between two calls."""
    calls_ns = np.unique(series.end_ns)
    return float(np.median(np.diff(calls_ns))) / NS_PER_S if len(calls_ns) > 1 else 1e-3


def _disagreements(runs: Sequence[_Run], levels: dict[SensorDescription, Levels]) -> tuple[str, ...]:
    """Return where two sources differ by more than their errors on the longest kernel of even power."""
    even = [run for run in runs if run.case.kind is LoadKind.CONSTANT]
    if not even:
        return ()
    run = max(even, key=lambda r: r.case.duration_s)
    readings: dict[str, EnergyReading] = {}
    for sensor in levels:
        series = run.trace.of(sensor.source)
        if series is not None:
            readings[sensor.source] = methods_for(sensor.source)["corrected"](series, _hull(run), sensor)
    return tuple(f"over a {run.case.duration_s:g} s kernel {text}" for text in disagreements(readings))

"""From a meter's capture and the host's log to a verdict on every source and method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.errors import InputError
from ptxbench.core.gpu_info import GpuKind
from ptxbench.meter.alignment import Basis, ClockAlignment, align, halves, same_clock
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.cross import CrossCheck, ViewBound, cross_validate, split_in_halves, view_bound
from ptxbench.meter.figures import MethodFigures, WindowEnergies, figures, window_energies, window_spans_s
from ptxbench.meter.host import HostLog, Trial
from ptxbench.meter.plausibility import (
    alignment_notes,
    frozen_meter,
    frozen_share,
    gain_notes,
    require_lag,
    require_one_clock,
    require_one_time,
    spike_notes,
    stamp_notes,
)
from ptxbench.meter.sync_pulse import align_by_bursts
from ptxbench.sensors.base import SourceName
from ptxbench.sensors.characterize.sensor_fit import SensorFit, fit_all
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import Float64s

# Below this share of the readings' variance the meter and they are of other things; chosen.
MIN_EXPLAINED = 0.5
# Outside of this a rail is missing or counted twice, rather than a sensor miscalibrated.
_USUAL_GAIN = (0.7, 1.4)
# Outside of this it is another GPU, or another quantity.
_POSSIBLE_GAIN = (0.5, 2.0)
# More of a log that hung spoils the fit.
_MAX_FROZEN = 0.05
_MAX_FROZEN_WINDOWS = 0.25
# A gap in the meter's log that is longer than this share of a window spoils its energy.
_MAX_GAP_SHARE = 0.02


Readings = tuple[SourceName, Float64s, Float64s]


@dataclass(frozen=True)
class SourceFigures:
    """One source against the meter.

    Attributes:
        fit: Gain, offset, lag and averaging.
        bound: What a sensor of this kind cannot see.
        cross: Each half predicted from the other.
        energies: Energy of each window by each method.
    """

    fit: SensorFit
    bound: ViewBound
    cross: tuple[CrossCheck, ...]
    energies: tuple[WindowEnergies, ...]


@dataclass(frozen=True)
class Validation:
    """The result of one comparison.

    Attributes:
        capture: The meter's capture.
        alignment: Its clock against the host's.
        halves: The alignment of each half by itself, at the cut; None where one shows no edge.
        signal: The meter's power in aligned host time.
        trials: The kernel runs that the meter covers.
        meter_j: Their energy by the meter, shape (n,).
        sources: Figures of each source, best explained first.
        kind: Whether the readings are measurements.
        notes: What was left out or assumed, a sentence each.
    """

    capture: MeterCapture
    alignment: ClockAlignment
    halves: tuple[ClockAlignment, ClockAlignment] | None
    signal: PowerSignal
    trials: tuple[Trial, ...]
    meter_j: Float64s
    sources: tuple[SourceFigures, ...]
    kind: GpuKind
    notes: tuple[str, ...]

    @property
    def methods(self) -> tuple[MethodFigures, ...]:
        """Errors of every method on every source over all windows."""
        return tuple(figures(one, self.meter_j) for source in self.sources for one in source.energies)

    def methods_of(self, label: str) -> tuple[MethodFigures, ...]:
        """Errors of every method on every source over the windows of one instruction."""
        chosen = [i for i, trial in enumerate(self.trials) if trial.label == label]
        return tuple(figures(one, self.meter_j, chosen) for source in self.sources for one in source.energies)

    @property
    def labels(self) -> tuple[str, ...]:
        """Instructions or kernels that the windows name, each once."""
        return tuple(dict.fromkeys(trial.label for trial in self.trials if trial.label))


def validate(capture: MeterCapture, log: HostLog) -> Validation:
    """Compare what the GPU reports with what the meter saw.

    Args:
        capture: The meter's capture, by its own clock.
        log: Kernel windows and readings, by the host's.

    Raises:
        InputError: The two do not belong together, or overlap too little.
    """
    if not np.ptp(capture.power_w) > 0:
        raise InputError(
            f"the meter shows the same {capture.power_w[0]:g} W all the time: nothing to align by"
        )
    sources: list[SourceName] = [one.source for one in log.series if one.source is not SourceName.MEMORY]
    if all(not np.ptp(log.readings(source)[1]) > 0 for source in sources if len(log.readings(source)[1])):
        raise InputError("the GPU's readings are the same all the time: nothing to compare")
    alignment = align_by_bursts(capture, log.marks, log.begin_ns) if log.marks else None
    if capture.is_of_host:
        alignment = same_clock(log.begin_ns)
    if alignment is None:
        alignment = align(capture, log.windows, log.series, log.begin_ns)
    require_one_clock(capture, log.windows, alignment)
    require_one_time(capture, log.series, alignment)
    signal = PowerSignal(alignment.to_host_s(capture.time_ns), capture.power_w)
    trials, notes = _covered(signal, log.trials, alignment)
    readings = [
        (source, alignment.host_s(times), values)
        for source in sources
        for times, values in [log.readings(source)]
    ]
    readings, frozen_notes = _live(signal, readings)
    fits = fit_all(signal, readings)
    _require_fit(signal, fits, readings)
    lag_notes = require_lag(fits[0], alignment)
    parts = halves(capture, log.windows, alignment) if alignment.basis is Basis.WINDOWS else None
    spans_s = window_spans_s([trial.window for trial in trials], alignment)
    recordings_s = alignment.host_s(np.array(log.recordings, dtype=np.int64))
    figured = tuple(_source(signal, fit, trials, spans_s, recordings_s, alignment) for fit in fits)
    doubts = (
        *spike_notes(capture),
        *frozen_notes,
        *lag_notes,
        *stamp_notes([one for one in log.series if one.source in sources]),
        *alignment_notes(capture, alignment, parts),
        *(note for source in figured for note in gain_notes(source.fit, source.cross)),
    )
    return Validation(
        capture,
        alignment,
        parts,
        signal,
        trials,
        signal.energy_j(spans_s[:, 0], spans_s[:, 1]),
        figured,
        log.kind,
        (*capture.notes, *log.notes, *notes, *_remarks(alignment, fits), *doubts),
    )


def _live(signal: PowerSignal, readings: Sequence[Readings]) -> tuple[list[Readings], tuple[str, ...]]:
    """Leave out the sources whose log hung, and say so.

    Raises:
        InputError: None is left.
    """
    shares = [frozen_share(signal, time_s, value_w) for _, time_s, value_w in readings]
    frozen = [share > _MAX_FROZEN for share in shares]
    sentences = tuple(
        f"{source} gave one value for {100 * share:.0f}% of the log while the meter saw the load change"
        for (source, _, _), share, is_frozen in zip(readings, shares, frozen, strict=True)
        if is_frozen
    )
    live = [one for one, is_frozen in zip(readings, frozen, strict=True) if not is_frozen]
    if sentences and not live:
        raise InputError(f"{sentences[0]}: the log was frozen")
    return live, tuple(f"{sentence}: it is left out" for sentence in sentences)


def _source(
    signal: PowerSignal,
    fit: SensorFit,
    trials: Sequence[Trial],
    windows_s: Float64s,
    recordings_s: Float64s,
    alignment: ClockAlignment,
) -> SourceFigures:
    parts = split_in_halves(signal, fit, windows_s, recordings_s)
    checks = cross_validate(signal, fit, parts)
    return SourceFigures(
        fit,
        view_bound(signal, fit, windows_s, [half for half in parts.spans_s if len(half)]),
        checks,
        window_energies(trials, fit, parts, checks, alignment),
    )


def _covered(
    signal: PowerSignal, trials: Sequence[Trial], alignment: ClockAlignment
) -> tuple[tuple[Trial, ...], tuple[str, ...]]:
    """Return the trials that the meter saw from begin to end without a gap."""
    spans_s = window_spans_s([trial.window for trial in trials], alignment)
    inside = (spans_s[:, 0] >= signal.time_s[0]) & (spans_s[:, 1] <= signal.time_s[-1])
    if not inside.any():
        raise InputError(
            f"the meter's capture covers none of the {len(trials)} windows whole: the overlap is too short"
        )
    whole = np.array(
        [_longest_gap_s(signal, *span) <= _MAX_GAP_SHARE * (span[1] - span[0]) for span in spans_s]
    )
    frozen = frozen_meter(signal, spans_s)
    if (frozen & inside).sum() > _MAX_FROZEN_WINDOWS * inside.sum():
        raise InputError(
            f"the meter shows one value through the edges of {int((frozen & inside).sum())} of "
            f"{int(inside.sum())} windows: its log was frozen"
        )
    inside_whole = inside & whole
    whole &= ~frozen
    if not (inside & whole).any():
        raise InputError(
            "the meter logged too slowly, or with gaps, for every window: fewer than 50 rows in each"
        )
    notes = []
    if not inside.all():
        notes.append(f"the meter does not cover {int((~inside).sum())} of {len(trials)} windows")
    if (inside & ~inside_whole).any():
        gaps = int((inside & ~inside_whole).sum())
        notes.append(f"the meter's log has a gap in {gaps} of {len(trials)} windows")
    if (inside_whole & frozen).any():
        notes.append(
            f"the meter shows one value through the edges of {int((inside_whole & frozen).sum())} windows, "
            "which are left out"
        )
    return tuple(t for t, use in zip(trials, inside & whole, strict=True) if use), tuple(notes)


def _longest_gap_s(signal: PowerSignal, start_s: float, end_s: float) -> float:
    first, last = np.searchsorted(signal.time_s, [start_s, end_s])
    return float(np.diff(signal.time_s[max(0, first - 1) : last + 1], prepend=start_s).max())


def _require_fit(
    signal: PowerSignal,
    fits: Sequence[SensorFit],
    readings: Sequence[Readings],
) -> None:
    if not fits:
        times_s = np.concatenate([time_s for _, time_s, _ in readings])
        inside = int(((times_s >= signal.time_s[0]) & (times_s <= signal.time_s[-1])).sum())
        raise InputError(
            f"only {inside} readings of the GPU lie within the meter's capture: the overlap is too short"
        )
    best = fits[0]
    if best.explained < MIN_EXPLAINED:
        raise InputError(
            f"the meter explains {100 * max(0.0, best.explained):.0f}% of the readings of {best.source}: "
            "is it the same GPU?"
        )
    if not _POSSIBLE_GAIN[0] <= best.gain.value <= _POSSIBLE_GAIN[1]:
        raise InputError(
            f"{best.source} reads {best.gain.value:.2f} W for each W of the meter: "
            "is it the same GPU, with every rail metered once?"
        )


def _remarks(alignment: ClockAlignment, fits: Sequence[SensorFit]) -> tuple[str, ...]:
    notes = []
    if alignment.basis is Basis.SIGNALS:
        notes.append(
            "no window has a step at its edges: the clocks are aligned by the sensor, its lag unknown"
        )
    if alignment.rivals:
        offsets = "one other offset" if alignment.rivals == 1 else f"{alignment.rivals} other offsets"
        notes.append(
            f"the load fits the meter about as well at {offsets}: let the capture begin before the first "
            "kernel or end after the last, vary the kernels, or play a burst before and after them "
            "(`ptxbench meter sync`)"
        )
    gain = fits[0].gain.value
    if not _USUAL_GAIN[0] <= gain <= _USUAL_GAIN[1]:
        notes.append(
            f"a gain of {gain:.2f} is no sensor's error: does the meter see every rail, and each once?"
        )
    return tuple(notes)

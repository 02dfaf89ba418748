"""The numbers that people take from a log of power: mean, energy and highest, and the energy of windows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ptxbench.audit.boards import KnownBoard
from ptxbench.audit.claim import Cause, Claim, Reason, Span, Way
from ptxbench.audit.readers.contents import Log
from ptxbench.core.estimate import COVERAGE_FACTOR
from ptxbench.core.status import Status
from ptxbench.energy.methods import mtsm_j
from ptxbench.energy.steady import UNIFORM_SD
from ptxbench.energy.window import noise_w_of, window_energy
from ptxbench.meter.readers.nvml import LabelledWindow
from ptxbench.sensors.description import SensorDescription, Shape
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# A log that is polled this much more slowly than its source is renewed: when each value was made is known.
_SLOW = 1.2
# Readings that cover so much of the time leave nothing out.
_COVERED = 0.95
# Readings so many of their usual steps apart are of two sessions, and nothing is known of between; chosen.
_LONG_STEPS = 10
# So many values of a window tell how uneven its power is.
_TOLD = 10
_SYSTEM = Reason(Cause.SYSTEM, "of the whole system at the wall, idle and other parts too: no GPU's number")


def claims_of(log: Log, board: KnownBoard, windows: Sequence[LabelledWindow]) -> Iterator[Claim]:
    """Yield the numbers of a log.

    Args:
        log: The log.
        board: What is known of its board and sensors.
        windows: Windows in which kernels ran; none: the whole log is one.
    """
    for series in log.series:
        good = series.good()
        if len(good) < 2 or good.time_ns[-1] <= good.time_ns[0]:
            continue
        name = " ".join(filter(None, (log.label, str(series.source) if not log.is_external else "meter")))
        if log.is_external:
            yield from _with_energy(name, replace(_mean(name, log, good, Way.METER), reasons=(_SYSTEM,)))
        elif series.counts_energy:
            yield from _of_counter(name, log, good, windows)
        elif windows:
            yield from _of_windows(name, log, good, board, windows)
        else:
            yield from _of_whole(name, log, good, board)


def _of_whole(name: str, log: Log, good: Series, board: KnownBoard) -> Iterator[Claim]:
    """Yield mean, energy and highest reading of a log; its last values bound what was drawn at its end."""
    sensor, value_w = board.sensor(good.source), good.value
    poll_s, highest_w = _poll_s(good), float(value_w.max())
    mean = replace(
        _mean(name, log, good, Way.MEAN),
        before_w=_exactly(value_w[0]),
        end_w=_end_w(float(value_w[-1]), sensor, board),
        scatter_w=_scatter_w(value_w, sensor, poll_s) + log.quantum_w,
        reasons=tuple(_sampling(sensor, poll_s)),
    )
    mean = _with_unread(
        mean, good, KernelWindow(int(good.time_ns[0]), int(good.time_ns[-1]), _length_s(good))
    )
    yield from _with_energy(name, mean)
    label = f"{name} highest"
    yield replace(
        mean, label=label, value=highest_w, power_w=highest_w, way=Way.HIGHEST, end_w=None, reasons=()
    )


def _mean(name: str, log: Log, good: Series, way: Way) -> Claim:
    """Return the mean power of all readings as a number of a log."""
    mean_w = float(good.value.mean())
    return Claim(
        label=f"{name} mean power",
        unit="W",
        value=mean_w,
        power_w=mean_w,
        way=way,
        source=None if log.is_external else good.source,
        window_s=_exactly(_length_s(good)),
        poll_s=_poll_s(good),
        gpu=log.gpu,
    )


def _with_energy(name: str, mean: Claim) -> Iterator[Claim]:
    """Yield a mean power, and the energy that it comes to."""
    yield mean
    yield replace(mean, label=f"{name} energy", unit="J", value=mean.value * mean.window_s.low)


def _exactly(value: float) -> Span:
    return Span(float(value), float(value))


def _of_windows(
    name: str, log: Log, good: Series, board: KnownBoard, windows: Sequence[LabelledWindow]
) -> Iterator[Claim]:
    """Yield the mean of the readings within each window, beside what all readings around it tell."""
    sensor = board.sensor(good.source)
    slow, seen, made_error_s = _dated(good, sensor)
    noise_w = noise_w_of(slow, seen)
    # The last reading before a window is of a part of a refresh alone where it covers no more: bursts hide.
    tells_before = sensor.memory_s >= _COVERED * max(_poll_s(good), sensor.refresh_s)
    for number, one in enumerate(windows, 1):
        window = one.window
        read = mtsm_j(good, window)
        label = f"{name} {one.label or f'window {number}'} energy"
        before = good.value[good.time_ns <= window.start_ns] if tells_before else good.value[:0]
        claim = Claim.of_energy(
            label,
            read.energy_j,
            window.elapsed_s,
            Way.MEAN,
            good.source,
            poll_s=_poll_s(good),
            gpu=log.gpu,
            is_uneven=True,
            before_w=_exactly(before[-1]) if len(before) else None,
        )
        if read.status is not Status.OK:
            yield replace(
                claim, value=math.nan, power_w=math.nan, reasons=(Reason(Cause.WINDOW, read.reason),)
            )
            continue
        found = window_energy(slow, window, seen, noise_w=noise_w, stamp_error_s=made_error_s)
        if found.status is Status.OK:
            half_w = COVERAGE_FACTOR * found.error_j / window.elapsed_s + log.quantum_w
            power_w = found.energy_j / window.elapsed_s
            text = f"the readings around it give {found.energy_j:.4g} J with averaging, lag and edges out"
            claim = replace(
                claim,
                found_w=Span(max(power_w - half_w, 0.0), power_w + half_w),
                reasons=(*_averaging(sensor, window.elapsed_s), Reason(Cause.UNCERTAIN, text)),
            )
        else:
            inside = (good.time_ns >= window.start_ns) & (good.time_ns <= window.end_ns)
            scatter_w = _window_scatter_w(good.value[inside], sensor, claim.poll_s, board) + log.quantum_w
            claim = replace(claim, scatter_w=scatter_w, reasons=(Reason(Cause.WINDOW, found.reason),))
        yield _with_unread(claim, good, window)


def _of_counter(name: str, log: Log, good: Series, windows: Sequence[LabelledWindow]) -> Iterator[Claim]:
    """Yield what the counter rose by in a log, or from the last value before each edge of a window."""
    whole = LabelledWindow(KernelWindow(int(good.time_ns[0]), int(good.time_ns[-1]), _length_s(good)), "")
    for number, one in enumerate(windows or (whole,), 1):
        window = one.window
        edges = np.searchsorted(good.time_ns, [window.start_ns, window.end_ns], side="right") - 1
        label = f"{name} {one.label or f'window {number}'} energy" if windows else f"{name} energy"
        if edges[0] < 0:
            continue
        energy_j = float(good.value[edges[1]] - good.value[edges[0]])
        idle = Reason(Cause.IDLE_INCLUDED, "of the whole log, idle included")
        yield Claim.of_energy(
            label,
            energy_j,
            window.elapsed_s,
            Way.COUNTER,
            good.source,
            # At the edges of a window the last value that was read counts.
            poll_s=_poll_s(good) if windows else 0.0,
            gpu=log.gpu,
            reasons=() if windows else (idle,),
        )


def _end_w(last_w: float, sensor: SensorDescription, board: KnownBoard) -> Span:
    """Return the mean power that may have been drawn in the time before a log's end which its values miss.

    Of that time, half the averaging before the last value's newest instant and all since then, a last value
    that is a mean over a while bounds the first part.
    """
    low_w, most_w = min(board.idle_w.low, last_w), max(board.most_w, last_w)
    blind_s, half_s = sensor.lag_s + sensor.refresh_s, sensor.averaging_s / 2
    if not half_s > 0 or sensor.shape is not Shape.BOXCAR:
        return Span(low_w, most_w)
    # The other half of the mean is from low_w to most_w, too.
    low_half_w = max(low_w, 2 * last_w - most_w)
    most_half_w = min(most_w, 2 * last_w - low_w)
    whole_s = blind_s + half_s
    return Span(
        (low_half_w * half_s + low_w * blind_s) / whole_s, (most_half_w * half_s + most_w * blind_s) / whole_s
    )


def _scatter_w(value_w: Float64s, sensor: SensorDescription, poll_s: float) -> float:
    """Return the half-width of what was missed between readings that cover a part of the time."""
    apart_s = max(poll_s, sensor.refresh_s)
    covered = min(sensor.memory_s / apart_s, 1.0) if apart_s > 0 else 1.0
    count = max(len(value_w) * poll_s / apart_s, 2.0)
    return COVERAGE_FACTOR * float(value_w.std()) * math.sqrt((1 - covered) / count)


def _window_scatter_w(
    value_w: Float64s, sensor: SensorDescription, poll_s: float, board: KnownBoard
) -> float:
    """Return the same of a window, of which few readings do not tell how uneven its power is."""
    apart_s = max(poll_s, sensor.refresh_s)
    if sensor.memory_s >= apart_s or len(value_w) * poll_s >= _TOLD * apart_s:
        return _scatter_w(value_w, sensor, poll_s)
    spread_w = min(board.most_w, 2 * float(value_w.max())) - board.idle_w.low
    own = max(len(value_w) * poll_s / apart_s, 1.0)
    return COVERAGE_FACTOR * UNIFORM_SD * spread_w * math.sqrt((1 - sensor.memory_s / apart_s) / own)


def _sampling(sensor: SensorDescription, poll_s: float) -> Iterator[Reason]:
    apart_s = max(poll_s, sensor.refresh_s)
    if sensor.memory_s < _COVERED * apart_s:
        text = (
            f"the readings cover {sensor.memory_s:.3g} s of each {apart_s:.3g} s; what a load in step with"
            " them draws between is not known"
        )
        yield Reason(Cause.SAMPLING, text)


def _averaging(sensor: SensorDescription, length_s: float) -> Iterator[Reason]:
    if sensor.averaging_s > sensor.refresh_s:
        text = f"{sensor.source} is a mean over {sensor.averaging_s:.3g} s, in a window of {length_s:.3g} s"
        yield Reason(Cause.RUNNING_MEAN, text)


def _dated(good: Series, sensor: SensorDescription) -> tuple[Series, SensorDescription, float]:
    """Return readings with the moment at which each was made, where they are polled more slowly than made.

    A call comes at any time of a refresh: the last is the standard error of that moment, s.
    """
    poll_s = _poll_s(good)
    if not sensor.refresh_s > 0 or poll_s < _SLOW * sensor.refresh_s:
        return good, sensor, 0.0
    made_ns = good.time_ns - round(sensor.refresh_s / 2 * NS_PER_S)
    return replace(good, stamp_ns=made_ns), replace(sensor, refresh_s=poll_s), UNIFORM_SD * sensor.refresh_s


def _length_s(good: Series) -> float:
    return float(good.time_ns[-1] - good.time_ns[0]) / NS_PER_S


def _with_unread(claim: Claim, good: Series, window: KernelWindow) -> Claim:
    """Return a number with the share of its window in which nothing was read for long."""
    times_ns = np.unique(good.time_ns)
    is_long = np.diff(times_ns) > _LONG_STEPS * claim.poll_s * NS_PER_S
    within_ns = np.diff(np.clip(times_ns, window.start_ns, window.end_ns))[is_long]
    unread_s = float(within_ns.sum()) / NS_PER_S
    if not unread_s > 0:
        return claim
    text = f"nothing was read for {unread_s:.3g} s of {window.elapsed_s:.3g} s: its power is not known"
    reasons = (*claim.reasons, Reason(Cause.SAMPLING, text))
    return replace(claim, unread=unread_s / window.elapsed_s, reasons=reasons)


def _poll_s(good: Series) -> float:
    steps_ns = np.diff(np.unique(good.time_ns))
    return float(np.median(steps_ns)) / NS_PER_S

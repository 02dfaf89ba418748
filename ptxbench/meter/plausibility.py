"""What makes a comparison doubtful though numbers came out of it: refused, or reported.

A clock that steps, readings of another time, a logger that hangs and a meter that glitches all leave a fit
with narrow intervals. Each is looked for where it shows, which is not in the fit itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import median_filter

from ptxbench.core.errors import InputError
from ptxbench.meter.alignment import Basis, ClockAlignment
from ptxbench.meter.capture import MeterCapture
from ptxbench.meter.coarse import Placement, locate, place_signal
from ptxbench.meter.cross import CrossCheck
from ptxbench.sensors.characterize.sensor_fit import SensorFit
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series


@dataclass(frozen=True)
class PlausibilitySettings:
    """Bounds of what clocks, sensors and meters can do."""

    lag_limits_s: tuple[float, float] = (-0.1, 1.0)
    """Lags that a sensor may have. A log may stamp a reading before it takes it, but not by more; no value
    is older than the latter."""
    usual_lag_s: float = 0.3
    """Lag beyond which there is a note: no sensor that was characterized so far has more; the windows may be
    early."""
    delay_limits_s: tuple[float, float] = (-0.15, 3.0)
    """Ages of the power that a value measures, averaging included."""
    searched_s: float = 60.0
    """How far on either side the readings are looked for in the capture."""
    min_correlation: float = 0.7
    """Correlation below which they are not found there."""
    clearly_ratio: float = 2.0
    """Ratio of the unexplained variance where the readings should be to that where they fit best, from which
    on they are at another time."""
    step_reach_s: float = 2.0
    """How far a step of the clock may move a block of windows."""
    most_blocks: int = 8
    """Blocks of windows that are located by themselves."""
    windows_in_block: int = 2
    """Windows that a block has at least."""
    least_step_s: float = 0.008
    """Step of the clock that counts. Blocks are located to about a sample; steps that are smaller show in
    the line through all edges."""
    least_step_periods: float = 3.0
    """The same in sampling periods of the meter."""
    spike_neighbours: int = 5
    """Rows whose median a row is compared with, itself among them."""
    spike_share: float = 0.25
    """Least height of a spike, of the range of the power."""
    spike_noises: float = 12.0
    """The same in median distances of a row from its neighbours."""
    spikes_noted: float = 1e-4
    """Share of the rows that may be spikes without a note."""
    frozen_s: float = 1.5
    """Time of one value after which a sensor hangs: one with an averaging window of a second shows every
    change of the load within it."""
    frozen_calls: int = 8
    """Readings of one value that it takes besides."""
    mean_s: float = 0.25
    """Length of the means by which it is seen whether the load changed meanwhile."""
    frozen_swing: float = 0.2
    """Change of the load, of its whole range, that a sensor should have shown."""
    frozen_rows: int = 3
    """Rows before and after an edge for which a meter that shows one value hangs."""
    least_gain_gap: float = 0.02
    """Difference of the gains of two halves, of the gain, that is allowed besides their intervals, as no
    model is exact."""


SETTINGS = PlausibilitySettings()


def require_one_clock(
    capture: MeterCapture, windows: Sequence[KernelWindow], alignment: ClockAlignment
) -> None:
    """Refuse a capture whose clock, or the host's, stepped between two windows.

    A few windows at a time are located by themselves. Where those before some moment lie at one offset and
    those after it at another, the clock stepped.

    Raises:
        InputError: It did.
    """
    begin_s, end_s = alignment.to_host_s(capture.time_ns[[0, -1]])
    spans_s = alignment.host_s(np.array([[w.start_ns, w.end_ns] for w in windows], dtype=np.int64))
    seen = np.flatnonzero((spans_s[:, 0] > begin_s) & (spans_s[:, 1] < end_s))
    count = min(SETTINGS.most_blocks, len(seen) // SETTINGS.windows_in_block)
    if alignment.basis is not Basis.WINDOWS or count < 2:
        return
    blocks = [[windows[i] for i in part] for part in np.array_split(seen, count)]
    moves_s = np.array([_move_s(capture, block, alignment) for block in blocks])
    slack_s = max(SETTINGS.least_step_s, SETTINGS.least_step_periods * capture.period_s)
    for first in range(1, count):
        # The step may lie within the last block before it.
        for last in (first, first - 1):
            before_s, after_s = moves_s[:last], moves_s[first:]
            if not len(before_s) or np.ptp(before_s) > slack_s or np.ptp(after_s) > slack_s:
                continue
            step_s = float(np.median(after_s) - np.median(before_s))
            if abs(step_s) > slack_s:
                number = int(seen[sum(map(len, blocks[:first]))]) + 1
                raise InputError(
                    f"the clock of the meter or of the host steps by {1e3 * step_s:+.0f} ms near window "
                    f"{number} of {len(windows)}, or they are not of the same session and GPU: "
                    "cut the capture there, or log again"
                )


def _move_s(capture: MeterCapture, windows: Sequence[KernelWindow], alignment: ClockAlignment) -> float:
    begin_ns = windows[0].start_ns
    here = Placement(
        begin_ns,
        round(alignment.offset_at_ns(begin_ns)),
        alignment.correlation,
        reach_s=SETTINGS.step_reach_s,
    )
    return (locate(capture, windows, here) - here.offset_ns) / 1e9


def require_one_time(capture: MeterCapture, series: Sequence[Series], alignment: ClockAlignment) -> None:
    """Refuse readings that follow the meter at another time than the windows do.

    Raises:
        InputError: They fit clearly better where no sensor's lag can put them.
    """
    if alignment.basis is not Basis.WINDOWS:
        return
    for one in series:
        offset_s = alignment.offset_at_ns(int(one.time_ns[0])) / 1e9
        near = place_signal(
            capture, one, (offset_s - SETTINGS.delay_limits_s[1], offset_s - SETTINGS.delay_limits_s[0])
        )
        best = place_signal(capture, one, (offset_s - SETTINGS.searched_s, offset_s + SETTINGS.searched_s))
        if best is None or best.correlation < SETTINGS.min_correlation:
            continue
        delay_s = offset_s - best.offset_ns / 1e9
        found = near.correlation if near is not None else 0.0
        if SETTINGS.delay_limits_s[0] <= delay_s <= SETTINGS.delay_limits_s[1]:
            continue
        if 1 - max(found, 0.0) ** 2 > SETTINGS.clearly_ratio * (1 - best.correlation**2):
            raise InputError(
                f"the readings of {one.source} follow the meter {delay_s:+.1f} s after the windows do, "
                "which no sensor's lag is: windows and readings are not stamped by one clock"
            )


def require_lag(fit: SensorFit, alignment: ClockAlignment) -> tuple[str, ...]:
    """Return what to say of a source's lag.

    Raises:
        InputError: No sensor can have it.
    """
    if alignment.basis is not Basis.WINDOWS:
        return ()
    lag = fit.lag_s
    half_s = 0.0 if np.isnan(lag.uncertainty) else lag.uncertainty
    if lag.value + half_s < SETTINGS.lag_limits_s[0] or lag.value - half_s > SETTINGS.lag_limits_s[1]:
        raise InputError(
            f"{fit.source} would have a lag of {1e3 * lag.value:.0f} ms, which no sensor has: windows and "
            "readings are not stamped by one clock, or the windows are those of other kernels"
        )
    if lag.value - half_s > SETTINGS.usual_lag_s:
        return (
            f"a lag of {1e3 * lag.value:.0f} ms is longer than that of any sensor known: "
            "are the windows stamped early?",
        )
    return ()


def alignment_notes(
    capture: MeterCapture, alignment: ClockAlignment, halves: tuple[ClockAlignment, ClockAlignment] | None
) -> tuple[str, ...]:
    """Return the evidence against one line for the clock: a small step, and halves that disagree."""
    notes = []
    if alignment.step is not None:
        step = alignment.step
        notes.append(
            f"the clock of the meter or of the host steps by {step.size_s.scaled(1e3).text()} ms "
            f"{step.after_s:.3g} s after the first window: lag and energies are off by up to as much"
        )
    if halves is not None:
        first, second = halves
        apart_ns = second.offset_ns - first.offset_ns
        allowed_ns = np.hypot(first.offset_uncertainty_ns, second.offset_uncertainty_ns)
        if abs(apart_ns) > allowed_ns + 1e9 * capture.period_s:
            notes.append(
                f"the halves of the capture give offsets that are {apart_ns / 1e6:.2f} ms apart, more "
                f"than their errors allow ({allowed_ns / 1e6:.2f} ms): the clocks did not run evenly"
            )
    return tuple(notes)


def gain_notes(fit: SensorFit, checks: Sequence[CrossCheck]) -> tuple[str, ...]:
    """Return a sentence where the halves of the capture give gains that their errors do not allow."""
    if len(checks) < 2:
        return ()
    first, second = (check.fit.gain for check in checks)
    allowed = (
        float(np.hypot(first.uncertainty, second.uncertainty)) + SETTINGS.least_gain_gap * fit.gain.value
    )
    if abs(first.value - second.value) <= allowed:
        return ()
    return (
        f"the halves of the capture give {fit.source} gains of {first.text()} and {second.text()}, which "
        "their errors do not allow: the sensor, the meter or its wiring changed in between",
    )


def stamp_notes(series: Sequence[Series]) -> tuple[str, ...]:
    """Return a sentence for the sources that a log stamps with whole seconds, as `nvidia-smi dmon` does.

    A fit takes such times at their word: its errors of lag and averaging know nothing of what was cut off.
    """
    stamped = [one for one in series if len(one) and not np.any(one.time_ns % round(NS_PER_S))]
    names = ", ".join(str(one.source) for one in stamped)
    return (
        (f"the times of {names} are whole seconds: lag and averaging are not told better than that",)
        if stamped
        else ()
    )


def spike_notes(capture: MeterCapture) -> tuple[str, ...]:
    """Return a sentence where single rows stand out from their neighbours by far more than the noise."""
    beside_w = capture.power_w - median_filter(capture.power_w, SETTINGS.spike_neighbours)
    low_w, high_w = np.quantile(capture.power_w, (0.01, 0.99))
    least_w = max(
        SETTINGS.spike_share * float(high_w - low_w),
        SETTINGS.spike_noises * float(np.median(np.abs(beside_w))),
    )
    spikes = np.abs(beside_w) > least_w
    if spikes.mean() <= SETTINGS.spikes_noted:
        return ()
    share_pct = 100 * float(beside_w[spikes].sum() / capture.power_w.sum())
    return (
        f"{int(spikes.sum())} of {len(spikes)} rows of the meter stand alone by more than {least_w:.0f} W "
        f"above or below their neighbours: they make up {share_pct:+.2g}% of its energy and bend the fit",
    )


def frozen_meter(signal: PowerSignal, spans_s: Float64s) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the windows at whose edges the meter went on showing one value, shape (n,).

    Args:
        signal: The meter's power, aligned host time.
        spans_s: Start and end of each window, shape (n, 2).
    """
    first, last = _equal_runs(signal.power_w)
    begin_s, end_s = signal.time_s[first], signal.time_s[last]
    reach_s = SETTINGS.frozen_rows * signal.period_s
    frozen = np.zeros(len(spans_s), dtype=np.bool_)
    for run in np.flatnonzero(last - first >= 2 * SETTINGS.frozen_rows):
        inside = (spans_s > begin_s[run] + reach_s) & (spans_s < end_s[run] - reach_s)
        frozen |= inside.any(axis=1)
    return frozen


def frozen_share(signal: PowerSignal, read_s: Float64s, value_w: Float64s) -> float:
    """Return the share of a log in which a source gave one value while the meter saw the load change.

    Args:
        signal: The meter's power, aligned host time.
        read_s: Times of the readings, increasing, shape (n,).
        value_w: The readings, shape (n,).
    """
    inside = (read_s >= signal.time_s[0]) & (read_s <= signal.time_s[-1])
    read_s, value_w = read_s[inside], value_w[inside]
    if len(read_s) < SETTINGS.frozen_calls:
        return 0.0
    first, last = _equal_runs(value_w)
    swing_w = _swing_w(signal, float(read_s[0]), float(read_s[-1]))
    frozen_s = 0.0
    for run in np.flatnonzero(
        (last - first >= SETTINGS.frozen_calls) & (read_s[last] - read_s[first] > SETTINGS.frozen_s)
    ):
        begin_s, end_s = float(read_s[first[run]]), float(read_s[last[run]])
        # What the load did just before the end may not have reached the sensor.
        if _swing_w(signal, begin_s, end_s - SETTINGS.mean_s) > SETTINGS.frozen_swing * swing_w:
            frozen_s += end_s - begin_s
    return frozen_s / float(read_s[-1] - read_s[0])


def _swing_w(signal: PowerSignal, begin_s: float, end_s: float) -> float:
    """Return how far the meter's mean over a quarter of a second moves between two times."""
    count = int((end_s - begin_s) / SETTINGS.mean_s)
    return float(np.ptp(signal.resample(begin_s, SETTINGS.mean_s, count))) if count > 1 else 0.0


def _equal_runs(values: Float64s) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], ...]:
    """Return the first and the last index of each run of equal values."""
    border = np.flatnonzero(np.diff(values) != 0) + 1
    return np.concatenate([[0], border]), np.concatenate([border - 1, [len(values) - 1]])

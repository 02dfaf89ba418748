"""What a power source is like, found from one recording of a load of known timing.

The load is either on or off, and the kernels' windows say when. A source that answered is described by a
model. Its value is a running mean (or a first-order low-pass) of the load, some lag ago, times a step in
watts, plus what the idle GPU draws. It is refreshed at even times and held in between. The model is fitted by
least squares (`ptxbench.sensors.characterize.sensor_fit`), as against an external meter. Step and idle power
come out of the fit as well, but whether they are right takes a meter to know.

The form of the model, a boxcar average of part of the time, is that of Z. Yang, K. Adamek and
W. Armour, "Part-time Power Measurements: nvidia-smi's Lack of Attention" (2023), section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxbench.core.estimate import COVERAGE_FACTOR, Estimate
from ptxbench.sensors.base import POWER_SOURCES, SourceName
from ptxbench.sensors.characterize.call_cost import CallCost, SampleBuffer, call_cost, sample_buffer
from ptxbench.sensors.characterize.load_signal import load_signal
from ptxbench.sensors.characterize.quantum import find_quantum
from ptxbench.sensors.characterize.sensor_fit import MIN_READINGS, SensorFit, fit_held
from ptxbench.sensors.description import SensorDescription, Shape
from ptxbench.sensors.refresh import HoldInterval, hypotheses
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series, Trace

# Less of a source's variance than this, and it does not follow the load.
_MIN_EXPLAINED = 0.9
# A running mean shorter than this, or than its own uncertainty, is a point.
_POINT_S = 1e-3
# Stamps this many usual gaps apart have missing ones between them.
_MAX_GAP = 1.6


@dataclass(frozen=True)
class SensorCharacterization:
    """What was found about one source.

    Attributes:
        sensor: The figures, as a run uses them; what was not found stands as documented.
        refresh_s: Time between two new values.
        averaging_s: Running mean of a value, or twice the time constant of a low-pass; of the counter: of
            the power between two steps, which is the refresh where nothing is left out.
        lag_s: Age of the newest instant that a fresh value covers.
        step_w: What the load adds, by this source.
        idle_w: What the idle GPU draws, by this source.
        noise_w: Standard deviation of a value under steady load.
        residual_w: Root mean square of the residuals of the values.
        explained: Share of the values' variance that the model explains; NaN where it was not fitted.
        needed_s: Shortest kernel whose steady power this source gives to 0.5% (`steady_window_s`), or NaN.
        cost: What reading it costs.
        buffer: Its buffer, where it has one.
        note: What is not as it should be, a sentence, or "".
    """

    sensor: SensorDescription
    refresh_s: Estimate
    averaging_s: Estimate
    lag_s: Estimate
    step_w: Estimate
    idle_w: Estimate
    noise_w: float
    residual_w: float
    explained: float
    needed_s: float
    cost: CallCost
    buffer: SampleBuffer | None
    note: str


def probe(
    trace: Trace,
    windows: Sequence[KernelWindow],
    documented: Sequence[SensorDescription],
    waited_s: float,
    origin: str = "measured",
) -> tuple[SensorCharacterization, ...]:
    """Describe every source of a recording, best for steady power first.

    The best is the one with the smallest `SensorCharacterization.needed_s`; `memory`, which is no board
    power, and sources that do not follow the load come last.

    Args:
        trace: The recording.
        windows: When the load was on.
        documented: What is known of each source beforehand; sources that it lacks are left out.
        waited_s: Time for which no source had been read before the recording.
        origin: What the descriptions name as their origin.
    """
    load = load_signal(windows, trace)
    known = {sensor.source: sensor for sensor in documented}
    found = [
        _probe_source(series, load, trace.begin_ns, known[series.source], waited_s, origin)
        for series in trace.series
        if series.source in POWER_SOURCES and series.source in known and len(series)
    ]
    return tuple(sorted(found, key=_rank))


def steady_window_s(sensor: SensorDescription, noise_w: float, power_w: float, gap_s: float) -> float:
    """Return the shortest kernel whose steady power a source gives with a standard error of 0.5%.

    A source in watts must settle, and then give n independent values with noise / sqrt(n) = 0.5% of the
    power, two readings at least. Running means that overlap share their noise, so that one is
    independent of the one before only after `averaging_s`. A counter gives the energy between two steps;
    the time of each is known to the gap between two calls, evenly spread, and the first step may come a
    whole refresh after the kernel has settled.

    Args:
        sensor: The source.
        noise_w: Standard deviation of one value.
        power_w: Power of the kernel.
        gap_s: Time between two calls.
    """
    allowed = 0.005
    if sensor.source is SourceName.COUNTER:
        timing_s = math.sqrt(2 / 12) * gap_s / allowed
        quantum_s = math.sqrt(2 / 12) * sensor.quantum / (allowed * power_w)
        span_s = max(sensor.refresh_s, math.hypot(timing_s, quantum_s))
        return sensor.settle_s + span_s
    independent_s = max(sensor.refresh_s, sensor.averaging_s)
    return sensor.settle_s + max(sensor.refresh_s, independent_s * (noise_w / (allowed * power_w)) ** 2)


def _rank(one: SensorCharacterization) -> tuple[bool, float]:
    is_last = one.sensor.source is SourceName.MEMORY
    return is_last, math.inf if math.isnan(one.needed_s) else one.needed_s


def _probe_source(
    series: Series,
    load: PowerSignal,
    origin_ns: int,
    documented: SensorDescription,
    waited_s: float,
    origin: str,
) -> SensorCharacterization:
    good = series.good()
    buffer = sample_buffer(good, waited_s)
    ways = _held(good, origin_ns)
    fit = fit_held(series.source, load, ways) if ways and np.ptp(ways[0].value_w) > 0 else None
    cost = call_cost(series, ways)
    if fit is None or fit.explained < _MIN_EXPLAINED:
        return _unknown(documented, cost, buffer, fit)
    refresh = _refresh(good, fit, ways)
    is_counter = series.source is SourceName.COUNTER
    width = fit.width_s.scaled(1.0 if fit.shape is Shape.BOXCAR else 2.0)
    is_point = is_counter or width.value < max(_POINT_S, width.uncertainty)
    sensor = SensorDescription(
        source=series.source,
        refresh_s=refresh.value,
        averaging_s=0.0 if is_point else width.value,
        lag_s=fit.lag_s.value,
        quantum=find_quantum(np.diff(np.unique(good.value)) if is_counter else good.value),
        origin=origin,
        shape=Shape.BOXCAR if is_point else fit.shape,
        regulation_s=documented.regulation_s,
        excursion=documented.excursion,
    )
    noise_w = _noise_w(fit, load)
    hot_w = abs(fit.gain.value + fit.offset_w.value)
    gap_s = float(np.median(np.diff(good.end_ns))) / NS_PER_S
    return SensorCharacterization(
        sensor=sensor,
        refresh_s=refresh,
        averaging_s=width,
        lag_s=fit.lag_s,
        step_w=fit.gain,
        idle_w=fit.offset_w,
        noise_w=noise_w,
        residual_w=fit.residual_w,
        explained=fit.explained,
        needed_s=steady_window_s(sensor, noise_w, hot_w, gap_s),
        cost=cost,
        buffer=buffer,
        note=_note(sensor, width),
    )


def _held(good: Series, origin_ns: int) -> list[HoldInterval]:
    """Return how the values may have been held, in seconds after the origin; watts for the counter too."""
    if len(good) < MIN_READINGS:
        return []
    time_s = (good.time_ns - origin_ns) / NS_PER_S
    if good.stamp_ns[0] >= 0:
        return [HoldInterval(time_s, time_s, good.value, 0.0)]
    every = hypotheses(time_s, good.value)
    # That every call gives a new value is only taken where nothing else fits.
    ways = [way for way in every if way.refresh_s > 0] or every[:1]
    if good.source is SourceName.COUNTER:
        ways = [_as_power(way) for way in ways]
    return [way for way in ways if len(way.made_s) >= MIN_READINGS]


def _as_power(held: HoldInterval) -> HoldInterval:
    """Return the mean power between the steps of a counter, at the later step."""
    fresh = held.fresh()
    power_w = np.diff(fresh.value_w) / np.diff(fresh.made_s)
    return HoldInterval(fresh.read_s[1:], fresh.made_s[1:], power_w, held.refresh_s)


def _refresh(good: Series, fit: SensorFit, ways: Sequence[HoldInterval]) -> Estimate:
    """Return the time between two new values; by its scatter over their number."""
    if good.stamp_ns[0] >= 0:
        gap_s = np.diff(np.unique(good.stamp_ns).astype(np.float64)) / NS_PER_S
        gap_s = gap_s[gap_s < _MAX_GAP * np.median(gap_s)]
        return _mean(gap_s)
    if fit.refresh_s <= 0:
        # Every call gave a new value: the refresh is no longer than the gap between calls.
        return Estimate(float(np.median(np.diff(ways[0].read_s))), math.nan)
    made_s = fit.made_s
    number = np.round((made_s - made_s[0]) / fit.refresh_s)
    off_s = made_s - made_s[0] - fit.refresh_s * number
    # Each end of the span is known to the gap between two calls, evenly spread.
    ends_s = math.sqrt(2 / 12) * float(np.median(np.diff(good.end_ns))) / NS_PER_S
    error_s = math.hypot(ends_s, float(off_s.std())) / max(1.0, float(number[-1]))
    return Estimate(fit.refresh_s, COVERAGE_FACTOR * error_s)


def _mean(values: Float64s) -> Estimate:
    return Estimate(float(values.mean()), COVERAGE_FACTOR * float(values.std()) / math.sqrt(len(values)))


def _noise_w(fit: SensorFit, load: PowerSignal) -> float:
    """Return the scatter of values under steady load, from one to the next, as drift is no noise.

    Values that share part of their running mean differ by less than their noise: a difference over
    enough values is taken.
    """
    apart = max(1, math.ceil(fit.span_s / fit.refresh_s)) if fit.refresh_s > 0 else 1
    reach_s = 4 * fit.span_s
    steady = load.mean_w(fit.made_s - fit.lag_s.value - reach_s, fit.made_s - fit.lag_s.value) > 1 - 1e-9
    both = steady[apart:] & steady[:-apart]
    if both.sum() < MIN_READINGS:
        return fit.residual_w
    difference_w = (fit.value_w[apart:] - fit.value_w[:-apart])[both]
    return float(np.sqrt(np.mean(difference_w**2) / 2))


def _unknown(
    documented: SensorDescription, cost: CallCost, buffer: SampleBuffer | None, fit: SensorFit | None
) -> SensorCharacterization:
    nothing = Estimate(math.nan, math.nan)
    explained = math.nan if fit is None else fit.explained
    note = (
        "it gave no changing values"
        if fit is None
        else f"the load explains only {100 * explained:.0f}% of its values"
    )
    return SensorCharacterization(
        sensor=documented,
        refresh_s=nothing,
        averaging_s=nothing,
        lag_s=nothing,
        step_w=nothing,
        idle_w=nothing,
        noise_w=math.nan,
        residual_w=math.nan,
        explained=explained,
        needed_s=math.nan,
        cost=cost,
        buffer=buffer,
        note=f"{note}: the documented figures stand",
    )


def _note(sensor: SensorDescription, width: Estimate) -> str:
    """Return a sentence where part of the time enters no value, else ""."""
    if sensor.averaging_s == 0 and sensor.source is not SourceName.COUNTER:
        return "a value is a point: it covers none of the time"
    seen = width.value / sensor.refresh_s
    if seen >= 1 - max(0.05, width.uncertainty / sensor.refresh_s):
        return ""
    what = "its steps hold" if sensor.source is SourceName.COUNTER else "a value covers"
    return f"{what} only {100 * max(0.0, seen):.0f}% of the time"

"""The error that a method makes on a source, predicted from the sensor's description alone.

A load that draws P_i within its i-th stretch and p0 beside it makes a sensor say, for a value made at t,

    v(t) = p0 + sum over i of (P_i - p0) x share of the value's weight within stretch i, at t - lag

(`ptxbench.energy.sensor_response`), and the value is held until the next refresh. A call sees it
with an age that is, over many runs, evenly spread from 0 to the refresh. So for one even kernel of
length T, with f(x) the share of a value's weight that is younger than x
(min(x / averaging, 1) for a running mean), h the age, and q = 1 - p0 / P,
the mean over h of the energy, less P T, over P T, is

    PAPI-style   -q x mean over h of [1 - f(T - lag - h)]
    MTSM, Eq. 2  -q x mean over h and over t from 0 to T of [1 - f(t - lag - h)]
    SMA          -q x [1 - T / (length of the recording)], less what of the tail the recording cuts off

Here the readings are written down for a number of phases and given to the methods themselves, so that
any load and every method is predicted by the same arithmetic. Noise, gain and offset do not enter: the bias
is against what the same sensor reads of a long run of the same load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from ptxbench.energy.capacitance import capacitance_j
from ptxbench.energy.corrected import corrected_j
from ptxbench.energy.methods import (
    collector_j,
    counter_j,
    difference_j,
    median_j,
    mtsm_j,
    papi_j,
    sma_j,
)
from ptxbench.energy.reading import EnergyReading
from ptxbench.energy.sensor_response import share_within
from ptxbench.sensors.base import SourceName, Unit
from ptxbench.sensors.description import SensorDescription
from ptxbench.sensors.sources import source_of
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series

# Phases of the refresh, and of the calls, that stand for all. With 48 of the refresh the bias of PAPI-style
# on a kernel of 30 ms by `instant` changes by 0.03, and half of 124 figures by less than 2e-5. With 16 of the
# calls the least share of a window of 0.3 s by `instant`, polled every 0.1 s, changes by 0.11.
_PHASES = 12
_CALL_PHASES = 4
# Of so many times to settle, a window's begin is a small part.
_SETTLED = 20
# Host time of the kernel's start; far from zero, as a stamp below it would be none.
_ORIGIN_NS = 1_000_000_000_000

Method = Callable[[Series, KernelWindow, SensorDescription], EnergyReading]


@dataclass(frozen=True)
class LoadShape:
    """A load in stretches of even power, the first of which begins at 0.

    Attributes:
        start_s: Begin of each stretch, in order, shape (n,).
        end_s: End of each, shape (n,).
        power_w: Power within each, shape (n,).
        idle_w: Power beside them.
        before_s: Time recorded before the first.
        after_s: Time recorded after the last.
    """

    start_s: Float64s
    end_s: Float64s
    power_w: Float64s
    idle_w: float
    before_s: float
    after_s: float

    @property
    def length_s(self) -> float:
        """Time from the first begin to the last end."""
        return float(self.end_s[-1])

    @property
    def energy_j(self) -> float:
        """Energy from the first begin to the last end."""
        busy_s = self.end_s - self.start_s
        return float((self.power_w * busy_s).sum() + self.idle_w * (self.length_s - busy_s.sum()))


@dataclass(frozen=True)
class Prediction:
    """What a method will say, over all phases of the refresh.

    Attributes:
        bias: Mean of (energy / true energy - 1) over the phases that get an answer; NaN where none does.
        spread: Standard deviation of it over those phases.
        answered: Share of the phases that get an answer.
    """

    bias: float
    spread: float
    answered: float


def methods_for(source: SourceName) -> dict[str, Method]:
    """Return the methods that a source allows, by name."""
    if source_of(source).unit is Unit.JOULE:
        return {
            "counter": lambda series, window, sensor: counter_j(series, window, sensor.quantum),
            "difference": lambda series, window, _: difference_j(series, window),
            "corrected": corrected_j,
        }
    return {
        "sma": lambda series, window, _: sma_j(series, window),
        "papi": lambda series, window, _: papi_j(series, window),
        "mtsm": lambda series, window, _: mtsm_j(series, window),
        "collector": lambda series, window, _: collector_j(series, window),
        "median": lambda series, window, _: median_j(series, window),
        "capacitance": capacitance_j,
        "corrected": corrected_j,
    }


def predict(
    sensor: SensorDescription, load: LoadShape, poll_s: float, left_out: Collection[str] = ()
) -> dict[str, Prediction]:
    """Return the prediction for every method on one source.

    Args:
        sensor: What the source is like.
        load: The load, with its powers as this source gives them.
        poll_s: Time between two calls.
        left_out: Methods that are not wanted.
    """
    window = KernelWindow(_ORIGIN_NS, _ORIGIN_NS + round(load.length_s * NS_PER_S), load.length_s)
    methods = {name: of for name, of in methods_for(sensor.source).items() if name not in left_out}
    ratios: dict[str, list[float]] = {name: [] for name in methods}
    for phase in (np.arange(_PHASES) + 0.5) / _PHASES:
        series = readings(sensor, load, poll_s, float(phase))
        for name, method in methods.items():
            ratios[name].append(method(series, window, sensor).energy_j / load.energy_j)
    return {name: _over_phases(np.array(values)) for name, values in ratios.items()}


def seen_shares(
    sensor: SensorDescription,
    length_s: float,
    poll_s: float,
    reduce: Callable[[Float64s], float] = lambda values: float(values.mean()),
) -> tuple[float, float]:
    """Return which share of what is made of the readings within a window is of the window itself.

    The rest is of what came before. The load is even from the window's begin on, and the first call comes at
    any time up to `poll_s` after it.

    Args:
        sensor: What the source is like.
        length_s: Length of the window, above 0.
        poll_s: Time between two calls.
        reduce: What is made of the readings.

    Returns:
        The least and the largest share over the phases of the refresh and of the calls; (0, 0) where no call
        falls into the window.
    """
    # From here on all readings but the first are of the window alone, and the rest falls with its length.
    enough_s = min(length_s, _SETTLED * (sensor.settle_s + poll_s))
    memory_s = sensor.settle_s + 2 * sensor.refresh_s
    seen = []
    for call in (np.arange(_CALL_PHASES) + 0.5) / _CALL_PHASES:
        before_s = (math.ceil(memory_s / poll_s) + 1 - call) * poll_s
        load = LoadShape(np.array([0.0]), np.array([enough_s]), np.array([1.0]), 0.0, before_s, 0.0)
        for phase in (np.arange(_PHASES) + 0.5) / _PHASES:
            series = readings(sensor, load, poll_s, float(phase))
            inside = series.value[series.time_ns >= _ORIGIN_NS]
            if len(inside):
                seen.append(reduce(inside))
    if not seen:
        return 0.0, 0.0
    left = enough_s / length_s
    return 1 - left * (1 - min(seen)), 1 - left * (1 - max(seen))


def readings(sensor: SensorDescription, load: LoadShape, poll_s: float, phase: float) -> Series:
    """Return what calls at even times would read of a load.

    Args:
        sensor: The source; `samples` come with their stamps, other sources hold each value.
        load: The load.
        poll_s: Time between two calls.
        phase: Where in its refresh the sensor is, from 0 to 1.
    """
    refresh_s = sensor.refresh_s if sensor.refresh_s > 0 else poll_s
    first = -math.ceil(load.before_s / refresh_s) - 1
    last = math.ceil((load.length_s + load.after_s) / refresh_s) + 1
    made_s = np.asarray(refresh_s * (np.arange(first, last) + phase), dtype=np.float64)
    value = _value(sensor, load, made_s - sensor.lag_s)
    if source_of(sensor.source).is_stamped:
        kept = (made_s >= -load.before_s) & (made_s <= load.length_s + load.after_s)
        return _series(sensor.source, made_s[kept], value[kept], is_stamped=True)
    call_s = np.arange(-load.before_s, load.length_s + load.after_s, poll_s, dtype=np.float64)
    return _series(sensor.source, call_s, value[np.searchsorted(made_s, call_s, side="right") - 1])


def _value(sensor: SensorDescription, load: LoadShape, newest_s: Float64s) -> Float64s:
    """Return what values say whose newest instant is given: W, or J for the counter."""
    stretches = zip(load.start_s, load.end_s, load.power_w - load.idle_w, strict=True)
    if sensor.counts_energy:
        drawn_j = load.idle_w * (newest_s - newest_s[0])
        for start_s, end_s, excess_w in stretches:
            drawn_j = drawn_j + excess_w * np.clip(newest_s - start_s, 0.0, end_s - start_s)
        return np.asarray(drawn_j, dtype=np.float64)
    value_w = np.full(len(newest_s), load.idle_w)
    for start_s, end_s, excess_w in stretches:
        value_w = value_w + excess_w * share_within(newest_s, float(start_s), float(end_s), sensor)
    return value_w


def _series(source: SourceName, time_s: Float64s, value: Float64s, *, is_stamped: bool = False) -> Series:
    time_ns = _ORIGIN_NS + np.round(time_s * NS_PER_S).astype(np.int64)
    none = np.full(len(value), -1, dtype=np.int64)
    return Series(source, time_ns, time_ns, value, time_ns if is_stamped else none, np.zeros_like(none))


def _over_phases(ratio: Float64s) -> Prediction:
    known = ratio[np.isfinite(ratio)]
    if not len(known):
        return Prediction(math.nan, math.nan, 0.0)
    return Prediction(float(known.mean()) - 1, float(known.std()), len(known) / len(ratio))

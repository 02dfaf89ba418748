"""The response of each power source to a load that is switched on: readings and the fitted model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from ptxbench.report.figure import new_figure, save, title
from ptxbench.sensors.characterize.load_signal import load_signal
from ptxbench.sensors.characterize.probe import SensorCharacterization
from ptxbench.sensors.characterize.response import respond
from ptxbench.sensors.signal import PowerSignal
from ptxbench.sensors.trace import NS_PER_S, Float64s, KernelWindow, Series, Trace
from ptxbench.storage.sensor_file import SensorFile

_ROW_IN = 2.0
_BEFORE_S = 0.1
_LONGEST_S = 1.5
_POINTS = 600


def plot_sensors(found: SensorFile, trace: Trace, windows: Sequence[KernelWindow], path: Path) -> None:
    """Draw one panel a source: its values after the load was switched on, and the model.

    Args:
        found: The description.
        trace: The recording that it was found from.
        windows: When the load was on.
        path: Picture to write; its ending chooses the format (.png, .svg, .pdf).

    Raises:
        InputError: matplotlib is not installed, or the file cannot be written.
    """
    sources = [source for source in found.sources if not math.isnan(source.explained)]
    figure = new_figure(8, 0.6 + _ROW_IN * len(sources))
    every_axes = figure.subplots(len(sources), 1, squeeze=False)[:, 0]
    load = load_signal(windows, trace)
    for axes, source in zip(every_axes, sources, strict=True):
        sensor = source.sensor
        series = trace.of(sensor.source)
        if series is None:
            continue
        time_s, value_w = _fresh(series, trace.begin_ns)
        reach_s = min(_LONGEST_S, 2 * sensor.settle_s + 0.1)
        for start_s in _long_starts_s(windows, trace.begin_ns, reach_s):
            near = (time_s > start_s - _BEFORE_S) & (time_s < start_s + reach_s)
            axes.plot(1e3 * (time_s[near] - start_s), value_w[near], ".", ms=3, color="#2f6fb0")
            at_s = np.linspace(start_s - _BEFORE_S, start_s + reach_s, _POINTS)
            axes.plot(1e3 * (at_s - start_s), _model_w(source, load, at_s), lw=0.8, color="0.6", zorder=0)
        axes.axvline(0, color="0.8", lw=0.8, zorder=0)
        axes.set_ylabel(f"{sensor.source}, W")
    every_axes[0].set_title(title(found.gpu), loc="left")
    every_axes[-1].set_xlabel("ms since the load was switched on (dots: fresh values; lines: fitted model)")
    save(figure, path)


def _long_starts_s(windows: Sequence[KernelWindow], origin_ns: int, reach_s: float) -> list[float]:
    """Return the starts of pulses that last as long as is drawn, and have half of that before them."""
    starts_s = [
        (after.start_ns - origin_ns) / NS_PER_S
        for before, after in pairwise(windows)
        if after.elapsed_s >= min(reach_s, 1.0) and after.start_ns - before.end_ns > 0.5e9 * min(reach_s, 1.0)
    ]
    return starts_s or [(windows[0].start_ns - origin_ns) / NS_PER_S]


def _fresh(series: Series, origin_ns: int) -> tuple[Float64s, Float64s]:
    """Return times and values of a series where they change; watts also for the counter."""
    good = series.good()
    changed = np.flatnonzero(np.diff(good.value, prepend=good.value[0])) if good.stamp_ns[0] < 0 else None
    time_s = (good.time_ns - origin_ns) / NS_PER_S
    value = good.value
    if changed is not None:
        time_s, value = time_s[changed], value[changed]
    if series.counts_energy:
        return time_s[1:], np.diff(value) / np.diff(time_s)
    return time_s, value


def _model_w(source: SensorCharacterization, load: PowerSignal, at_s: Float64s) -> Float64s:
    """Return what the fitted model reads at any moment."""
    sensor = source.sensor
    width_s = source.averaging_s.value / (1 if sensor.shape == "boxcar" else 2)
    response = respond(load, sensor.shape, max(width_s, 2.5e-4))(at_s - sensor.lag_s)
    return np.asarray(source.idle_w.value + source.step_w.value * response)
